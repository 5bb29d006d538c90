"""A server that is started here and spoken with over its standard input and output.

The process is started before the client's modules are loaded, so that both happen at once. What the
server writes is bounded: a line that never ends, or noise without a message in it, ends the
connection, and the reason is kept beside the last of what was printed on standard error.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from prong.foreign_json import NOT_JSON
from prong.system.pipe_end import PipeSource
from prong.system.process_tree import ProcessTree, apart

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCError

LARGEST = 32 << 20
"""Bytes that one message may have."""
NOISE = 10_000
"""Lines in a row that may be no messages."""
_TAIL = 4_000
_GRACE = 2.0
"""Seconds in which a process may end by itself, and then after each signal."""


class StderrTail:
    """The last of what a server printed on standard error."""

    def __init__(self) -> None:
        """Open the pipe; `writer` is for the process."""
        source, self.writer = os.pipe()
        self._source = PipeSource(source)
        self._kept = b""
        self._open = True

    async def follow(self) -> None:
        """Keep the pipe from filling up."""
        while self._take():
            await self._source.wait()

    def text(self) -> str:
        """Give what is known so far."""
        self._take()
        return self._kept.decode(errors="replace").strip()

    def close(self) -> None:
        """Take the rest and close; the text stays."""
        self._take()
        self._open = False
        self._source.close()

    def _take(self) -> bool:
        """Take what is there; False at the end."""
        chunk: bytes | None = b""
        while self._open and (chunk := self._source.read_nowait()):
            self._kept = (self._kept + chunk)[-_TAIL:]
        return chunk is None


class ServerProcess:
    """A server's process, its output cut into lines."""

    def __init__(self, process: anyio.abc.Process, tail: StderrTail) -> None:
        """Take a process that runs."""
        self._process = process
        self._tree = ProcessTree(process.pid)
        self.tail = tail
        self.broken = ""
        """Why nothing more is read from it, if it did what no server does."""
        self.talked = False
        """Whether it has ever said something that can be understood."""

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Give line after line, until the end or until one is too long."""
        output = self._process.stdout
        assert output is not None
        parts: list[bytes] = []
        size = 0
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                *whole, rest = (await output.receive(1 << 20)).split(b"\n")
                for line in whole:
                    yield b"".join((*parts, line))
                    parts, size = [], 0
                parts.append(rest)
                size += len(rest)
                if size > LARGEST:
                    self.broken = f"it sent a message of more than {LARGEST >> 20} MB"
                    return

    async def send(self, data: bytes) -> None:
        """Write to its standard input.

        Raises OSError or an error of the stream if it reads no more.
        """
        assert self._process.stdin is not None
        await self._process.stdin.send(data)

    async def end(self) -> None:
        """Close its input, wait, and kill it with all that it started if that is not enough.

        Who has said nothing yet has nothing to finish.
        """
        process = self._process
        assert process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        waits = ((lambda: True),) if self.talked else ()
        for hint in (*waits, self._tree.ask, self._tree.force):
            hint()
            with anyio.move_on_after(_GRACE):
                # Not wait(): a grandchild that holds the pipes would look like a server that hangs.
                while process.returncode is None:  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.01)
                break
        assert process.stdout is not None
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdout.aclose()
        close = getattr(getattr(getattr(process, "_process", None), "_transport", None), "close", 0)
        if callable(close):
            # Else it stays open, and warns, while a surviving descendant holds an end of a pipe.
            with suppress(PermissionError):
                close()


@asynccontextmanager
async def started(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str
) -> AsyncGenerator[ServerProcess, None]:
    """Start a server; it has ended when this is left.

    Raises OSError if it cannot be started, ValueError if its words hold a null byte.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    tail = StderrTail()
    process = None
    try:
        # A start that is cancelled in its midst leaves a process that nobody waits for.
        with os.fdopen(tail.writer, "wb") as errors, anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                list(argv),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env=dict(env),
                cwd=cwd,
                **apart(),
            )
        assert process is not None, "a shield hides nothing"
        server = ServerProcess(process, tail)
        async with anyio.create_task_group() as group:
            group.start_soon(tail.follow)
            try:
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    await server.end()
                group.cancel_scope.cancel()
    finally:
        tail.close()


@asynccontextmanager
async def talk(server: ServerProcess) -> AsyncGenerator[Any, None]:
    """Give the two streams over which a client talks with a started server."""
    incoming, reader = anyio.create_memory_object_stream[Any](0)
    writer, outgoing = anyio.create_memory_object_stream[Any](math.inf)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, server, incoming)
        group.start_soon(_write, server, outgoing, incoming)
        try:
            yield reader, writer
        finally:
            group.cancel_scope.cancel()
            for stream in (incoming, reader, writer, outgoing):
                stream.close()


async def _read(
    server: ServerProcess, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    noise = 0
    async with incoming:
        async for line in server.lines():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                noise += 1
                if noise > NOISE:
                    server.broken = f"it sent {noise:,} lines that are no messages"
                    return
                if not noise % 100:
                    await anyio.lowlevel.checkpoint()
                message = _failed_answer(line)
                if message is None:
                    continue
            else:
                noise, server.talked = 0, True
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


class _AnswerId(msgspec.Struct):
    """What is read of an answer that is none: which request it is for; a request has a method."""

    id: int | str
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _failed_answer(line: bytes) -> JSONRPCError | None:
    """Give what takes the place of an answer that is none: whoever asked need not wait for more."""
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

    try:
        answer = msgspec.json.decode(line, type=_AnswerId)
    except NOT_JSON:
        return None
    if answer.method is not msgspec.UNSET:
        return None
    error = ErrorData(code=PARSE_ERROR, message="its answer is not of the protocol")
    return JSONRPCError(jsonrpc="2.0", id=answer.id, error=error)


async def _write(
    server: ServerProcess,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async for message in outgoing:
            data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await server.send(f"{data}\n".encode(errors="replace"))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # It may still run: who waits for an answer must see that none will come.
        await incoming.aclose()
