"""Where a child in a worktree may write, and what paths of its forebears mean to it, by name."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Self

import msgspec


class WriteBounds(msgspec.Struct, frozen=True):
    """The bounds of one child; all paths are absolute, with their links followed."""

    root: str
    """The root folder of its worktree."""
    inherited: tuple[str, ...] = ()
    """The root folders of the working copies of its forebears, the longest first."""
    folders: tuple[str, ...] = ()
    """Places outside that may be written."""

    @classmethod
    def of(cls, root: str, inherited: Sequence[str], folders: Sequence[str]) -> Self:
        """Put bounds together."""
        places = sorted({*inherited} - {root}, key=lambda folder: (-len(folder), folder))
        return cls(root, tuple(places), tuple(folders))

    def place(self, path: str) -> str:
        """Give the folder that makes a path writable; empty if none does."""
        return next((f for f in (self.root, *self.folders) if is_inside(path, f)), "")

    def moved(self, path: str) -> str:
        """Give the place in the worktree that a forebear's path means; any other stays."""
        if self.place(path):
            return path
        for folder in self.inherited:
            if is_inside(path, folder):
                return self.root + path[len(folder) :]
        return path

    def hold(self, path: str, real: str) -> str:
        """Give what a path has led to.

        Raises PermissionError if it was checked as one in the worktree and leads out of it.
        """
        if is_inside(path, self.root) and not is_inside(real, self.root):
            raise PermissionError(errno.EPERM, "a link in it leads out of the worktree", path)
        return real

    def hold_written(self, path: str) -> str:
        """Give the folder below which a path may be written.

        Raises PermissionError if there is none.
        """
        place = self.place(path)
        if not place or path == place:
            raise PermissionError(errno.EPERM, self._refusal, path)
        return place

    def hold_start(self, folder: str) -> str:
        """Give a folder in which a command may start.

        Raises PermissionError if it may not.
        """
        if not self.place(folder):
            why = f"it is no place to start in: {self._refusal}"
            raise PermissionError(errno.EPERM, why, folder)
        return folder

    @property
    def _refusal(self) -> str:
        return f"it is outside your worktree; write below {self.root}"


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
