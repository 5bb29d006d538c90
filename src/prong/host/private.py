"""Folders for one's own eyes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path


def close_to_others(folder: Path) -> bool:
    """Take away what others may do in a folder of one's own; gives whether they could and cannot.

    A folder that is none, or another's, is left as it is.
    """
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        if not found.st_mode & 0o077:
            return False
        folder.chmod(0o700)
        # Some file systems know no rights, and say nothing.
        return not folder.stat().st_mode & 0o077
    except OSError:
        return False


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, all of them for their owner alone.

    Raises OSError.
    """
    if not folder.is_dir():
        # With `parents=True` those above would be open to everybody.
        make_private(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:
            why = os.strerror(errno.ENOTDIR)
            raise NotADirectoryError(errno.ENOTDIR, why, str(folder)) from error


def socket_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Name where sockets for the user's own processes are made, the best first."""
    return _socket_folders(os.getuid(), env.get("XDG_RUNTIME_DIR"), env.get("TMPDIR"))


@lru_cache(maxsize=8)
def _socket_folders(uid: int, run: str | None, temp: str | None) -> tuple[str, ...]:
    named = (
        f"{run}/prong" if run else "",
        f"/run/user/{uid}/prong",
        f"{temp}/prong-{uid}" if temp else "",
        f"/tmp/prong-{uid}",  # noqa: S108 - ours alone, and checked by who uses it
    )
    return tuple(dict.fromkeys(os.path.normpath(one) for one in named if one.startswith("/")))
