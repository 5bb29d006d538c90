"""Clocks for tests: one that stands still until it is moved, one that runs and can be pushed."""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class AnyClock(Protocol):
    """What the loopback server needs of a clock."""

    def now(self) -> float:
        """Tell the time in seconds."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has moved on by that much."""
        ...


class Clock:
    """A clock that stands still until `advance` moves it; sleepers that are due then wake."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now(self) -> float:
        """Tell the time in seconds."""
        return self._now

    @property
    def sleepers(self) -> int:
        """Count the tasks that wait for the time to move."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake whoever is due."""
        assert seconds >= 0, "time does not run backwards"
        self._now += seconds
        due = [event for when, event in self._sleepers if when <= self._now]
        self._sleepers = [s for s in self._sleepers if s[0] > self._now]
        for event in due:
            event.set()

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has moved the time on by that much."""
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = (self._now + seconds, anyio.Event())
        self._sleepers.append(sleeper)
        try:
            await sleeper[1].wait()
        finally:
            # A cancelled sleeper must not count as waiting; a woken one is gone already.
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)


class WallClock:
    """A clock that runs by itself and can be pushed ahead, to let cache entries expire."""

    def __init__(self) -> None:
        self._offset = -time.monotonic()

    def now(self) -> float:
        """Tell the seconds since the clock was made, pushes included."""
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Push the time ahead; nobody who sleeps is woken by it."""
        assert seconds >= 0, "time does not run backwards"
        self._offset += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait that many real seconds."""
        await anyio.sleep(seconds)
