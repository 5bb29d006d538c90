"""One connection to a server: an asyncio protocol that carries one request at a time.

Everything that can happen between two awaits (bytes, the end, a time-out) is noted here and looked
at by the one task that waits, so there is no lock and no task of its own. A connection is idle
(`parser` is None), busy, or settling: its reader has had enough, and the rest of the response is
thrown away until it ends or a moment has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

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
    batch: list[bytes | memoryview] = []
    room = _SLICE
    for piece in pieces:
        rest: bytes | memoryview = piece
        while len(rest) > room:
            view = memoryview(rest)
            yield b"".join([*batch, view[:room]]) if batch else view[:room]
            batch, rest, room = [], view[room:], _SLICE
        batch.append(rest)
        room -= len(rest)
    if batch:
        yield b"".join(batch)


class Owner(Protocol):
    """Whoever keeps a connection between its requests."""

    def freed(self, connection: Connection) -> None:
        """Take it back: a response has ended, and another request may follow."""
        ...

    def lost(self, connection: Connection) -> None:
        """Forget it: its socket has ended."""
        ...


class Deadline:
    """How long to wait for any byte, and how long for one that matters."""

    __slots__ = ("_idle", "_last", "_moved", "_progress")

    def __init__(self, idle: float, progress: float) -> None:
        """Take both in seconds."""
        self._idle = idle
        self._progress = progress
        self._last = self._moved = 0.0

    def heard(self, now: float) -> None:
        """Note that something came."""
        self._last = now

    def progressed(self, now: float) -> None:
        """Note that the work goes on."""
        self._last = self._moved = now

    def left(self, now: float) -> tuple[float, str]:
        """Say how many seconds are left to wait, and what to say once they are over."""
        return min(
            (self._last + self._idle - now, f"nothing came for {self._idle:g} s"),
            (
                self._moved + self._progress - now,
                f"nothing but keep-alives or unfinished pieces came for {self._progress:g} s",
            ),
        )


class _Exchange:
    """A request under way: what of its response has come, and what went wrong."""

    __slots__ = ("failure", "parser", "pieces", "received", "size", "waited")

    def __init__(self, method: str) -> None:
        self.parser = Parser(method)
        self.pieces: list[bytes] = []
        """Of the body, not read yet."""
        self.size = 0
        self.received = False
        self.failure = ""
        self.waited = False
        """Whether patience ran out."""

    def put(self, pieces: list[bytes]) -> None:
        self.pieces += pieces
        self.size += sum(map(len, pieces))

    def take(self) -> bytes:
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces = []
        self.size = 0
        return data


class Connection(asyncio.Protocol):
    """A socket, with TLS or without."""

    __slots__ = (
        "_deadline",
        "_exchange",
        "_flowing",
        "_loop",
        "_owner",
        "_reading",
        "_settling",
        "_tainted",
        "_timer",
        "_waiter",
        "free_since",
        "lost",
        "transport",
    )

    def __init__(self, deadline: Deadline, owner: Owner) -> None:
        """Belong to an owner, who hears of the end of a settling response and of the socket's."""
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._owner = owner
        self.transport: asyncio.Transport | None = None
        self.lost = False
        self.free_since = 0.0
        self._exchange: _Exchange | None = None
        self._reading = True
        self._flowing = True
        self._settling = False
        # Set when a request was not sent to its end: the server may still wait for the rest.
        self._tainted = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def parser(self) -> Parser | None:
        """What of a response has come; None while nothing was asked for."""
        return self._exchange.parser if self._exchange is not None else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse what came, or close if nothing was asked for."""
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        parser = exchange.parser
        self._deadline.heard(self._loop.time())
        exchange.received = True
        headless = not parser.status
        try:
            pieces = parser.feed(data)
        except Malformed as error:
            exchange.failure = str(error)
            self.abort()
        else:
            if self._settling:
                self._settle_on(parser)
                return
            if headless and parser.status:
                self.progressed()
            if pieces:
                exchange.put(pieces)
                if exchange.size > HIGH_WATER and self._reading and self.transport is not None:
                    self._reading = False
                    self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end and whether it came too early."""
        self.lost = True
        exchange = self._exchange
        if exchange is not None and not exchange.parser.done and not exchange.failure:
            early = f"the connection broke ({exc})" if exc else _early(exchange.parser)
            exchange.failure = early
        self._stop_timer()
        self._owner.lost(self)
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
        self._deadline.progressed(self._loop.time())

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
        exchange = self._exchange = _Exchange(method)
        parser = exchange.parser
        now = self._loop.time()
        self._deadline.progressed(now)
        self._timer = self._loop.call_later(self._deadline.left(now)[0], self._check_idle)
        try:
            await self._send(parser, (head, *body))
            while not parser.status:
                self._check(exchange)
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
        exchange = self._exchange
        assert exchange is not None, "a body is read only while a request is open"
        while not exchange.pieces:
            if exchange.parser.done:
                return b""
            self._check(exchange)
            await self._wait()
        data = exchange.take()
        if not self._reading and not self.lost:
            self.progressed()
            self._listen()
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
            self._listen()
        else:
            self.abort()

    def open_tunnel(self) -> None:
        """Forget the proxy's answer: from here on the server itself is at the other end."""
        self._stop_timer()
        self._exchange = None

    def _settle_on(self, parser: Parser) -> None:
        if parser.done:
            self._settling = False
            if parser.keep_alive:
                self._free()
            else:
                self.abort()

    def _free(self) -> None:
        self._stop_timer()
        self._exchange = None
        self._listen()
        self.free_since = self._loop.time()
        self._owner.freed(self)

    def _listen(self) -> None:
        """Read the socket again, if a slow reader had made that stop."""
        if not self._reading and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()

    def _check(self, exchange: _Exchange) -> None:
        if exchange.failure or self.lost:
            why = exchange.failure or "it was closed"
            raise Broken(why, began=exchange.received, waited=exchange.waited)

    def _check_idle(self) -> None:
        # A reader that lags is no fault of the server's: the clock runs only while we listen.
        left, why = self._deadline.left(self._loop.time()) if self._reading else (1.0, "")
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
            return
        if self._exchange is not None:
            self._exchange.waited = True
            self._exchange.failure = why
        self.abort()
        self._wake()

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
