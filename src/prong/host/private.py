"""Folders for one's own eyes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from prong.system.descriptor import is_open_to_others
from prong.system.identity import user_id
from prong.system.path_form import normal_path


def close_to_others(folder: Path) -> bool:
    """Take away what others may do in a folder of one's own; gives whether they could and cannot.

    A folder that is none, or another's, is left as it is.
    """
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user_id():
            return False
        if not is_open_to_others(found):
            return False
        folder.chmod(0o700)
        # Some file systems know no rights, and say nothing.
        return not is_open_to_others(folder.stat())
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


def is_own_folder(folder: str) -> bool:
    """Whether there is a folder of that name that belongs to us."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user_id()


def remove_tree(folder: str) -> None:
    """Remove a folder with all that is in it, as far as that can be."""
    try:
        os.rmdir(folder)  # noqa: PTH106 - most are empty
    except OSError:
        import shutil

        shutil.rmtree(folder, onerror=_remove_closed)


def _remove_closed(way: object, path: str, info: object) -> None:
    """Remove what could not be looked into: an empty folder needs not be."""
    del way, info
    with suppress(OSError):
        os.rmdir(path)  # noqa: PTH106 - strings throughout


def socket_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Name where sockets for the user's own processes are made, the best first."""
    return _socket_folders(user_id(), env.get("XDG_RUNTIME_DIR"), env.get("TMPDIR"))


@lru_cache(maxsize=8)
def _socket_folders(uid: int, run: str | None, temp: str | None) -> tuple[str, ...]:
    named = (
        f"{run}/prong" if run else "",
        f"/run/user/{uid}/prong",
        f"{temp}/prong-{uid}" if temp else "",
        f"/tmp/prong-{uid}",  # noqa: S108 - ours alone, and checked by who uses it
    )
    return tuple(dict.fromkeys(normal_path(one) for one in named if one.startswith("/")))
