"""Glob and Grep on a real folder with the real ripgrep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from prong.host import Finished
from prong.testing import MemoryHost
from prong.tools.access import Reading
from prong.tools.files import Glob, Grep
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L2")]

FILES = {
    ".gitignore": "node_modules/\n*.log\n!keep.log\n",
    ".github/ci.yml": "name: needle\n",
    ".git/config": "needle\n",
    ".prong/worktrees/w/copy.py": "needle\n",
    "node_modules/m/x.py": "needle\n",
    "drop.log": "needle\n",
    "keep.log": "needle\n",
    "top.py": "import os\nneedle = 1\n",
    "src/a.py": "one\ntwo\nneedle here\nfour\nNEEDLE\n",
    "src/deep/b.py": "needle\nneedle\n",
    "src/deep/c.ts": "needle: string\n",
    "src/d e.tsx": "nothing\n",
    "bin.dat": "\0needle\0",
}


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    root = tmp_path / "project"
    for age, (name, text) in enumerate(FILES.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return Workbench(root)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", ["top.py", "src/a.py", "src/deep/b.py"]),
        ("*.py", ["top.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.{ts,tsx}", ["src/deep/c.ts", "src/d e.tsx"]),
        ("src/**", ["src/a.py", "src/deep/b.py", "src/deep/c.ts", "src/d e.tsx"]),
        ("**/deep/?.[a-p]y", ["src/deep/b.py"]),
        ("**/[!ab].*", ["src/deep/c.ts"]),
        ("top.py", ["top.py"]),
        ("./src/a.py", ["src/a.py"]),
        ("**/*.log", ["keep.log"]),
        (".github/**", [".github/ci.yml"]),
        ("**/*.nothing", ["[no files match **/*.nothing]"]),
        ("node_modules/**/*.py", ["node_modules/m/x.py"]),
    ],
)
async def test_glob_finds_what_the_project_does_not_ignore(
    bench: Workbench, pattern: str, found: list[str]
) -> None:
    """Patterns match from the root, newest first; ignored files only if their folder is named."""
    assert await bench.lines(Glob(), pattern=pattern) == found


async def test_glob_of_everything_respects_gitignore(bench: Workbench) -> None:
    """`**/*` lists neither ignored files nor the insides of .git or second checkouts."""
    assert await bench.lines(Glob(), pattern="**/*") == [
        ".gitignore",
        ".github/ci.yml",
        "keep.log",
        "top.py",
        "src/a.py",
        "src/deep/b.py",
        "src/deep/c.ts",
        "src/d e.tsx",
        "bin.dat",
    ]


async def test_glob_in_a_folder(bench: Workbench, tmp_path: Path) -> None:
    """A path is where patterns count from; results below the root stay relative to it."""
    assert await bench.lines(Glob(), pattern="*.py", path="src") == ["src/a.py"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/z.py").touch()
    assert await bench.lines(Glob(), pattern=f"{tmp_path}/other/*.py") == [f"{tmp_path}/other/z.py"]
    assert await bench.lines(Glob(), pattern="../other/*.py") == [f"{tmp_path}/other/z.py"]


async def test_glob_declares_the_folder_it_really_searches(
    bench: Workbench, tmp_path: Path
) -> None:
    """Neither `..`, an absolute pattern nor a link hides where a search goes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (bench.root / "link").symlink_to(outside)
    root = str(bench.root)
    assert bench.access(Glob(), pattern="**/*") == [Reading(root)]
    assert bench.access(Glob(), pattern="src/**/*.py") == [Reading(f"{root}/src")]
    assert bench.access(Glob(), pattern="../outside/*") == [Reading(str(outside))]
    assert bench.access(Glob(), pattern="/etc/**") == [Reading("/etc")]
    assert bench.access(Glob(), pattern="/*") == [Reading("/")]
    assert bench.access(Glob(), pattern="link/*") == [Reading(str(outside))]
    assert bench.access(Glob(), pattern="*", path="link") == [Reading(str(outside))]
    assert "cannot follow" in await bench.why(Glob(), pattern="*/../../outside/*")
    assert bench.access(Grep(), pattern="x", path="link") == [Reading(str(outside))]
    assert bench.access(Grep(), pattern="x") == [Reading(root)]


async def test_glob_failures(bench: Workbench) -> None:
    """Bad folders and patterns fail with a reason; too many files are capped with a note."""
    assert "not a folder" in await bench.why(Glob(), pattern="*", path="nowhere")
    assert "not a folder" in await bench.why(Glob(), pattern="*", path="top.py")
    assert "cannot be used" in await bench.why(Glob(), pattern="[z-a]*")
    assert "more than 256" in await bench.why(Glob(), pattern="{a,b}" * 9)
    assert "line break" in await bench.why(Glob(), pattern="a*\nb")
    many = bench.root / "many"
    many.mkdir()
    for i in range(250):
        (many / f"{i}.txt").touch()
    lines = await bench.lines(Glob(), pattern="many/*.txt")
    assert len(lines) == 201
    assert lines[-1] == "[50 more files; the newest 200 are shown]"


async def test_grep_modes(bench: Workbench) -> None:
    """Files, lines and counts; sorted by path; ignored and binary files left out."""
    assert await bench.lines(Grep(), pattern="needle") == [
        ".github/ci.yml",
        "keep.log",
        "src/a.py",
        "src/deep/b.py",
        "src/deep/c.ts",
        "top.py",
    ]
    assert await bench.lines(Grep(), pattern="needle", output_mode="count", type="py") == [
        "src/a.py:1",
        "src/deep/b.py:2",
        "top.py:1",
    ]
    assert await bench.lines(Grep(), pattern="needle", output_mode="content", path="src") == [
        "src/a.py:3:needle here",
        "src/deep/b.py:1:needle",
        "src/deep/b.py:2:needle",
        "src/deep/c.ts:1:needle: string",
    ]


