"""A small HTTP/1.1 server for loopback use: keep-alive, sized and chunked bodies, streams out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import msgspec

from prong.foreign_number import whole_number

MAX_BODY = 64 << 20
_REASONS = {
    200: "OK", 303: "See Other", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large",
    421: "Misdirected Request", 429: "Too Many Requests", 500: "Internal Server Error",
    503: "Service Unavailable", 529: "Overloaded",
}  # fmt: skip


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Hangup(Exception):
    """The connection is to be closed here, or the client has closed it."""


class HttpExchange:
    """One request and the means to answer it."""

    def __init__(
        self, incoming: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.incoming = incoming
        self._reader = reader
        self._writer = writer

    @property
    def port(self) -> int:
        """The port at which it came in."""
        return self._writer.get_extra_info("sockname")[1]

    @property
    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """What it reads from and writes to."""
        return self._reader, self._writer

    def replaced(self, incoming: HttpRequest) -> HttpExchange:
        """Answer another request by the same means."""
        return HttpExchange(incoming, *self.streams)

    async def send(
        self, status: int, body: bytes, headers: Mapping[str, str], *, cut_after: int | None = None
    ) -> None:
        """Answer with a whole body."""
        head = _head(status, {"content-length": str(len(body)), **headers})
        await self._write(head + (body if cut_after is None else body[:cut_after]))
        if cut_after is not None and cut_after < len(body):
            raise Hangup

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer that comes in pieces."""
        await self._write(_head(status, {"transfer-encoding": "chunked", **headers}))

    async def write(self, data: bytes) -> None:
        """Send one piece."""
        if data:
            await self._write(b"%x\r\n%s\r\n" % (len(data), data))

    async def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, head and framing included."""
        await self._write(data)

    async def finish(self) -> None:
        """End an answer that came in pieces."""
        await self._write(b"0\r\n\r\n")

    async def wait(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> None:
        """Wait for a sleep to end; a client that goes away in the meantime ends the exchange."""
        gone = False

        async def watch() -> None:
            nonlocal gone
            with suppress(ConnectionError):
                await self._reader.read(1)
            gone = True
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await sleep(seconds)
            group.cancel_scope.cancel()
        if gone:
            raise Hangup

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


Answering: TypeAlias = Callable[[HttpExchange], Awaitable[None]]


@asynccontextmanager
async def listen(
    answering: Answering, port: int = 0, *, longest: int = MAX_BODY
) -> AsyncGenerator[int]:
    """Serve on the loopback interface and give the port.

    Who sends a body of more bytes than the longest is hung up on, before anybody reads it.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            # A reset, a torn request or a wanted hang-up all end the connection and nothing else.
            with suppress(Hangup, ConnectionError, asyncio.IncompleteReadError):
                await _converse(answering, reader, writer, longest)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=1 << 20, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = list(tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        await server.wait_closed()


async def _converse(
    answering: Answering, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, longest: int
) -> None:
    while True:
        incoming = await _receive(reader, writer, longest)
        if incoming is None:
            return
        await answering(HttpExchange(incoming, reader, writer))
        if incoming.headers.get("connection", "").lower() == "close":
            return


async def _receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, longest: int
) -> HttpRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise Hangup
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        known = name.strip().lower()
        # Joined, as of any field that comes twice: of two hosts neither is taken for the one.
        headers[known] = ", ".join(([headers[known]] if known in headers else []) + [value.strip()])
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _chunked(reader, longest)
    else:
        body = await _sized(reader, headers.get("content-length", "0"), longest)
    return HttpRequest(words[0], words[1], headers, body)


async def _sized(reader: asyncio.StreamReader, length: str, longest: int) -> bytes:
    size = whole_number(length)
    if size is None or size > longest:
        raise Hangup
    return await reader.readexactly(size)


async def _chunked(reader: asyncio.StreamReader, longest: int) -> bytes:
    body = bytearray()
    while True:
        try:
            # A line that never ends is a ValueError as well.
            size = int((await reader.readline()).split(b";")[0], 16)
        except ValueError:
            raise Hangup from None
        if size < 0 or len(body) + size > longest:
            raise Hangup
        if size == 0:
            await _skip_trailers(reader)
            return bytes(body)
        body += (await reader.readexactly(size + 2))[:-2]


async def _skip_trailers(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.readline() not in (b"\r\n", b""):
            pass
    except ValueError:
        raise Hangup from None


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
