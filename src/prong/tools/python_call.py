"""Calls functions of others: each where it must run, and none of what they raise gets further."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

HELD = 1.0
"""Seconds for which a function may keep the event loop, and with it all agents, from going on."""
_THREADS = 64
"""Plain functions of one kind that run at once; others wait."""

_limiters: anyio.lowlevel.RunVar[dict[str, anyio.CapacityLimiter]] = anyio.lowlevel.RunVar(
    "function_threads"
)


class FunctionRaised(Exception):
    """What a function raised, whatever that is."""

    def __init__(self, error: BaseException) -> None:
        """Take what was raised."""
        super().__init__(str(error))
        self.error = error


class LoopHold:
    """How long a function has kept the event loop from going on, at most."""

    def __init__(self) -> None:
        """Begin with a function that was not called yet."""
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """Take note of one step."""
        self.seconds = max(self.seconds, seconds)

    def complaint(self, what: str) -> str | None:
        """Say so, if it was too long for all others."""
        if self.seconds < HELD:
            return None
        return (
            f"{what} kept the event loop for {self.seconds:.1f} s, in which no agent could go on; "
            f"make it a plain function, which runs in a thread"
        )


async def call_python(function: Callable[[], Any], hold: LoopHold, *, kind: str) -> Any:
    """Call a function, a plain one in a thread and an async one here, and give what it gave.

    Who is cancelled goes on at once. Python cannot stop a thread: what runs there goes on, unseen,
    to its end. Functions of one `kind` share threads, so that none of another waits for them.

    Raises FunctionRaised with whatever it raised.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await _watched(function(), hold.note)
        value = await _in_thread(function, kind)
        return await _watched(value, hold.note) if inspect.iscoroutine(value) else value
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody has stopped this call: something that the function waits for was cancelled.
        raise FunctionRaised(error) from error
    except FunctionRaised:
        raise
    except (Exception, SystemExit) as error:
        raise FunctionRaised(error) from error


async def _in_thread(function: Callable[[], Any], kind: str) -> object:
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters = dict[str, anyio.CapacityLimiter]()
        _limiters.set(limiters)
    if kind not in limiters:
        limiters[kind] = anyio.CapacityLimiter(_THREADS)

    def call() -> object:
        try:
            return function()
        except BaseException as error:
            # Some, such as StopIteration, cannot be passed between threads as they are.
            raise FunctionRaised(error) from error

    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiters[kind])


@coroutine
def _watched(
    work: Coroutine[Any, Any, Any], note: Callable[[float], None]
) -> Generator[Any, Any, Any]:
    """Run a coroutine step by step, and note how long each keeps the event loop."""
    sent: Any = None
    step: Callable[[Any], Any] = work.send
    while True:
        began = time.monotonic()
        try:
            waits_for = step(sent)
        except StopIteration as ended:
            return ended.value
        finally:
            note(time.monotonic() - began)
        try:
            sent = yield waits_for
            step = work.send
        except BaseException as error:  # noqa: BLE001 - passed on into the coroutine
            sent, step = error, work.throw
