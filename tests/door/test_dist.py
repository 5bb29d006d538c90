"""The wheel: built, installed where nothing else is, and run there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

import prong
from prong.testing import ServerProcess, call, say

pytestmark = [pytest.mark.door, pytest.mark.spec("X4"), pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel and source distribution, as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def home(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own; what it needs is borrowed from this one."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    [wheel] = built.glob("*.whl")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(folder / "venv/bin/python"), "install"),
            *("-q", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    # Files of paths in a folder that is named by one are not read: our own checkout stays out.
    (site / "borrowed.pth").write_text(get_path("purelib") + "\n")
    return folder


def run(home: Path, folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program, *rest = words
    return subprocess.run(
        [str(home / "venv/bin" / program), *rest],
        cwd=folder,
        env={"PATH": f"{home}/venv/bin:{os.environ['PATH']}", "HOME": str(folder), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_runs_from_the_wheel(home: Path, tmp_path: Path):
    """`prong -p` reads a file and answers, with nothing of this checkout on its path."""
    (tmp_path / "a.txt").write_text("42\n")
    script = [call("Read", {"file_path": "a.txt"}), say("It says 42.")]
    with ServerProcess(script) as server:
        words = ("prong", "-p", "What does a.txt say?", "--model", "claude-sonnet-5-5")
        done = run(home, tmp_path, *words, ANTHROPIC_BASE_URL=server.url)
    where = run(home, tmp_path, "python", "-c", "import prong; print(prong.__file__)")
    version = run(home, tmp_path, "prong", "--version")

    assert (done.stdout, done.returncode) == ("It says 42.\n", 0), done.stderr
    assert where.stdout.startswith(str(home))
    assert prong.__version__ in version.stdout


def test_an_agent_in_a_process_of_its_own_runs_from_the_wheel(home: Path, tmp_path: Path):
    """Workers find the package again, and the test kit is part of it."""
    code = (
        "import anyio\n"
        "from prong.testing import world, say, forks, report, Script\n"
        "async def main():\n"
        "    script = Script([forks('look'), say('W.'), say('D.')], {'look': [report('seen')]})\n"
        '    settings = \'{"agents": {"backend": "process"}}\'\n'
        "    async with world(script, settings=settings, mode='dontAsk') as w:\n"
        "        await w.session.run('Go.')\n"
        "        print([r.status for r in w.session.receipts()])\n"
        "anyio.run(main)\n"
    )
    done = run(home, tmp_path, "python", "-c", code)

    assert done.stdout == "['completed']\n", done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(built: Path):
    """Every module and every text is in it, the marker for types too; no test and no benchmark."""
    [wheel] = built.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in packed if ".dist-info/" not in name} == ours
    assert "prong/py.typed" in packed


def test_the_source_builds_and_is_whole(built: Path):
    """Tests, pages and examples are in the source distribution, and no folder of a developer's."""
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as file:
        names = {name.partition("/")[2] for name in file.getnames()}

    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "docs/testing.md"} <= names
    assert {"tests/conftest.py", "examples/support_bot.run", "src/prong/py.typed"} <= names
    assert not [name for name in names if re.match(r"\.(venv|git/|ci|pytest_cache|prong)", name)]


def test_versions_are_declared_as_far_as_they_were_tried():
    """The Python that runs this is among those that are declared, and the oldest is what is required."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))

    assert said == sorted(said, key=lambda one: int(one[2:]))
    assert project["requires-python"] == f">={said[0]}"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in said
