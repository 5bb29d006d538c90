"""Paths as texts with slashes, whatever the system has; see `windows_path` for Windows."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    from prong.system import windows_path
    from prong.system.windows_path import has_root, why_unclear, with_slashes

    is_unclear_word = windows_path.is_unclear_word

    def real_path(path: str | os.PathLike[str], *, strict: bool = False) -> str:
        """Give the path of what a path leads to, absolute, links followed; raises OSError."""
        return with_slashes(os.path.realpath(path, strict=strict))

    def normal_path(path: str | os.PathLike[str]) -> str:
        """Give a path without dots and doubled slashes; nothing is looked at."""
        return with_slashes(os.path.normpath(os.fspath(path)))

    def is_absolute(path: str) -> bool:
        """Whether a path says itself where it begins."""
        return has_root(with_slashes(path))

    def why_refused(path: str) -> str:
        """Say why a path is not used, as nobody can tell by its text what it names."""
        return why_unclear(path)

    def from_shell(path: str) -> str:
        """Give the path that bash calls so."""
        return with_slashes(path)

    def top_of(path: str) -> str:
        """Give the folder above all others of an absolute path."""
        return path[:3]

else:

    def normal_path(path: str | os.PathLike[str]) -> str:
        """Give a path without dots and doubled slashes; nothing is looked at."""
        return os.path.normpath(os.fspath(path))

    def is_absolute(path: str) -> bool:
        """Whether a path says itself where it begins."""
        return os.path.isabs(path)  # noqa: PTH117 - strings throughout

    def real_path(path: str | os.PathLike[str], *, strict: bool = False) -> str:
        """Give the path of what a path leads to, absolute, links followed; raises OSError."""
        return os.fspath(os.path.realpath(path, strict=strict))

    def why_refused(path: str) -> str:
        """Say why a path is not used, as nobody can tell by its text what it names."""
        del path
        return ""

    def is_unclear_word(text: str) -> bool:
        """Whether a shell and the programs it starts may take a word for different paths."""
        del text
        return False

    def from_shell(path: str) -> str:
        """Give the path that bash calls so."""
        return path

    def top_of(path: str) -> str:
        """Give the folder above all others of an absolute path."""
        del path
        return "/"


def user_home() -> str:
    """Give the user's home folder."""
    return normal_path(os.path.expanduser("~"))  # noqa: PTH111 - strings throughout
