"""Landlock: what the calling thread and all that it starts may write.

Three system calls of Linux 5.13, made by number. They bind the calling thread alone and for good,
so each command is started by a thread of its own. What a ruleset handles is refused unless a rule
grants it below a folder; there is no exception below a rule.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Sequence

from msgspec import Struct

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38

WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
BIND_TCP, CONNECT_TCP = 1, 2
ABSTRACT_SOCKETS, SIGNALS = 1, 2

_ON_FILES = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
_SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
_NET_SINCE, _SCOPE_SINCE = 4, 6

_libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(Struct, frozen=True, kw_only=True):
    """A ruleset as numbers."""

    handled: int
    net: int = 0
    scoped: int = 0
    granted: int = 0
    """What is granted below writable folders."""


def rules_for(abi: int, *, network: bool, signals: bool, devices: bool) -> Ruleset:
    """Work out what a version of Landlock can be told.

    Device files can be made nowhere. `devices` says whether they can be controlled.
    """
    everything = (
        WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK
    ) | (MAKE_FIFO | MAKE_BLOCK | MAKE_SYM | REFER | TRUNCATE)
    if not devices:
        everything |= IOCTL_DEV
    for right, since in _SINCE.items():
        if abi < since:
            everything &= ~right
    scoped = ABSTRACT_SOCKETS | (0 if signals else SIGNALS)
    return Ruleset(
        handled=everything,
        net=BIND_TCP | CONNECT_TCP if abi >= _NET_SINCE and not network else 0,
        scoped=scoped if abi >= _SCOPE_SINCE else 0,
        granted=everything & ~(MAKE_CHAR | MAKE_BLOCK),
    )


def version() -> int:
    """Give the version of Landlock that the kernel has; 0 if there is none for us."""
    return max(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)), 0)


def restrict(
    abi: int,
    rules: Ruleset,
    writable: Iterable[str],
    devices: Iterable[str] = (),
    readable: Sequence[str] = (),
) -> None:
    """Bind the calling thread; what is not there is granted to nobody.

    With `readable`, no file elsewhere can be read.

    Raises OSError.
    """
    handled = rules.handled | (READ_FILE if readable else 0)
    attributes = struct.pack("=QQQ", handled, rules.net, rules.scoped)
    size = 24 if abi >= _SCOPE_SINCE else 16 if abi >= _NET_SINCE else 8
    ruleset = _checked(_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path in writable:
            _grant(ruleset, path, rules.granted)
        for path in devices:
            _grant(ruleset, path, rules.granted & _ON_FILES)
        for path in readable:
            _grant(ruleset, path, READ_FILE)
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise _failed("prctl")
        _checked(_RESTRICT, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        # The paths are real ones: a link in their place was put there meanwhile, and a rule for
        # the link itself grants nothing.
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _add(ruleset, place, rights)
    except OSError as error:
        # So the kernel says that it is no folder.
        if error.errno != errno.EINVAL or rights & _ON_FILES == rights:
            raise
        _add(ruleset, place, rights & _ON_FILES)
    finally:
        os.close(place)


def _add(ruleset: int, place: int, rights: int) -> None:
    beneath = struct.pack("=Qi", rights, place)
    _checked(_ADD, ruleset, ctypes.c_int(_PATH_BENEATH), beneath, ctypes.c_uint32(0))


def _checked(number: int, *args: object) -> int:
    given = _libc.syscall(ctypes.c_long(number), *args)
    if given < 0:
        raise _failed("landlock")
    return given


def _failed(what: str) -> OSError:
    number = ctypes.get_errno() or errno.EPERM
    return OSError(number, f"the sandbox could not be made ({what}: {os.strerror(number)})")
