"""Where the sockets of a team are: short paths, in a folder for the user alone."""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from prong.errors import NotPossibleNow
from prong.host.private import socket_folders
from prong.system.descriptor import is_open_to_others
from prong.system.identity import user_id
from prong.system.user_socket import open_user_socket

BELL, VIEW = "bell", "view"
"""The kinds of sockets that a member has: it waits at the one, and is seen by the other."""
PATH_LIMIT = 103
"""Bytes that the path of a socket may have everywhere, the zero at its end left out."""
_DAY = 86_400.0


def socket_paths(folder: Path, member: str, kind: str) -> tuple[Path, ...]:
    """Give where a member's socket may be, likeliest first.

    Two processes of one user need not agree on the environment, so that whoever connects looks
    in all of these; the name is made from the team's folder and says nothing.
    """
    return _socket_paths(folder, member, kind, socket_folders(os.environ))


@lru_cache(maxsize=256)
def _socket_paths(
    folder: Path, member: str, kind: str, places: tuple[str, ...]
) -> tuple[Path, ...]:
    name = blake2b(os.fsencode(f"{folder.resolve()}\0{member}\0{kind}"), digest_size=12).hexdigest()
    paths = (Path(place, name) for place in places)
    return tuple(path for path in paths if len(os.fsencode(path)) <= PATH_LIMIT)


def new_socket_path(folder: Path, member: str, kind: str) -> Path:
    """Give where a member's socket is to be made, its folder made and checked.

    Raises NotPossibleNow if there is no folder that is ours alone.
    """
    refused = list[str]()
    for path in socket_paths(folder, member, kind):
        if why := _unfit(path.parent):
            refused.append(f"{path.parent} {why}")
        else:
            return path
    told = "; ".join(refused) or "their paths are too long"
    raise NotPossibleNow(f"there is no folder for sockets ({told}); set XDG_RUNTIME_DIR to one")


def remove_sockets(folder: Path, member: str) -> None:
    """Remove what a member that was killed has left of its sockets."""
    for kind in (BELL, VIEW):
        for path in socket_paths(folder, member, kind):
            with suppress(OSError):
                path.unlink()


def sweep_sockets(folder: Path) -> None:
    """Remove the sockets of a folder of ours at which nobody has listened for long.

    Who was killed left them, and may be on no list. One is asked, as a number in a name would say
    nothing in a container that shares the folder. One of today may be about to be listened at.
    """
    before = time.time() - _DAY
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):
                seen = one.stat(follow_symlinks=False)
                old = stat.S_ISSOCK(seen.st_mode) and seen.st_mtime < before
                if old and _is_deserted(one.path):
                    os.unlink(one.path)  # noqa: PTH108 - strings throughout


def _is_deserted(path: str) -> bool:
    """Whether nobody listens at a socket; who does, and is of another kind or busy, says so."""
    with open_user_socket(socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return True
    return False


def _unfit(folder: Path) -> str:
    """Make a folder; says why it cannot be used."""
    with suppress(FileExistsError):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            raise
        except OSError as error:
            return f"cannot be made ({error.strerror})"
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != user_id():
        return "is another user's"
    if is_open_to_others(found):
        return "is open to others (chmod 700)"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "cannot be written"
