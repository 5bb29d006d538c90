"""Many channels over one line: nobody's traffic waits behind another's.

Each side holds what is to be written in a queue for each channel, and writes from them in turn.
What was written and not taken yet is bounded by a window for each channel, which the other side
opens again as it takes; so a channel that is slow to take holds up itself alone, and what it holds
in memory on either side is bounded. The line's own channel has no window: whoever reads takes what
comes there at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import msgspec

from prong.errors import WorkerFailed
from prong.team.message import CONTROL, LARGEST, LEAD, Credit, frame

WINDOW = 4 << 20
"""Bytes of a channel that may be on their way, or wait to be taken."""

ROOM = 1 << 20
"""Bytes of a channel that may wait to be written before whoever can wait is to wait."""


class _Unwritten(msgspec.Struct):
    """The frames of one channel that are to be written."""

    frames: deque[bytes]
    freed: anyio.Event
    """Set when some were written."""
    size: int = 0
    credit: int = WINDOW
    """Bytes that may still be written; less than none after a frame that is larger."""


class Outgoing:
    """What is to be written to a line, channel by channel."""

    def __init__(self) -> None:
        """Nothing is to be written yet."""
        self._unwritten: dict[int, _Unwritten] = {}
        self._turns: deque[int] = deque()
        """The channels for which something waits, the next first."""
        self._news = anyio.Event()
        self._closed = False

    def put(self, message: msgspec.Struct, channel: int = CONTROL) -> int:
        """Have a message written when it is its turn; gives its size.

        Raises WorkerFailed if it is too large.
        """
        data = frame(message, channel)
        if self._closed:
            return 0
        waiting = self._of(channel)
        if not waiting.frames:
            self._turns.append(channel)
        waiting.frames.append(data)
        waiting.size += len(data)
        self._news.set()
        return len(data)

    def backlog(self, channel: int) -> int:
        """Give how many bytes of a channel wait to be written."""
        waiting = self._unwritten.get(channel)
        return 0 if waiting is None else waiting.size

    async def wait_room(self, channel: int, *, below: int = ROOM) -> None:
        """Wait until fewer bytes of a channel wait to be written."""
        while self.backlog(channel) >= below:
            waiting = self._unwritten[channel]
            if waiting.freed.is_set():
                waiting.freed = anyio.Event()
            await waiting.freed.wait()

    def grant(self, credit: Credit) -> None:
        """Let more of a channel be written, since the other side has taken what it got."""
        if (waiting := self._unwritten.get(credit.channel)) is not None:
            waiting.credit += credit.size
            self._news.set()

    def drop(self, channel: int) -> None:
        """Forget a channel that has ended, and what waits for it."""
        if (waiting := self._unwritten.pop(channel, None)) is not None:
            waiting.freed.set()
            if waiting.frames:
                self._turns.remove(channel)

    def close(self) -> None:
        """Drop everything, now and from now on: the line has ended."""
        self._closed = True
        for channel in tuple(self._unwritten):
            self.drop(channel)

    async def pump(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write what is to be written, for ever; a frame is written whole or the line has ended."""
        while True:
            if (data := self._next()) is not None:
                await write(data)
                continue
            self._news = anyio.Event()
            await self._news.wait()

    def _of(self, channel: int) -> _Unwritten:
        if (found := self._unwritten.get(channel)) is None:
            found = self._unwritten[channel] = _Unwritten(frames=deque(), freed=anyio.Event())
        return found

    def _next(self) -> bytes | None:
        """Take the frame whose turn it is; None if nothing may be written."""
        for _ in range(len(self._turns)):
            channel = self._turns.popleft()
            waiting = self._unwritten[channel]
            if channel != CONTROL and waiting.credit <= 0:
                self._turns.append(channel)
                continue
            data = waiting.frames.popleft()
            waiting.size -= len(data)
            waiting.credit -= len(data)
            if waiting.frames:
                self._turns.append(channel)
            waiting.freed.set()
            return data
        return None


class Incoming:
    """What has come by one channel and was not taken yet."""

    def __init__(self, channel: int, outgoing: Outgoing) -> None:
        """Take where the other side is told what was taken."""
        self._channel = channel
        self._outgoing = outgoing
        self._frames: deque[bytes] = deque()
        self._held = self._taken = 0
        """Bytes that wait, and that were taken since the other side was told."""
        self._news = anyio.Event()
        self._ended = False

    def put(self, data: bytes) -> None:
        """Keep a message until it is taken.

        Raises WorkerFailed if far more has come than was allowed.
        """
        self._held += LEAD + len(data)
        if self._held > WINDOW + LARGEST + LEAD:
            raise WorkerFailed("it sends more than it was told that it may")
        self._frames.append(data)
        self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._news.set()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Stream what comes until nothing more does; may be left at any point and called again."""
        while True:
            while self._frames:
                yield self._take()
            if self._ended:
                return
            self._news = anyio.Event()
            await self._news.wait()

    def _take(self) -> bytes:
        data = self._frames.popleft()
        size = LEAD + len(data)
        self._held, self._taken = self._held - size, self._taken + size
        if self._taken >= WINDOW // 2 and not self._ended:
            self._outgoing.put(Credit(channel=self._channel, size=self._taken))
            self._taken = 0
        return data
