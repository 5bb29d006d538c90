"""Calls to the kernel that are refused by their number, for the calling thread and what it starts.

Landlock says nothing about modes and times of files, about sockets other than TCP, about mounts of
one's own, and about much that only root can do. A filter is a small program for the kernel; it is
built here, and finds a call by halves.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from msgspec import Struct

_LOAD, _EQUAL, _SET, _ALU_AND, _RETURN, _GO = 0x20, 0x15, 0x45, 0x54, 0x06, 0x05
_AT_LEAST, _FARTHEST = 0x35, 255
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH = 0, 4
_X32 = 0x40000000


class Processor(Struct, frozen=True):
    """The numbers of one kind of processor."""

    audit: int
    seccomp: int
    column: int


_MACHINES = {
    "x86_64": Processor(0xC000003E, 317, 0),
    "aarch64": Processor(0xC00000B7, 277, 1),
}

# By name: the number on x86_64 and on aarch64; -1 where there is none.
_ALWAYS: dict[str, tuple[int, int]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "vhangup": (153, 58),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
}
_ATTRIBUTES: dict[str, tuple[int, int]] = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
_SHARED: dict[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Memory, locks and queues that other processes may use too, and that stay."""
_SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
_CLONE, _CLONE3, _UNSHARE = (56, 220), (435, 435), (272, 97)
_IOCTL, _SOCKET = (16, 29), (41, 198)
_MKNOD, _MKNODAT, _PRLIMIT = (133, -1), (259, 33), (302, 261)
_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_STI, _CONSOLE = 0x5412, 0x541C
_SET_FLAGS, _SET_XFLAGS = 0x40086602, 0x401C5820
_UNIX, _NETLINK = 1, 16
_KIND, _CHAR, _BLOCK = 0o170000, 0o020000, 0o060000


class Refusals(Struct, frozen=True, kw_only=True):
    """What a filter refuses, beside what it always does."""

    attributes: bool = False
    """Modes, owners, times and attributes of files; memory that is shared with strangers."""
    signals: bool = False
    """All signals by number: where the kernel cannot tell strangers from one's own."""
    network: bool = False
    """All sockets but those by which the kernel is asked about itself."""
    unix: bool = False
    """Sockets that other programs of this machine listen on."""


class Test(Struct, frozen=True):
    """One call, and when it is refused: `(arguments[at] & mask) == value`, or any bit of mask."""

    number: int
    error: int = errno.EPERM
    at: int = -1
    mask: int = 0
    value: int = -1
    """What the masked argument has to be; -1 for anything but 0."""
    unless: bool = False
    """Refused if it is not that."""


def machine() -> Processor | None:
    """Give the numbers of this machine; None if they are not known."""
    return _MACHINES.get(platform.machine())


def tests(kind: Processor, refusals: Refusals) -> tuple[Test, ...]:
    """List the calls that are refused; pure."""
    return tuple(one for one in _tests(kind, refusals) if one.number >= 0)


def _tests(kind: Processor, refusals: Refusals) -> Iterator[Test]:
    column = kind.column
    tables = [_ALWAYS]
    tables += [_ATTRIBUTES, _SHARED] if refusals.attributes else []
    tables += [_SIGNALS] if refusals.signals else []
    for table in tables:
        yield from (Test(numbers[column]) for numbers in table.values())
    # Its flags are behind a pointer; every library falls back to the older call.
    yield Test(_CLONE3[column], error=errno.ENOSYS)
    yield Test(_CLONE[column], at=0, mask=_NAMESPACES)
    yield Test(_UNSHARE[column], at=0, mask=_NAMESPACES | _NEW_TIME)
    for number, at in ((_MKNOD, 1), (_MKNODAT, 2)):
        for value in (_CHAR, _BLOCK):
            yield Test(number[column], at=at, mask=_KIND, value=value)
    # Only its own limits can be set: the first argument is whose.
    yield Test(_PRLIMIT[column], at=0, mask=0xFFFFFFFF) if refusals.attributes else Test(-1)
    controls = [_STI, _CONSOLE, *((_SET_FLAGS, _SET_XFLAGS) if refusals.attributes else ())]
    for value in controls:
        yield Test(_IOCTL[column], at=1, mask=0xFFFFFFFF, value=value)
    yield from _sockets(_SOCKET[column], refusals)


def _sockets(number: int, refusals: Refusals) -> Iterator[Test]:
    whole = 0xFFFFFFFF
    if refusals.network:
        yield Test(number, errno.EACCES, at=0, mask=whole, value=_NETLINK, unless=True)
    elif refusals.unix:
        yield Test(number, errno.EACCES, at=0, mask=whole, value=_UNIX)


@cache
def program(kind: Processor, refusals: Refusals) -> bytes:
    """Write the filter as the kernel reads it; pure."""
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, kind.audit),
        # Programs of another kind have other numbers for everything.
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    if kind.column == 0:
        refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
        lines += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), refuse]
    lines += [(_LOAD, 0, 0, _NUMBER), *_search(_ranges(tests(kind, refusals)))]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


_FilterLine: TypeAlias = tuple[int, int, int, int]
"""An instruction: what to do, how many lines to skip if so and if not, and a value."""
_PASS: _FilterLine = (_RETURN, 0, 0, _ALLOW)


def _ranges(found: Iterable[Test]) -> list[tuple[int, tuple[_FilterLine, ...]]]:
    """Cut the numbers of calls into ranges that are judged alike: where each begins, and how."""
    by_number: dict[int, list[Test]] = {}
    for test in found:
        by_number.setdefault(test.number, []).append(test)
    cut: dict[int, tuple[_FilterLine, ...]] = {0: (_PASS,)}
    for number, of_one in sorted(by_number.items()):
        cut[number] = _judgement(of_one)
        cut[number + 1] = (_PASS,)
    kept: list[tuple[int, tuple[_FilterLine, ...]]] = []
    for number, lines in cut.items():
        if not kept or kept[-1][1] != lines:
            kept.append((number, lines))
    return kept


def _search(ranges: Sequence[tuple[int, tuple[_FilterLine, ...]]]) -> list[_FilterLine]:
    """Find the range of a number by halves; every way through ends in a judgement.

    The kernel tries a new filter for each number that there is, and later for each call that
    depends on arguments: a long row of comparisons would cost more than all else of it.
    """
    if len(ranges) == 1:
        return list(ranges[0][1])
    half = len(ranges) // 2
    below, above = _search(ranges[:half]), _search(ranges[half:])
    if len(below) <= _FARTHEST:
        return [(_AT_LEAST, len(below), 0, ranges[half][0]), *below, *above]
    return [(_AT_LEAST, 0, 1, ranges[half][0]), (_GO, 0, 0, len(below)), *below, *above]


def _judgement(of_one: Sequence[Test]) -> tuple[_FilterLine, ...]:
    """Judge one call by its arguments, as each of its tests says."""
    lines: list[_FilterLine] = []
    for test in of_one:
        refuse = (_RETURN, 0, 0, _ERRNO | test.error)
        if test.at < 0:
            return (*lines, refuse)
        lines.append((_LOAD, 0, 0, 16 + 8 * test.at))
        if test.value < 0:
            lines.append((_SET, 0, 1, test.mask))
        else:
            passes = int(test.unless)
            lines += [(_ALU_AND, 0, 0, test.mask), (_EQUAL, passes, 1 - passes, test.value)]
        lines.append(refuse)
    return (*lines, _PASS)
