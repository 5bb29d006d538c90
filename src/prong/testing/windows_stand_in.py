"""What Prong calls of Windows, played with what this system has; see `other_platform`.

It takes what it needs when it is loaded, before that is hidden from all others.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

assert sys.platform != "win32"

from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock  # noqa: E402 - nowhere to be had on Windows
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, kill, killpg  # noqa: E402 - likewise

_open, _list = open, os.listdir
_FOLDERS = 1_000
"""Handles from here on are folders; those below are jobs."""
_jobs: dict[int, int] = {}

SUSPENDED = 4


def lock_file(fd: int) -> bool:
    """Lock a file; False if another holds it."""
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock_file(fd: int) -> None:
    """Give that lock back."""
    flock(fd, LOCK_UN)


def open_shared(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file."""
    return os.open(path, flags | O_CLOEXEC, 0o600)


def hold_folder(path: str | os.PathLike[str]) -> int:
    """Hold a folder, which here may be renamed all the same."""
    return _FOLDERS + os.open(path, os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)


def release(handle: int) -> None:
    """Let go of a folder, or of a job, whose processes end."""
    if handle >= _FOLDERS:
        os.close(handle - _FOLDERS)
    else:
        end_job(handle)


def make_job() -> int:
    """Make a job: a group of processes."""
    number = len(_jobs) + 1
    _jobs[number] = 0
    return number


def enter_job(job: int, pid: int) -> None:
    """Take a process that leads a group."""
    _jobs[job] = pid


def count_job(job: int) -> int:
    """Count the processes of a group."""
    found = (_look(name) for name in _list("/proc") if name.isdecimal())
    held = (state for group, state, _ in found if group and group == _jobs[job])
    return sum(1 for state in held if state not in {"Z", "X"})


def end_job(job: int) -> None:
    """End a group at once."""
    # To the system the number of a job that nothing has entered is this process's own group.
    if group := _jobs[job]:
        with suppress(ProcessLookupError):
            killpg(group, 9)


def press_break(pid: int) -> bool:
    """Ask a process to end, and nothing that it has started."""
    kill(pid, signal.SIGTERM)
    return True


def end_single(pid: int) -> None:
    """End one process at once."""
    kill(pid, 9)


def process_started(pid: int) -> int | None:
    """Give when a process was started; None if none of that number runs."""
    _, state, moment = _look(str(pid))
    return None if state in {"", "Z", "X"} else moment


def understand_escapes() -> bool:
    """Say that the terminal understands them."""
    return True


def _look(name: str) -> tuple[int, str, int]:
    """Give a process's group, state and start."""
    try:
        with _open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[2]), fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0, "", 0
