"""Git in a folder of somebody else's: what it would run, and that it does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from prong.event import ToolFinished
from prong.testing import Worlds, call, say
from prong.tools.gitenv import guard_git

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L5")]


def plant(folder: Path, mark: Path) -> None:
    """Make a repository without a work tree, as a clone can carry it, that runs a program."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "--bare", "."], cwd=folder, check=True)
    for key, value in (
        ("core.bare", "false"),
        ("core.worktree", "."),
        ("core.fsmonitor", f"touch {mark}; false"),
    ):
        subprocess.run(["git", "config", "-f", "config", key, value], cwd=folder, check=True)


def test_a_planted_repository_runs_its_program(tmp_path: Path) -> None:
    """Git alone runs what the folder names; with the settings of commands it does not."""
    plant(tmp_path / "docs", tmp_path / "mark")

    def status(**env: str) -> bool:
        words = ["git", "-C", "docs", "status"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_CONFIG")}
        subprocess.run(words, cwd=tmp_path, env={**clean, **env}, capture_output=True, check=False)
        found = (tmp_path / "mark").exists()
        (tmp_path / "mark").unlink(missing_ok=True)
        return found

    assert status()
    assert not status(**guard_git({}))


async def test_commands_get_the_settings(world: Worlds) -> None:
    """An allowed command in a planted repository does not run its program, in any folder."""
    lines = ["git -C docs status", "cd docs && git status"]
    script = [*(call("Bash", {"command": line}) for line in lines), say("Done.")]
    async with world(script, opens=False) as w:
        plant(w.root / "docs", w.root / "mark")
        async with w.open(allow=("Bash",)) as session:
            await session.run("Try")

        assert len(w.told(ToolFinished)) == 2
        assert not (w.root / "mark").exists()


def test_settings_are_added_after_those_that_are_there() -> None:
    """What the environment says already is kept."""
    there = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}

    added = guard_git(there)

    assert added["GIT_CONFIG_COUNT"] == "3"
    assert {"GIT_CONFIG_KEY_1", "GIT_CONFIG_KEY_2"} <= added.keys()
    assert "GIT_CONFIG_KEY_0" not in added
    assert guard_git({"GIT_CONFIG_COUNT": "x"})["GIT_CONFIG_COUNT"] == "2"
