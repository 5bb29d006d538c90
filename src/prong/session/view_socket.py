"""Shows a session's events to other processes of the same user, over a Unix socket.

Who connects says in one line after which event to begin. It is sent a line that says whose events
these are and how many there were so far, and then an envelope a line, for as long as both live.
Nothing that is sent this way changes a session: decisions go by mail.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.errors import WorkerFailed
from prong.event import Envelope
from prong.foreign_json import NOT_JSON
from prong.session.bus import Bus

_T = TypeVar("_T")

_ASKED = 1_000
"""Bytes that the line of whoever connects may have."""
_LINE = 16_000_000
"""Bytes that an envelope may have."""
_PATIENCE = 10.0
"""Seconds in which whoever connects must say where to begin."""
_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_TORN = (anyio.IncompleteRead, anyio.DelimiterNotFound)


class Since(msgspec.Struct, frozen=True):
    """Where to begin: after the event of a number, or with what happens from now on."""

    since: int | None = None


class ShownSession(msgspec.Struct, frozen=True):
    """What is shown."""

    session: str
    seq: int
    """The number of the last event that was recorded before."""


@asynccontextmanager
async def shown(bus: Bus, session: str, path: Path) -> AsyncGenerator[None, None]:
    """Show the events at a path, for its owner alone, until the block is left.

    Raises OSError if there can be no socket at that path.
    """
    async with (
        await anyio.create_unix_listener(path, mode=0o600) as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, partial(_show, bus, session))
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - a moment, not worth a thread


async def _show(bus: Bus, session: str, stream: anyio.abc.ByteStream) -> None:
    async with stream:
        with suppress(*_LOST, *_TORN, TimeoutError, *NOT_JSON):
            with anyio.fail_after(_PATIENCE):
                asked = await BufferedByteReceiveStream(stream).receive_until(b"\n", _ASKED)
            since = msgspec.json.decode(asked, type=Since).since
            await stream.send(msgspec.json.encode(ShownSession(session, bus.seq)) + b"\n")
            with bus.subscribe(since) as events:
                async for envelope in events:
                    await stream.send(msgspec.json.encode(envelope) + b"\n")


class Watched:
    """A session that is shown by another process, and its events as they come."""

    def __init__(self, what: ShownSession, lines: BufferedByteReceiveStream) -> None:
        """Use `watch`."""
        self.what = what
        self._lines = lines

    def __aiter__(self) -> AsyncIterator[Envelope]:
        return self

    async def __anext__(self) -> Envelope:
        try:
            return _decoded(await self._lines.receive_until(b"\n", _LINE), Envelope)
        except (*_LOST, anyio.IncompleteRead):
            # What it had begun to say is lost with it.
            raise StopAsyncIteration from None
        except anyio.DelimiterNotFound as error:
            raise WorkerFailed(f"an event of more than {_LINE} bytes was shown") from error


@asynccontextmanager
async def watch(path: Path, since: int | None = None) -> AsyncGenerator[Watched, None]:
    """Watch the session that is shown at a path, until it ends or is gone.

    Raises OSError if nobody shows anything there, WorkerFailed if what comes are no events.
    """
    async with await anyio.connect_unix(path) as stream:
        lines = BufferedByteReceiveStream(stream)
        try:
            await stream.send(msgspec.json.encode(Since(since)) + b"\n")
            with anyio.fail_after(_PATIENCE):
                what = await lines.receive_until(b"\n", _ASKED)
        except (*_LOST, *_TORN) as error:
            raise ConnectionError(f"{path}: it was closed at once") from error
        yield Watched(_decoded(what, ShownSession), lines)


def _decoded(line: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except NOT_JSON as error:
        raise WorkerFailed(f"what is shown there are no events of a session: {error}") from error
