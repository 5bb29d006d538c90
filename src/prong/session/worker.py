"""A worker: a process that runs agents of a session which lives in another.

It reads from its standard input and writes to its standard output, in the frames of
`prong.team.message`, and ends when its input does. Each channel is served by itself: whatever goes
wrong in one is told there, and touches no other.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import cast

import anyio
import anyio.abc

from prong.errors import ProngError, WorkerFailed
from prong.host.byte_carrier import write_all
from prong.session.port import Port
from prong.session.worker_run import serve_run
from prong.session.workspace_server import serve_workspace
from prong.system.descriptor import make_nonblocking
from prong.team.channel import Incoming, Outgoing
from prong.team.message import (
    CONTROL,
    PROTOCOL,
    Alive,
    Begin,
    ChannelClosed,
    CloseChannel,
    Credit,
    EntrySent,
    Forget,
    Frame,
    Frames,
    HeadSent,
    Hello,
    Ready,
    read_down,
)
from prong.team.rope_transfer import KnownRopes
from prong.team.workspace_message import read_first

_PULSE = 10.0
"""Seconds between two signs of life."""

_CHUNK = 1 << 16


def run_worker() -> int:
    """Run agents for the session at the other end of the standard streams; gives a code."""
    # Whatever prints must not get into the frames.
    sink = os.dup(1)
    os.dup2(2, 1)
    try:
        make_nonblocking(0)
        make_nonblocking(sink)
        anyio.run(_work, 0, sink)
    except (ProngError, OSError, ExceptionGroup) as error:
        # Often it is only that nobody listens any more.
        sys.stderr.write(f"{_reason(error)}\n")
        return 1
    return 0


async def _frames(source: int) -> AsyncGenerator[Frame, None]:
    frames = Frames()
    while True:
        await anyio.wait_readable(source)
        data = os.read(source, _CHUNK)
        if not data:
            return
        for whole in frames.feed(data):
            yield whole


async def _work(source: int, sink: int) -> None:
    outgoing, failure = Outgoing(), None
    async with anyio.create_task_group() as group, aclosing(_frames(source)) as frames:
        group.start_soon(outgoing.pump, partial(write_all, sink))
        try:
            await _serve(frames, outgoing, group)
        except ProngError as error:
            # What is wrong with its words is still said, to whoever can make something of it.
            await outgoing.wait_room(CONTROL, below=1)
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _serve(
    frames: AsyncGenerator[Frame, None], outgoing: Outgoing, group: anyio.abc.TaskGroup
) -> None:
    """Serve the session's channels until it has nothing more to say.

    Raises WorkerFailed if what it says cannot be understood.
    """
    first = await anext(frames, None)
    hello = None if first is None else read_down(first.data)
    outgoing.put(Ready())
    if not isinstance(hello, Hello) or hello.version != PROTOCOL:
        raise WorkerFailed(f"the session does not speak version {PROTOCOL} of the protocol")
    group.start_soon(_pulse, outgoing)
    served = _Channels(outgoing, group)
    async for whole in frames:
        served.take(whole)


async def _pulse(outgoing: Outgoing) -> None:
    while True:
        await anyio.sleep(_PULSE)
        outgoing.put(Alive())


class _Channels:
    """What goes on in this process, channel by channel, and the prompts that they share."""

    def __init__(self, outgoing: Outgoing, group: anyio.abc.TaskGroup) -> None:
        self._outgoing = outgoing
        self._group = group
        self._ropes = KnownRopes()
        self._open: dict[int, tuple[Incoming, anyio.CancelScope]] = {}
        self._ended: set[int] = set()
        """Those that have ended: what is still said on one was said before that was known."""

    def take(self, whole: Frame) -> None:
        """Hand on what the session says.

        Raises WorkerFailed if it cannot be understood.
        """
        number = whole.channel
        if number == CONTROL:
            self._control(whole.data)
            return
        if number in self._ended:
            return
        if number not in self._open:
            # In any order: one that was opened first may take longer to have something to say.
            incoming, scope = Incoming(number, self._outgoing), anyio.CancelScope()
            self._open[number] = incoming, scope
            self._group.start_soon(self._run, number, incoming, scope)
        self._open[number][0].put(whole.data)

    def _control(self, data: bytes) -> None:
        match read_down(data):
            case HeadSent() | EntrySent() | Forget() as part:
                self._ropes.take(part)
            case Credit() as credit:
                self._outgoing.grant(credit)
            case CloseChannel(channel=number):
                if number in self._open:
                    self._open[number][1].cancel()
                    # Nobody takes what it still has to say.
                    self._outgoing.drop(number)
                elif number not in self._ended:
                    # Nothing was ever said on it.
                    self._outgoing.put(ChannelClosed(channel=number))
                self._ended.add(number)
            case other:
                raise WorkerFailed(f"the session said {type(other).__name__} in the wrong place")

    async def _run(self, number: int, incoming: Incoming, scope: anyio.CancelScope) -> None:
        """Serve one channel to its end, whatever that is."""
        why = ""
        try:
            with scope:
                async with aclosing(incoming.frames()) as frames:
                    await self._begin(frames, Port(self._outgoing, number))
                # What it said must be there before its end is.
                await self._outgoing.wait_room(number, below=1)
        except Exception as error:  # noqa: BLE001 - siblings must not end with it
            why = _reason(error)
        finally:
            del self._open[number]
            self._ended.add(number)
            self._outgoing.put(ChannelClosed(channel=number, why=why))
            self._outgoing.drop(number)

    async def _begin(self, frames: AsyncGenerator[bytes, None], port: Port) -> None:
        """Do what the first word asks for."""
        match read_first(await anext(frames)):
            case Begin() as begin:
                prompt = self._ropes.find(begin.spec.digest)
                await serve_run(begin, prompt, frames, port)
            case order:
                await serve_workspace(order, frames, port)


def _reason(error: BaseException) -> str:
    """Say what ended a channel; what only we can mend is also written down."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, ProngError | OSError):
        return str(error)
    traceback.print_exception(error, file=sys.stderr)
    return f"inside Prong: {error!r}"
