"""A view of the files of a command's own: what it cannot change or read there, it cannot.

Landlock has no exceptions below a folder, and a mount has. In a mount namespace everything is
mounted read-only but for the writable folders, what is kept in those is mounted read-only again,
and over what is hidden something empty is mounted. Nothing of it is seen by other processes, and
nothing of it is left on the disk.

A thread enters it by itself. Who is not root has to be in a namespace of users before, which only a
process with one thread can enter: the starter is such a one when it begins.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

_NEW_NS, _NEW_USER = 0x00020000, 0x10000000
_REC, _PRIVATE = 0x4000, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _RECURSIVE, _FROM_EMPTY = 1, 0x8000, 0x4
_HERE = -100
_NO_SUID_EXEC = 0x2 | 0x8
_READ_ONLY = struct.pack("=QQQQ", 1, 0, 0, 0)

_libc = ctypes.CDLL(None, use_errno=True)


def enter(
    *,
    writable: Sequence[str] = (),
    pinned: Sequence[str] = (),
    kept: Sequence[str] = (),
    fleeting: Sequence[str] = (),
    masks: Sequence[tuple[str, str]] = (),
    terminals: bool = False,
    cwd: str,
) -> None:
    """Bring the calling thread into a view, by paths that are there and hold no links.

    What is `kept` has to be there; what is `fleeting` is kept as well if it still is: others make
    and remove such paths as they work. Masks are something empty, and what it is put over.

    Raises OSError.
    """
    _check(_libc.unshare(_NEW_NS), "unshare")
    _check(_libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None), "mount")
    # Copied before everything becomes read-only, so that each keeps what it was; and after that
    # what is to be read-only as well, by the paths that no open folder covers yet.
    opened = {path: _copy(path) for path in writable}
    _read_only("/")
    sealed = {path: _copy(path) for path in kept}
    sealed |= {path: tree for path in fleeting if (tree := _copy_if_there(path)) >= 0}
    sealed |= {path: _copy(source) for source, path in masks}
    # From the outside in: what is put over a folder covers what was put in it before.
    for path in sorted({*opened, *sealed, *pinned}, key=lambda one: one.count("/")):
        if path in sealed:
            try:
                _put(sealed[path], path)
            except FileNotFoundError:
                if path not in fleeting:
                    raise
        else:
            _put(opened[path] if path in opened else _copy(path), path)
    if terminals:
        _new_terminals()
    # The folder it stands in is the one below the mounts.
    os.chdir(cwd)


def enter_users() -> None:
    """Bring a process with one thread into a namespace of users, in which it may mount.

    Raises OSError.
    """
    assert sys.platform == "linux"
    uid, gid = os.geteuid(), os.getegid()
    _check(_libc.unshare(_NEW_USER), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _new_terminals() -> None:
    """Let it make terminals of its own, and see nobody else's."""
    options = b"newinstance,ptmxmode=0666,mode=0620"
    given = _libc.mount(b"devpts", b"/dev/pts", b"devpts", ctypes.c_ulong(_NO_SUID_EXEC), options)
    _check(given, "devpts")
    _put(_copy("/dev/pts/ptmx"), os.path.realpath("/dev/ptmx"))


def _copy(path: str) -> int:
    assert sys.platform == "linux"
    flags = ctypes.c_uint(_CLONE | _RECURSIVE | os.O_CLOEXEC)
    tree = _libc.syscall(ctypes.c_long(_OPEN_TREE), _HERE, os.fsencode(path), flags)
    return _check(tree, f"open_tree {path}")


def _copy_if_there(path: str) -> int:
    try:
        return _copy(path)
    except FileNotFoundError:
        return -1


def _put(tree: int, path: str) -> None:
    given = _libc.syscall(
        ctypes.c_long(_MOVE_MOUNT), tree, b"", _HERE, os.fsencode(path), ctypes.c_uint(_FROM_EMPTY)
    )
    os.close(tree)
    _check(given, f"move_mount {path}")


def _read_only(path: str) -> None:
    given = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        _HERE,
        path.encode(),
        ctypes.c_uint(_RECURSIVE),
        _READ_ONLY,
        ctypes.c_size_t(len(_READ_ONLY)),
    )
    _check(given, "mount_setattr")


def _write(path: str, text: str) -> None:
    assert sys.platform == "linux"
    place = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(place, text.encode())
    finally:
        os.close(place)


def _check(given: int, what: str) -> int:
    if given < 0:
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, f"the sandbox could not be made ({what}: {os.strerror(number)})")
    return given
