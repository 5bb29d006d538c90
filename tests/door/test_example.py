"""The programs of examples/ run as they stand, against a model that is scripted."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import anyio
import pytest

from prong.testing import Script, Server, call, calls, report, say
from prong.testing.run_file import read_run

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("B1", "B4", "B5", "B8")]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT / "src"),
        "PRONG_MODEL": "claude-sonnet-5-5",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.c",
        **more,
    }


def project(folder: Path, *versions: dict[str, str]) -> Path:
    """Make a repository with a commit for each version."""
    root = folder / "project"
    root.mkdir()
    (folder / "home").mkdir()
    env = environment(folder)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, env=env)
    for files in versions:
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True, env=env)
        subprocess.run(["git", "commit", "-qm", "one more"], cwd=root, check=True, env=env)
    return root


async def run(script: Script, folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run an example, as a user would with a key."""
    async with Server(script) as server:
        env = environment(folder, ANTHROPIC_BASE_URL=server.url)
        return await anyio.run_process(
            [sys.executable, *words], cwd=folder, env=env, check=False, stdin=subprocess.DEVNULL
        )


async def test_the_reviewer_merges_what_forks_found(tmp_path: Path):
    """One fork for each changed file, findings as values, the worst first, and what was shared."""
    root = project(
        tmp_path, {"a.py": "x = 1\n", "b.py": "y = 1\n"}, {"a.py": "x = 2\n", "b.py": "y = 2\n"}
    )
    script = Script(
        [call("Bash", {"command": "git diff HEAD~1"}), say("Numbers go up.")],
        {
            "makes in a.py": [
                say('[{"line": 1, "severity": "low", "what": "a name says little"}]')
            ],
            "makes in b.py": [
                call("Read", {"file_path": "b.py"}),
                say('[{"line": 1, "severity": "high", "what": "callers expect 1"}]'),
            ],
        },
    )
    done = await run(script, tmp_path, str(EXAMPLES / "review.py"), str(root))
    said = done.stdout.decode().splitlines()

    assert done.returncode == 1, done.stderr.decode()
    assert said[:2] == ["b.py:1: high: callers expect 1", "a.py:1: low: a name says little"]
    assert "forks saved 8" in said[2] or "forks saved 9" in said[2]


async def test_hunters_report_to_the_main_agent(tmp_path: Path):
    """Typed agents run in the background, and what they find decides the answer."""
    root = project(tmp_path, {"a.py": "def total(x):\n    return x\n"})
    hunters = [f"suspicion {n}" for n in range(3)]
    script = Script(
        [
            calls(
                *(
                    (
                        "Agent",
                        {"description": f"hunt {n}", "prompt": text, "subagent_type": "hunter"},
                    )
                    for n, text in enumerate(hunters)
                )
            ),
            say("They hunt."),
        ],
        {
            text: [call("Read", {"file_path": str(root / "a.py")}), say(f"{text} dropped.")]
            for text in hunters
        },
        forever=say("The cause is in a.py:2."),
    )
    done = await run(script, tmp_path, str(EXAMPLES / "bug_hunt.py"), "wrong total", str(root))
    said = done.stdout.decode()

    assert said.endswith("The cause is in a.py:2.\n"), done.stderr.decode()
    assert said.count(": completed") == 3


