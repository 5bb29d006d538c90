"""One connection to a server: an asyncio protocol that carries one request at a time.

Everything that can happen between two awaits (bytes, the end, a time-out) is noted here and looked
at by the one task that waits, so there is no lock and no task of its own. A connection is idle
(`parser` is None), busy, or settling: its reader has had enough, and the rest of the response is
thrown away until it ends or a moment has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from prong.provider.parse import Malformed, Parser

HIGH_WATER = 262_144
"""Bytes a reader may lag behind before the socket is no longer read."""
_SLICE = 65_536
_SETTLE_SECONDS = 1.0


class Broken(Exception):
    """The connection cannot go on."""

    def __init__(self, why: str, *, began: bool, waited: bool = False) -> None:
        """Say why; whether a byte of a response had come; whether patience ran out."""
        self.why = why
        self.began = began
        self.waited = waited
        super().__init__(why)


def _early(parser: Parser) -> str:
    try:
        parser.eof()
    except Malformed as error:
        return str(error)
    return ""


def _slices(pieces: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """Join small pieces and cut large ones, so that little is held in memory beside them."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _SLICE:
            if batch:
                yield b"".join(batch)
            batch, size = [], len(piece)
            if size > _SLICE:
                view = memoryview(piece)
                yield from (view[at : at + _SLICE] for at in range(0, size, _SLICE))
                size = 0
                continue
        batch.append(piece)
    if batch:
        yield b"".join(batch)


class Connection(asyncio.Protocol):
    """A socket, with TLS or without."""

    __slots__ = (
        "_flowing",
        "_idle_limit",
        "_last",
        "_loop",
        "_moved",
        "_on_free",
        "_on_lost",
        "_pieces",
        "_progress_limit",
        "_reading",
        "_settling",
        "_size",
        "_tainted",
        "_timer",
        "_waited",
        "_waiter",
        "failure",
        "free_since",
        "lost",
        "parser",
        "received",
        "transport",
    )

    def __init__(
        self,
        idle_limit: float,
        progress_limit: float,
        on_free: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
    ) -> None:
        """Wait so long for any byte, and so long for one that matters.

        Tell `on_free` when a settling response has ended, and `on_lost` when the socket has.
        """
        self._loop = asyncio.get_running_loop()
        self._idle_limit = idle_limit
        self._progress_limit = progress_limit
        self._on_free = on_free
        self._on_lost = on_lost
        self.transport: asyncio.Transport | None = None
        self.parser: Parser | None = None
        self.lost = False
        self.received = False
        self.failure = ""
        self.free_since = 0.0
        self._pieces: list[bytes] = []
        self._size = 0
        self._reading = True
        self._flowing = True
        self._settling = False
        # Set when a request was not sent to its end: the server may still wait for the rest.
        self._tainted = False
        self._waited = False
        self._last = 0.0
        self._moved = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse what came, or close if nothing was asked for."""
        parser = self.parser
        if parser is None:
            self.abort()
            return
        self._last = self._loop.time()
        self.received = True
        headless = not parser.status
        try:
            pieces = parser.feed(data)
        except Malformed as error:
            self.failure = str(error)
            self.abort()
        else:
            if self._settling:
                self._settle_on(parser)
                return
            if headless and parser.status:
                self.progressed()
            if pieces:
                self._pieces += pieces
                self._size += sum(map(len, pieces))
                if self._size > HIGH_WATER and self._reading and self.transport is not None:
                    self._reading = False
                    self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end and whether it came too early."""
        self.lost = True
        if self.parser is not None and not self.parser.done and not self.failure:
            self.failure = f"the connection broke ({exc})" if exc else _early(self.parser)
        self._stop_timer()
        self._on_lost(self)
        self._wake()

    def pause_writing(self) -> None:
        """Stop sending until the socket has room."""
        self._flowing = False

    def resume_writing(self) -> None:
        """Go on sending."""
        self._flowing = True
        self.progressed()
        self._wake()

    def progressed(self) -> None:
        """Note that the work goes on: not every byte says so, a server can send empty ones."""
        self._last = self._moved = self._loop.time()

    def abort(self) -> None:
        """Close the socket at once."""
        self._stop_timer()
        self.lost = True
        if self.transport is not None:
            self.transport.abort()

    async def exchange(self, method: str, head: bytes, body: Sequence[bytes] = ()) -> None:
        """Send a request and wait for the head of its response.

        Raises:
            Broken: the connection ended, or what came is no response.

        """
        self.parser = parser = Parser(method)
        self.received = False
        self.failure = ""
        self._pieces = []
        self._size = 0
        self.progressed()
        self._timer = self._loop.call_later(self._patience()[0], self._check_idle)
        try:
            await self._send(parser, (head, *body))
            while not parser.status:
                self._check()
                await self._wait()
        except BaseException:
            self.abort()
            raise

    async def _send(self, parser: Parser, pieces: Sequence[bytes]) -> None:
        for data in _slices(pieces):
            # A response before the end of the request is a refusal: the rest need not be sent.
            while not (self._flowing or self.lost or parser.status):
                await self._wait()
            if parser.status or self.lost:
                self._tainted = True
                return
            if self.transport is not None:
                self.transport.write(data)

    async def next(self) -> bytes:
        """Wait for more of the body; nothing at its end.

        Raises:
            Broken: the response did not come to its end.

        """
        parser = self.parser
        assert parser is not None, "a body is read only while a request is open"
        while not self._pieces:
            if parser.done:
                return b""
            self._check()
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        if not self._reading and not self.lost and self.transport is not None:
            self._reading = True
            self.progressed()
            self.transport.resume_reading()
        return data

    def release(self, *, settle: bool) -> None:
        """Give the connection up: for reuse if the response ended, else close it.

        With `settle` a response that is about to end may do so in the background.
        """
        parser = self.parser
        if self.lost or self._tainted or parser is None:
            self.abort()
        elif parser.done and parser.keep_alive:
            self._free()
        elif settle and not parser.done and parser.keep_alive:
            self._settling = True
            self._stop_timer()
            self._timer = self._loop.call_later(_SETTLE_SECONDS, self.abort)
            if not self._reading and self.transport is not None:
                self._reading = True
                self.transport.resume_reading()
        else:
            self.abort()

    def open_tunnel(self) -> None:
        """Forget the proxy's answer: from here on the server itself is at the other end."""
        self._stop_timer()
        self.parser = None

    def _settle_on(self, parser: Parser) -> None:
        if parser.done:
            self._settling = False
            if parser.keep_alive:
                self._free()
            else:
                self.abort()

    def _free(self) -> None:
        self._stop_timer()
        self.parser = None
        self._pieces = []
        if not self._reading and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()
        self.free_since = self._loop.time()
        self._on_free(self)

    def _check(self) -> None:
        if self.failure or self.lost:
            raise Broken(self.failure or "it was closed", began=self.received, waited=self._waited)

    def _check_idle(self) -> None:
        # A reader that lags is no fault of the server's: the clock runs only while we listen.
        left, why = self._patience() if self._reading else (1.0, "")
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
            return
        self._waited = True
        self.failure = why
        self.abort()
        self._wake()

    def _patience(self) -> tuple[float, str]:
        """Say how many seconds are left to wait, and what to say once they are over."""
        now = self._loop.time()
        return min(
            (self._last + self._idle_limit - now, f"nothing came for {self._idle_limit:g} s"),
            (
                self._moved + self._progress_limit - now,
                f"nothing but keep-alives or unfinished pieces came for {self._progress_limit:g} s",
            ),
        )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
