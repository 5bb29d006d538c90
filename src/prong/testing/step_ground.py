"""A repository in which an operation is killed again and again, always from the same beginning."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from prong.testing.repository import Repo, make_repo


class StepGround:
    """A repository, and copies of it as it was at other times.

    A copy takes the place of the repository: worktrees know each other by their whole paths.
    """

    def __init__(self, folder: Path) -> None:
        """Make the repository in a folder."""
        self.folder = folder
        self.repo = make_repo(folder / "project")
        # A copy has other inodes and times of change.
        self.repo.git("config", "core.trustctime", "false")
        self.repo.git("config", "core.checkStat", "minimal")

    def save(self, name: str) -> None:
        """Keep the repository as it is now."""
        self._copy(self.repo.path, self.folder / name)

    def restore(self, name: str) -> None:
        """Have the repository as it was then."""
        self._copy(self.folder / name, self.repo.path)

    def _copy(self, source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", "--", str(source), str(target)], check=True)


class StepOperation(msgspec.Struct, frozen=True):
    """Something that is killed, and what has to be true wherever that was."""

    prepare: Callable[[Repo], Awaitable[object]]
    """Makes what it begins with; its process has ended before the operation begins."""
    perform: Callable[[Repo], Awaitable[object]]
    judge: Callable[[StepGround], Awaitable[str]]
    """Says what is wrong with what a kill has left; it was saved as `start` before the operation,
    and as `end` after one that was not killed."""
