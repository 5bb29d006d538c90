"""Processes that outlive their command, known by the view of the files that they see.

Who leaves the group and the session of a command stays in its mount namespace: the filter lets
nobody into another. Without /proc nobody is found.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator

import anyio
from msgspec import Struct

from prong.foreign_number import whole_number

_SOON, _FEW = 0.5, 64
"""Seconds in which the numbers of processes are not given out twice, and how many are few."""
_ROUNDS, _PAUSE = 40, 0.025
"""How often those that were asked to end are looked for before they are forced to, and after."""


class Offspring(Struct, frozen=True):
    """A process with all that it has started, however that left it."""

    view: int = 0
    """The number of the view that they see; 0 if there is none, and nobody is known."""
    first: int = 0
    """The process that was started."""
    began: float = 0.0
    """When that was, by the clock that never goes back."""
    held: int = -1
    """Holds the view: the number of one that is gone is given to the next, of another command."""

    def members(self) -> list[int]:
        """List those that run."""
        if not self.view:
            return []
        return [one for one in _since(self.first, self.began) if _sees(one, self.view)]

    def let_go(self) -> None:
        """Hold their view no more."""
        if self.held >= 0:
            os.close(self.held)


NOBODY = Offspring()


def hold_view() -> int:
    """Keep the view that the calling thread sees: its number is given to no other then."""
    assert sys.platform == "linux"
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _since(first: int, began: float) -> Iterable[int]:
    """Give the numbers of all processes that may have come after the first, or more."""
    last = _last()
    if time.monotonic() - began < _SOON and first <= last < first + _FEW:
        # To try them is quicker than to list all that there are; most have ended.
        numbers = range(first + 1, last + 1)
        return (one for one in numbers if os.access(f"/proc/{one}", os.F_OK))
    return _processes()


def _processes() -> Iterator[int]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - many, quick
    except OSError:
        return
    yield from (number for name in names if (number := whole_number(name)) is not None)


def _sees(process: int, view: int) -> bool:
    try:
        sees = os.stat(f"/proc/{process}/ns/mnt").st_ino == view  # noqa: PTH116 - as above
    except OSError:
        # It has ended, or is somebody else's.
        return False
    # Threads have numbers too: one of ours that has just started a command is no rest of it.
    return sees and not os.access(f"/proc/self/task/{process}", os.F_OK)


def _last() -> int:
    """Give the number that was given to a process last; numbers begin anew after the highest."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123 - as above
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


async def end_members(offspring: Offspring) -> list[str]:
    """End all that run, asked first and forced after a moment; gives their names."""
    found = offspring.members()
    named = [_name(process) for process in found]
    if sys.platform == "win32":
        # There nobody is ever found: a job of Windows is not left.
        return named
    _signal(found, signal.SIGTERM)
    for turn in range(2 * _ROUNDS):
        # Again, as one that is being born is missed by a look.
        left = offspring.members()
        if not left:
            break
        if turn >= _ROUNDS:
            _signal(left, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await anyio.sleep(_PAUSE)
    return named


def _signal(processes: list[int], number: int) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except OSError:
            continue


def _name(process: int) -> str:
    try:
        with open(f"/proc/{process}/comm", "rb") as file:  # noqa: PTH123 - as above
            return f"{file.read().decode(errors='replace').strip()} ({process})"
    except OSError:
        return str(process)
