"""An event loop whose clock leaps to the next timer: hours pass in seconds, the same way each time.

Nothing in it may wait for the world: no sockets, threads or processes. Whoever waits for something
that no timer will bring about is found out at once.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

_T = TypeVar("_T")


class _LeapSelector(selectors.SelectSelector):
    """Waits for nothing: what would have been waited is added to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Move the clock on, and look without waiting."""
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else")
        self.now += max(0.0, timeout)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """The loop, with the selector's clock."""

    def __init__(self) -> None:
        self._leap = _LeapSelector()
        super().__init__(self._leap)

    def time(self) -> float:
        """Tell the seconds that have passed."""
        return self._leap.now


def run_virtually(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run something to its end on a clock that begins at zero."""
    return anyio.run(work, backend_options={"loop_factory": _VirtualLoop})
