"""Calls to Windows that no module of Python's library makes for us."""

from __future__ import annotations

import _winapi
import ctypes
import msvcrt
import os
import sys
from ctypes import wintypes

assert sys.platform == "win32"

_SHARE_READ, _SHARE_WRITE, _SHARE_DELETE = 1, 2, 4
_CREATE_NEW, _CREATE_ALWAYS, _OPEN_EXISTING, _OPEN_ALWAYS, _TRUNCATE_EXISTING = 1, 2, 3, 4, 5
_NORMAL, _FOLDERS_TOO, _NO_LINK = 0x80, 0x0200_0000, 0x0020_0000
_LIST_FOLDER = 0x1
_LIMITED_INFORMATION, _ALL_ACCESS = 0x1000, 0x1F_FFFF
_STILL_ACTIVE = 259
_ACCOUNTING, _EXTENDED_LIMITS = 1, 9
_KILL_ON_CLOSE = 0x2000
_VT_OUTPUT = 0x4
_CTRL_BREAK = 1
_LOCK_AT_ONCE, _LOCK_EXCLUSIVE = 1, 2
_LOCK_VIOLATION, _IO_PENDING = 33, 997

SUSPENDED = 0x4
"""The flag for a process that is started and does not run yet."""

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_native = ctypes.WinDLL("ntdll")


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("times", wintypes.LARGE_INTEGER * 4),
        ("faults", wintypes.DWORD),
        ("total", wintypes.DWORD),
        ("active", wintypes.DWORD),
        ("terminated", wintypes.DWORD),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("process_time", wintypes.LARGE_INTEGER),
        ("job_time", wintypes.LARGE_INTEGER),
        ("flags", wintypes.DWORD),
        ("least", ctypes.c_size_t),
        ("most", ctypes.c_size_t),
        ("processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
        ("counters", ctypes.c_ulonglong * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("internal", ctypes.c_size_t * 2),
        ("low", wintypes.DWORD),
        ("high", wintypes.DWORD),
        ("event", wintypes.HANDLE),
    )


_kernel.CreateJobObjectW.restype = wintypes.HANDLE
_kernel.GetStdHandle.restype = wintypes.HANDLE


def _fail() -> OSError:
    return ctypes.WinError(ctypes.get_last_error())


def open_shared(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that others may rename or delete meanwhile; raises OSError."""
    access = _winapi.GENERIC_READ
    if flags & os.O_RDWR:
        access |= _winapi.GENERIC_WRITE
    elif flags & os.O_WRONLY:
        access = _winapi.GENERIC_WRITE
    share = _SHARE_READ | _SHARE_WRITE | _SHARE_DELETE
    name = os.fspath(path)
    handle = _winapi.CreateFile(name, access, share, 0, _disposition(flags), _NORMAL, 0)
    return msvcrt.open_osfhandle(handle, flags & (os.O_APPEND | os.O_RDONLY) | os.O_NOINHERIT)


def _disposition(flags: int) -> int:
    if flags & os.O_CREAT:
        if flags & os.O_EXCL:
            return _CREATE_NEW
        return _CREATE_ALWAYS if flags & os.O_TRUNC else _OPEN_ALWAYS
    return _TRUNCATE_EXISTING if flags & os.O_TRUNC else _OPEN_EXISTING


def lock_file(fd: int) -> bool:
    """Lock one byte behind all that a file can hold; False if another holds it. Raises OSError."""
    flags = _LOCK_EXCLUSIVE | _LOCK_AT_ONCE
    if _kernel.LockFileEx(_handle(fd), flags, 0, 1, 0, ctypes.byref(_far_away())):
        return True
    if ctypes.get_last_error() in {_LOCK_VIOLATION, _IO_PENDING}:
        return False
    raise _fail()


def unlock_file(fd: int) -> None:
    """Give that lock back; raises OSError."""
    if not _kernel.UnlockFileEx(_handle(fd), 0, 1, 0, ctypes.byref(_far_away())):
        raise _fail()


def _handle(fd: int) -> wintypes.HANDLE:
    return wintypes.HANDLE(msvcrt.get_osfhandle(fd))


def _far_away() -> _Overlapped:
    return _Overlapped(low=0xFFFF_FFFE, high=0x7FFF_FFFF)


def hold_folder(path: str | os.PathLike[str]) -> int:
    """Keep a folder from being renamed, deleted or replaced; raises OSError."""
    share = _SHARE_READ | _SHARE_WRITE
    flags = _FOLDERS_TOO | _NO_LINK
    return _winapi.CreateFile(os.fspath(path), _LIST_FOLDER, share, 0, _OPEN_EXISTING, flags, 0)


def release(handle: int) -> None:
    """Let go of what was given here by its handle."""
    _winapi.CloseHandle(handle)


def make_job() -> int:
    """Make a job, all of whose processes end with the last handle to it; raises OSError."""
    job: int | None = _kernel.CreateJobObjectW(None, None)
    if not job:
        raise _fail()
    limits = _Limits(flags=_KILL_ON_CLOSE)
    given = (wintypes.HANDLE(job), _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))
    if not _kernel.SetInformationJobObject(*given):
        error = _fail()
        release(job)
        raise error
    return job


def enter_job(job: int, pid: int) -> None:
    """Put a process that was started suspended into a job, and let it run; raises OSError."""
    process = _winapi.OpenProcess(_ALL_ACCESS, False, pid)
    try:
        if not _kernel.AssignProcessToJobObject(wintypes.HANDLE(job), wintypes.HANDLE(process)):
            raise _fail()
        if _native.NtResumeProcess(wintypes.HANDLE(process)):
            raise OSError("the process could not be let run")
    finally:
        release(process)


def count_job(job: int) -> int:
    """Say how many processes of a job run."""
    found = _Accounting()
    given = (wintypes.HANDLE(job), _ACCOUNTING, ctypes.byref(found), ctypes.sizeof(found))
    if not _kernel.QueryInformationJobObject(*given, None):
        raise _fail()
    return int(found.active)


def end_job(job: int) -> None:
    """End all processes of a job at once."""
    _kernel.TerminateJobObject(wintypes.HANDLE(job), 1)


def press_break(pid: int) -> bool:
    """Press Ctrl+Break for a process with a group of its own; gives whether there is a console.

    Not by `os.kill`: without a console that ends the process.
    """
    return bool(_kernel.GenerateConsoleCtrlEvent(_CTRL_BREAK, wintypes.DWORD(pid)))


def end_single(pid: int) -> None:
    """End one process at once; raises OSError."""
    process = _winapi.OpenProcess(_ALL_ACCESS, False, pid)
    try:
        _winapi.TerminateProcess(process, 1)
    finally:
        release(process)


def process_started(pid: int) -> int | None:
    """Give when a process was started, in Windows' ticks; None if none of that number runs.

    Raises PermissionError if it is another user's.
    """
    try:
        process = _winapi.OpenProcess(_LIMITED_INFORMATION, False, pid)
    except PermissionError:
        raise
    except (OSError, OverflowError):
        return None
    try:
        if _winapi.GetExitCodeProcess(process) != _STILL_ACTIVE:
            return None
        times = (wintypes.FILETIME * 4)()
        each = (ctypes.byref(one) for one in times)
        if not _kernel.GetProcessTimes(wintypes.HANDLE(process), *each):
            raise _fail()
        return (int(times[0].dwHighDateTime) << 32) | int(times[0].dwLowDateTime)
    finally:
        release(process)


def understand_escapes() -> bool:
    """Have the console understand the sequences that terminals do; gives whether it does."""
    done = True
    for number in (-11, -12):
        handle = wintypes.HANDLE(_kernel.GetStdHandle(number))
        mode = wintypes.DWORD()
        if _kernel.GetConsoleMode(handle, ctypes.byref(mode)):
            done &= bool(_kernel.SetConsoleMode(handle, mode.value | _VT_OUTPUT))
    return done