async def test_a_migration_is_merged_once(tmp_path: Path):
    """Each file is changed in a worktree, and one merge brings all of them."""
    names = [f"tests/test_{name}.py" for name in "abc"]
    root = project(tmp_path, dict.fromkeys(names, "import unittest\n"))

    def steps(name: str) -> list[Any]:
        command = f"git add {name} && git commit -qm 'Migrate {name}'"
        return [
            call("Read", {"file_path": name}),
            call("Write", {"file_path": name, "content": "import pytest\n"}),
            call("Bash", {"command": command}),
            report("migrated"),
        ]

    routes = {f"recipe to {name}": steps(name) for name in names[:2]}
    routes[f"recipe to {names[2]}"] = [report("there is nothing to do")]
    script = Script([call("Read", {"file_path": names[0]}), say("The recipe.")], routes)
    done = await run(
        script, tmp_path, str(EXAMPLES / "migrate.py"), "to pytest", "tests/test_*.py", str(root)
    )
    said = done.stdout.decode()

    assert done.returncode == 0, said + done.stderr.decode()
    assert [(root / name).read_text() for name in names] == ["import pytest\n"] * 2 + [
        "import unittest\n"
    ]
    assert f"{names[2]}: nothing to change" in said


async def test_the_bot_answers_with_a_value(tmp_path: Path):
    """The function is called, and the answer is of the type."""
    script = Script(
        [
            call("find_order", {"number": 1002}),
            say('{"text": "It is on its way.", "next_step": "none"}'),
        ]
    )
    done = await run(script, tmp_path, str(EXAMPLES / "support_bot.py"), "Where is order 1002?")

    assert done.stdout.decode() == "It is on its way. [none]\n", done.stderr.decode()


def pytest_in(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    options = ("-q", "-p", "anyio", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_support_bot.py"],
        cwd=folder,
        env={**environment(folder, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def copied(folder: Path) -> Path:
    there = folder / "mine"
    there.mkdir()
    for name in ("support_bot.py", "test_support_bot.py", "support_bot.run"):
        shutil.copy(EXAMPLES / name, there / name)
    return there


@pytest.mark.timeout(240)
def test_the_test_of_the_bot_passes_as_it_was_recorded(tmp_path: Path):
    """Without a key and without a server; `make docs` records it anew if a prompt has moved."""
    done = pytest_in(copied(tmp_path))

    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(240)
async def test_the_test_of_the_bot_can_be_recorded(tmp_path: Path):
    """With PRONG_RECORD=1 the run is asked for anew, and replayed from then on."""
    there = copied(tmp_path)
    (there / "support_bot.run").unlink()
    async with Server(run_path(str(ROOT / "docs/record_example.py"))["LAMP"]) as server:
        env = {"PRONG_RECORD": "1", "ANTHROPIC_BASE_URL": server.url}
        recorded = await anyio.to_thread.run_sync(lambda: pytest_in(there, **env))
    again = await anyio.to_thread.run_sync(lambda: pytest_in(there))

    assert recorded.returncode == 0, recorded.stdout
    assert again.returncode == 0, again.stdout
    fresh, kept = ((folder / "support_bot.run").read_bytes() for folder in (there, EXAMPLES))
    assert [e.body for e in read_run(fresh).exchanges] == [e.body for e in read_run(kept).exchanges]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
async def test_a_notebook_runs_cell_by_cell(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Every cell is a task of its own, as a notebook runs them, and prints what it promises."""
    root = project(tmp_path, {"a.py": "x = 1\n"})
    monkeypatch.chdir(root)
    notebook = json.loads(path.read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    routes = {
        "Read the Python files": [call("Read", {"file_path": "a.py"}), say("It sets a number.")],
        "break first": [report("none takes any")],
        "promises more": [report("x does")],
        "not tested": [report("all of it")],
    }
    async with Server(Script(routes=routes)) as server:
        for name, value in environment(tmp_path, ANTHROPIC_BASE_URL=server.url).items():
            monkeypatch.setenv(name, value)
        names: dict[str, Any] = {}
        for cell in cells:
            code = compile(cell, path.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

            async def play(code: Any = code) -> None:
                made = eval(code, names)
                if made is not None:
                    await made

            async with anyio.create_task_group() as group:
                group.start_soon(play)
    said = capsys.readouterr().out

    assert notebook["nbformat"] == 4
    assert "It sets a number." in said
    assert "What is not tested? - all of it" in said
    assert said.count("of its first request shared") == 3
