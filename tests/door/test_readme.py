import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from prong.testing import Script, ServerProcess, say

pytestmark = pytest.mark.door

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
REPORT = "Scope: as told\nResult: done\nKey files: none\nFiles changed: none\nIssues: none"


def test_the_program_in_the_readme_runs(tmp_path):
    """The README's program runs as it stands, and its forks read the parent's cache."""
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    with ServerProcess(Script(forever=say(REPORT))) as server:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={
                **kept,
                "HOME": str(tmp_path / "home"),
                "ANTHROPIC_API_KEY": "key",
                "ANTHROPIC_BASE_URL": server.url,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        reads = [row["usage"]["read"] for row in server.requests()]

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("done ") == 2
    assert len(reads) == 3
    assert min(reads[1:]) > 0


def test_the_commands_of_the_readme_exist():
    """Each `make` target and each `prong` command that the README names is there."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b(?= +#|`)", README))
    helped = subprocess.run(
        [sys.executable, "-m", "prong", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = set(re.findall(r"^    prong ([a-z][a-z-]*)", README, re.MULTILINE))

    assert {"demo", "test", "bench"} <= named <= targets
    assert commands
    assert all(re.search(rf"^  {command}\b", helped, re.MULTILINE) for command in commands)


def test_the_readme_fits_one_screen():
    """The README stays a page that is read at a glance."""
    lines = README.splitlines()

    assert len(lines) <= 100
    assert all(len(line) <= 101 for line in lines if not line.startswith("|"))


@pytest.mark.parametrize(
    ("page", "limit"),
    [("AGENTS.md", 120), *((str(p.relative_to(ROOT)), 60) for p in ROOT.glob("docs/decisions/*"))],
)
def test_short_pages_stay_short(page, limit):
    """Instructions and decision notes keep their budgets of lines."""
    assert len((ROOT / page).read_text("utf-8").splitlines()) < limit


def test_decision_notes_are_numbered():
    """Each has the next number, in its name and in its title."""
    notes = sorted(ROOT.glob("docs/decisions/*.md"))
    numbers = [f"{number:03}" for number in range(1, len(notes) + 1)]

    assert [note.name.split("-")[0] for note in notes] == numbers
    assert [note.read_text("utf-8")[2:6] for note in notes] == [f"{number}:" for number in numbers]
