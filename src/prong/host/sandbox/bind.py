"""Binds the calling thread, and with it all that it will start: rules of Landlock, and a filter.

Everything is worked out before and comes as plain values, so that this can also be done by a
process that has next to nothing loaded.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable

from prong.host.sandbox import privilege

CREATE = 444
_ADD, _RESTRICT = 445, 446
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
ON_FILES = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""The rights that there are on files: to write, read, empty and control them."""

_libc = ctypes.CDLL(None, use_errno=True)


def bind(attributes: bytes, grants: Iterable[tuple[str, int]], call: int, program: bytes) -> None:
    """Bind the calling thread for good; `call` is the kernel's for filters, 0 if there is none.

    Raises OSError.
    """
    privilege.shed()
    restrict(attributes, grants)
    if call:
        install(call, program)


def restrict(attributes: bytes, grants: Iterable[tuple[str, int]]) -> None:
    """Bind it by rules: what is handled is refused unless granted; grants are paths and rights.

    What is not there is granted to nobody.

    Raises OSError.
    """
    ruleset = _checked(CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights)
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise _failed("prctl")
        _checked(_RESTRICT, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def install(call: int, program: bytes) -> None:
    """Bind it by a filter; it can gain no privileges any more.

    Raises OSError.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    given = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or (
        _libc.syscall(ctypes.c_long(call), ctypes.c_uint(_SET_MODE_FILTER), 0, given) != 0
    ):
        raise _failed("seccomp")


def _grant(ruleset: int, path: str, rights: int) -> None:
    assert sys.platform == "linux"
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
        if error.errno != errno.EINVAL or rights & ON_FILES == rights:
            raise
        _add(ruleset, place, rights & ON_FILES)
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