async def test_grep_options(bench: Workbench) -> None:
    """Case, context, numbers, multiline and limit do what their names say."""
    call: dict[str, Any] = {"pattern": "needle", "output_mode": "content", "path": "src/a.py"}
    assert await bench.lines(Grep(), **call, dash_i=True, dash_n=False) == [
        "src/a.py:needle here",
        "src/a.py:NEEDLE",
    ]
    assert await bench.lines(Grep(), **call, dash_B=1, dash_A=0) == [
        "src/a.py:2-two",
        "src/a.py:3:needle here",
    ]
    assert await bench.lines(Grep(), **{**call, "pattern": "one|NEEDLE"}, dash_C=1) == [
        "src/a.py:1:one",
        "src/a.py:2-two",
        "--",
        "src/a.py:4-four",
        "src/a.py:5:NEEDLE",
    ]
    call["pattern"] = r"two.needle"
    assert await bench.lines(Grep(), **call) == ["[no matches for two.needle]"]
    assert await bench.lines(Grep(), **call, multiline=True) == [
        "src/a.py:2:two",
        "src/a.py:3:needle here",
    ]
    assert await bench.lines(Grep(), pattern="e", head_limit=2) == [
        ".github/ci.yml",
        ".gitignore",
        "[5 more lines]",
    ]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["src/a.py", "src/deep/b.py", "top.py"]),
        ("src/**/*.py", ["src/a.py", "src/deep/b.py"]),
        ("src/*.py", ["src/a.py"]),
        ("*.{ts,yml}", [".github/ci.yml", "src/deep/c.ts"]),
        ("!*.py", [".github/ci.yml", "keep.log", "src/deep/c.ts"]),
        (
            "*",
            [".github/ci.yml", "keep.log", "src/a.py", "src/deep/b.py", "src/deep/c.ts", "top.py"],
        ),
    ],
)
async def test_grep_globs_do_not_bring_back_ignored_files(
    bench: Workbench, glob: str, found: list[str]
) -> None:
    """A glob narrows the search and never widens it past .gitignore."""
    assert await bench.lines(Grep(), pattern="needle", glob=glob) == found


async def test_grep_never_takes_a_pattern_for_an_option(bench: Workbench) -> None:
    """A pattern that begins with dashes is searched for."""
    (bench.root / "opt.txt").write_text("--pre=touch pwned\n-e\n")
    assert await bench.lines(Grep(), pattern="--pre=touch pwned") == ["opt.txt"]
    assert await bench.lines(Grep(), pattern="-e$") == ["opt.txt"]
    assert not (bench.root / "pwned").exists()


async def test_grep_leaves_out_what_a_rule_forbids(bench: Workbench) -> None:
    """Lines of a file that may not be read are not shown, whatever the mode."""
    forbidden = f"{bench.root}/src/a.py"
    bench.context.keeps_back = lambda path, _: path == forbidden
    for mode in ("files_with_matches", "count", "content"):
        lines = await bench.lines(Grep(), pattern="needle", type="py", output_mode=mode)
        assert lines
        assert not [line for line in lines if "a.py" in line]


async def test_glob_leaves_out_what_a_rule_forbids(bench: Workbench) -> None:
    """The names of files that may not be read are not listed either."""
    forbidden = f"{bench.root}/src/a.py"
    assert "src/a.py" in await bench.lines(Glob(), pattern="**/*.py")
    bench.context.keeps_back = lambda path, _: path == forbidden
    assert "src/a.py" not in await bench.lines(Glob(), pattern="**/*.py")


async def test_grep_failures(bench: Workbench) -> None:
    """Bad expressions, types, globs and paths fail with ripgrep's or our own reason."""
    assert "regex parse error" in await bench.why(Grep(), pattern="(")
    assert "nosuchtype" in await bench.why(Grep(), pattern="x", type="nosuchtype")
    assert "no such file" in await bench.why(Grep(), pattern="x", path="nowhere")
    assert "cannot be used" in await bench.why(Grep(), pattern="x", glob="[z-a]")
    assert await bench.why(Grep(), pattern="a\0b")


async def test_a_search_that_takes_too_long_says_so() -> None:
    """A search past its time fails and asks for a narrower one."""
    late = Finished(-15, b"", timed_out=True)
    bench = Workbench(Path("/project"))
    bench.context.host = MemoryHost({"a": "x"}, lambda command: late)
    assert "longer than" in await bench.why(Grep(), pattern="x")
    assert "longer than" in await bench.why(Glob(), pattern="*")


async def test_a_search_that_is_killed_is_not_one_that_found_nothing() -> None:
    """A search that ends by itself before its end says so, with what it had found by then."""
    bench = Workbench(Path("/project"))
    bench.context.host = MemoryHost({"a": "x"}, lambda command: Finished(-9, b""))
    assert "ended with -9" in await bench.why(Grep(), pattern="x")
    assert "ended with -9" in await bench.why(Glob(), pattern="*")
    bench.context.host = MemoryHost({"a": "x"}, lambda command: Finished(-9, b"a\0"))
    assert await bench.lines(Grep(), pattern="x") == [
        "a",
        "[not all was searched: the search ended with -9]",
    ]
    assert await bench.lines(Glob(), pattern="*") == [
        "a",
        "[not all was searched: the search ended with -9]",
    ]
