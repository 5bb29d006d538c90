"""A server that is started here and spoken with over its standard input and output.

The process is started before the client's modules are loaded, so that both happen at once. What the
server writes is bounded: a line that never ends, or noise without a message in it, ends the
connection, and the reason is kept beside the last of what was printed on standard error.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

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
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._kept = b""
        self._open = True

    async def follow(self) -> None:
        """Keep the pipe from filling up."""
        while self._take():
            await anyio.wait_readable(self._reader)

    def text(self) -> str:
        """Give what is known so far."""
        self._take()
        return self._kept.decode(errors="replace").strip()

    def close(self) -> None:
        """Take the rest and close; the text stays."""
        self._take()
        self._open = False
        os.close(self._reader)

    def _take(self) -> bool:
        """Take what is there; False at the end."""
        try:
            while self._open and (chunk := os.read(self._reader, 65536)):
                self._kept = (self._kept + chunk)[-_TAIL:]
        except BlockingIOError:
            return True
        return False


class ServerProcess:
    """A server's process, its output cut into lines."""

    def __init__(self, process: anyio.abc.Process, tail: StderrTail) -> None:
        """Take a process that runs."""
        self._process = process
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
        for number in (*([None] if self.talked else []), signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
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
    tail = StderrTail()
    try:
        with os.fdopen(tail.writer, "wb") as errors:
            process = await anyio.open_process(
                list(argv),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
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
                continue
            noise, server.talked = 0, True
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


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
