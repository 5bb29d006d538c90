"""Carries the bytes of this program's own streams to a process that is held elsewhere, and back.

Whatever leads there may fail for a while: what was not acknowledged is sent and asked for again, by
the number of its first byte, so that each byte arrives once and in its order. The far side lives on
meanwhile; after too long a time it is given up.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import anyio

from prong.errors import WorkerFailed
from prong.host.held_process import PART, Pulled

PATIENCE = 100.0
"""Seconds for which nothing need get through: less than a session waits for a sign of life."""

_PAUSE = 0.5
_WAIT = 10.0
"""Seconds for which the far side waits for something to say before it says that there is none."""

_T = TypeVar("_T")


class LineCut(Exception):
    """Nothing gets through now; it may again."""


class LineLost(WorkerFailed):
    """Nothing has got through for too long; whoever is there may live on."""


class FarProcess(Protocol):
    """A held process, and the way to it."""

    async def push(self, at: int, data: bytes) -> int:
        """Write to it, as `HeldProcess.push` does.

        Raises LineCut, or WorkerFailed if it is gone.
        """
        ...

    async def pull(self, after: int, wait: float) -> Pulled:
        """Read from it, as `HeldProcess.pull` does.

        Raises LineCut, or WorkerFailed if it is gone.
        """
        ...

    async def end(self) -> None:
        """End it.

        Raises LineCut, WorkerFailed.
        """
        ...


async def carry(
    far: FarProcess, source: int, sink: int, *, first: bytes = b"", patience: float = PATIENCE
) -> Pulled:
    """Carry until the process has ended, or the source has; then the process is ended.

    What was read of the source before goes first. Gives how it ended. Raises WorkerFailed if it is
    gone, LineLost if nothing gets through, and OSError if nobody reads any more on this side; then
    it is let be.
    """
    carrier = _ByteCarrier(far, source, sink, patience)
    async with anyio.create_task_group() as group:
        for work in (partial(carrier.down, first), carrier.up):
            group.start_soon(carrier.guarded, work, group.cancel_scope)
    if carrier.failure is not None:
        raise carrier.failure
    return carrier.last


class _ByteCarrier:
    """One line to a held process."""

    def __init__(self, far: FarProcess, source: int, sink: int, patience: float) -> None:
        self._far = far
        self._source = source
        self._sink = sink
        self._patience = patience
        self.last = Pulled(b"", 0)
        self.failure: WorkerFailed | OSError | None = None

    async def guarded(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        """Do one of the two; with its end, whatever that is, both end."""
        try:
            await work()
        except (WorkerFailed, OSError) as error:
            self.failure = self.failure or error
        scope.cancel()

    async def down(self, data: bytes) -> None:
        """Carry what this side says, and then that it has nothing more to say."""
        at = 0
        while data or (data := await self._read()):
            written = await self._stubborn(partial(self._far.push, at, data))
            if written < at + len(data):
                # It listens no more; what it has to say is still read.
                await anyio.sleep_forever()
            at, data = written, b""
        await self._stubborn(self._far.end)

    async def _read(self) -> bytes:
        await anyio.wait_readable(self._source)
        return os.read(self._source, PART)

    async def up(self) -> None:
        """Carry what the process says until it has ended."""
        after = 0
        while True:
            pulled = await self._stubborn(partial(self._far.pull, after, _WAIT))
            if pulled.code is not None:
                self.last = pulled
                return
            after += len(pulled.data)
            await write_all(self._sink, pulled.data)

    async def _stubborn(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do something until it gets through.

        Raises LineLost if it does not for too long.
        """
        begun = anyio.current_time()
        while True:
            try:
                return await work()
            except LineCut as cut:
                if anyio.current_time() - begun > self._patience:
                    told = f"it could not be reached for {self._patience:g} seconds: {cut}"
                    raise LineLost(told) from cut
                await anyio.sleep(_PAUSE)


async def write_all(sink: int, data: bytes) -> None:
    """Write to a descriptor that does not block, whole, as fast as it is read.

    Raises OSError if nobody reads any more.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(sink)
