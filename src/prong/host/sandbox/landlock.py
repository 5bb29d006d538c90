"""Landlock: what a thread and all that it starts may write.

Three system calls of Linux 5.13, made by number (`bind`). They bind the calling thread alone and
for good, so each command is started by a thread of its own. What a ruleset handles is refused
unless a rule grants it below a folder; there is no exception below a rule.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence

from msgspec import Struct

from prong.host.sandbox.bind import CREATE, ON_FILES

_VERSION = 1

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
    return max(_libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)), 0)


def spell(
    abi: int,
    rules: Ruleset,
    writable: Iterable[str],
    devices: Iterable[str] = (),
    readable: Sequence[str] = (),
) -> tuple[bytes, tuple[tuple[str, int], ...]]:
    """Write a ruleset as the kernel reads it, and what it grants, as paths with rights; pure.

    With `readable`, no file elsewhere can be read.
    """
    handled = rules.handled | (READ_FILE if readable else 0)
    size = 24 if abi >= _SCOPE_SINCE else 16 if abi >= _NET_SINCE else 8
    grants = (
        *((path, rules.granted) for path in writable),
        *((path, rules.granted & ON_FILES) for path in devices),
        *((path, READ_FILE) for path in readable),
    )
    return struct.pack("=QQQ", handled, rules.net, rules.scoped)[:size], grants
