"""JSON-RPC 2.0 over two pipes, a message in each line.

Whoever reads lines never waits for whoever is asked something, and one task alone writes: a sender
that is cancelled cannot leave half a line behind. A program that reads slowly makes senders wait,
and with them whatever they read from, so that nothing grows without bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

import anyio
import msgspec

from prong.face.output import feed, fit_for
from prong.foreign_json import NOT_JSON
from prong.system.pipe_end import read_input
from prong.system.standard_stream import named

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, CANCELLED = -32602, -32603, -32800
NEEDS_KEY, NOT_FOUND = -32000, -32002
"""What the protocol itself adds: authentication is required, there is no such session."""

_LONGEST = 128 << 20
"""Bytes of a line that are read; pictures come in lines."""
_CHUNK = 65_536
_WRITE = 4_096
"""Bytes that can be written without waiting to a pipe of which the system says that it has room."""
_WAITING = 32
"""Lines that wait to be written before senders do."""

RpcId: TypeAlias = int | str | None


class RpcError(msgspec.Struct, omit_defaults=True):
    """Why a request was not answered."""

    code: int
    message: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RpcFailed(Exception):
    """A request has failed, there or here; the message is for people."""

    def __init__(self, code: int, message: str) -> None:
        """Keep the number by which programs know it."""
        super().__init__(message)
        self.code = code


class RpcRequest(msgspec.Struct, frozen=True):
    """What the other side asks, or only tells."""

    method: str
    params: bytes
    id: RpcId = None
    answered: bool = False
    """Whether an answer is awaited; what is only told gets none."""


class _RpcLine(msgspec.Struct):
    jsonrpc: str = ""
    id: RpcId | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: RpcError | msgspec.UnsetType | None = msgspec.UNSET


class _RpcName(msgspec.Struct):
    id: RpcId = None


class _RpcAnswer(msgspec.Struct):
    """Where the answer to a request of ours goes."""

    come: anyio.Event
    line: _RpcLine | None = None


class RpcPeer:
    """The program at the other end of two pipes."""

    def __init__(self, source: int, sink: int, *, longest: int = _LONGEST) -> None:
        """Read lines of at most `longest` bytes from one file descriptor, write to the other."""
        self._source = source
        self._longest = longest
        self._sink = sink
        self._lines, self._written = anyio.create_memory_object_stream[bytes](_WAITING)
        self._numbers = count(1)
        self._open: dict[RpcId, _RpcAnswer] = {}
        self._unwritten = 0
        self._flushed = anyio.Event()

    async def write(self) -> None:
        """Write what is sent, until the other side is gone or nobody sends any more."""
        try:
            with self._written, suppress(BrokenPipeError):
                async for line in self._written:
                    await self._write_line(line)
                    self._count(-1)
        finally:
            # Nothing more will be written, so that nobody has to wait for it.
            self._count(-self._unwritten)

    async def _write_line(self, line: bytes) -> None:
        line = fit_for(self._sink, line)
        for start in range(0, len(line), _WRITE):
            # A file can always be written, and cannot be waited for.
            with suppress(PermissionError):
                await anyio.wait_writable(self._sink)
            with named("standard output"):
                feed(self._sink, line[start : start + _WRITE])

    def _count(self, change: int) -> None:
        self._unwritten += change
        if not self._unwritten:
            self._flushed.set()
            self._flushed = anyio.Event()

    async def flush(self) -> None:
        """Wait until everything has been written that was sent."""
        while self._unwritten:
            await self._flushed.wait()

    def end(self) -> None:
        """Send no more; what was sent is still written."""
        self._lines.close()

    async def incoming(self) -> AsyncIterator[RpcRequest]:
        """Read until the other side ends; answers are kept for who waits for them."""
        async for data in _split(self._source, self._longest):
            if data is None:
                await self._send_error(None, PARSE_ERROR, "the line is too long")
                continue
            try:
                line = msgspec.json.decode(data, type=_RpcLine)
            except NOT_JSON as error:
                await self._refuse(data, error)
                continue
            if (asked := await self._read(line)) is not None:
                yield asked

    async def _refuse(self, data: bytes, error: Exception) -> None:
        """Say what is wrong with a line: it is no JSON, or no message."""
        broken = not isinstance(error, msgspec.ValidationError)
        code = PARSE_ERROR if broken else INVALID_REQUEST
        found = None if broken else _found_id(data)
        await self._send_error(found, code, f"not understood: {error}")

    async def _read(self, line: _RpcLine) -> RpcRequest | None:
        given = None if line.id is msgspec.UNSET else line.id
        if line.method is not msgspec.UNSET:
            if line.jsonrpc != "2.0":
                await self._send_error(given, INVALID_REQUEST, "'jsonrpc' must be \"2.0\"")
                return None
            params = b"{}" if line.params is msgspec.UNSET else bytes(line.params)
            params = b"{}" if params == b"null" else params
            return RpcRequest(line.method, params, given, line.id is not msgspec.UNSET)
        if line.result is msgspec.UNSET and not isinstance(line.error, RpcError):
            await self._send_error(given, INVALID_REQUEST, "neither a request nor an answer")
        elif (waiting := self._open.get(given)) is not None:
            waiting.line = line
            waiting.come.set()
        return None

    async def request(self, method: str, params: msgspec.Struct) -> bytes:
        """Ask something and wait for the answer; who is cancelled takes the request back.

        Raises RpcFailed if the other side has not done it.
        """
        number = next(self._numbers)
        waiting = self._open[number] = _RpcAnswer(anyio.Event())
        try:
            await self._send({"id": number, "method": method, "params": params})
            await waiting.come.wait()
        except anyio.get_cancelled_exc_class():
            told = {"method": "$/cancel_request", "params": {"requestId": number}}
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._lines.send_nowait(_encoded(told))
                self._count(1)
            raise
        finally:
            del self._open[number]
        line = waiting.line
        assert line is not None
        if isinstance(line.error, RpcError):
            raise RpcFailed(line.error.code, line.error.message)
        return b"null" if line.result is msgspec.UNSET else bytes(line.result)

    async def notify(self, method: str, params: msgspec.Struct) -> None:
        """Tell something that is not answered."""
        await self._send({"method": method, "params": params})

    async def respond(self, asked: RpcRequest, result: msgspec.Struct) -> None:
        """Answer a request."""
        if asked.answered:
            await self._send({"id": asked.id, "result": result})

    async def fail(self, asked: RpcRequest, code: int, why: str) -> None:
        """Say why a request is not answered."""
        if asked.answered:
            await self._send_error(asked.id, code, why)

    async def _send_error(self, number: RpcId, code: int, why: str) -> None:
        await self._send({"id": number, "error": RpcError(code, why)})

    async def _send(self, message: dict[str, Any]) -> None:
        # Nobody reads any more: whoever sends is about to be told to end.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._lines.send(_encoded(message))
            self._count(1)


def _encoded(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"


def _found_id(data: bytes) -> RpcId:
    """Give the id of a message that is otherwise not understood."""
    try:
        return msgspec.json.decode(data, type=_RpcName).id
    except NOT_JSON:
        return None


async def _split(source: int, longest: int) -> AsyncIterator[bytes | None]:
    """Read lines without a thread, which would hold up the exit; None for one that is too long."""
    held = bytearray()
    long = False
    while True:
        with named("standard input"):
            data = await read_input(source)
        *ends, rest = data.split(b"\n")
        for end in [*ends, rest] if not data else ends:
            line, held = bytes(held + end), bytearray()
            if long:
                yield None
            elif line.strip():
                yield line
            long = False
        held += rest
        if len(held) > longest:
            held, long = bytearray(), True
        if not data:
            return
