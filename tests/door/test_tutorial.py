"""The tutorial: every command is typed, and every screen is what it printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prong.testing.sample import FILES, write

pytestmark = [pytest.mark.door, pytest.mark.spec("X4")]

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(240)
def test_the_screens_are_what_the_commands_print():
    """docs/tutorial.md is what `make docs` would write, figures aside."""
    done = subprocess.run(
        [sys.executable, "docs/play_tutorial.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_sample_replaces_nothing(tmp_path: Path):
    """The project that the tutorial works on is written where nothing of its name is."""
    write(tmp_path / "till")

    assert all((tmp_path / "till" / name).read_text() == text for name, text in FILES.items())
    with pytest.raises(FileExistsError):
        write(tmp_path / "till")
