"""Takes commands for a session from other processes of its user, over a Unix socket.

The socket is in a folder for the user alone that no agent's sandboxed command can see. Who connects
must be of the same user by the system's word, is put before the session's own user
(`outside_control`), and can then send commands, each of which is carried out once, however often
the same one comes.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.command import Interrupt, Outcome, Refused, Say, Stop, Tell
from prong.errors import NotPossibleNow
from prong.event import CommandTaken, ControlChanged, Warned
from prong.foreign_json import NOT_JSON
from prong.mail.socket_folder import new_socket_path, sweep_sockets
from prong.question import Answer
from prong.session import perform
from prong.session.control_message import (
    CONTROL,
    LONGEST,
    ControlHello,
    ControlVerdict,
    OrderDone,
    OutsideOrder,
)
from prong.session.outside_control import ControlRequest
from prong.session.parts import Parts
from prong.system.peer import peer_process

_PATIENCE = 10.0
"""Seconds in which whoever connects must say what it wants."""
_HELLO = 200
_CODE = re.compile(r"[0-9]{4}")
_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
_TORN = (anyio.IncompleteRead, anyio.DelimiterNotFound, TimeoutError, *NOT_JSON)


async def serve_control(
    parts: Parts, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Take commands until the session ends; if there can be no socket, that is noted."""
    control = parts.control
    try:
        path = new_socket_path(parts.journal.path, "main", CONTROL)
        # One that was left there, by a process that was killed, goes with this.
        listener = await anyio.create_unix_listener(path, mode=0o600)
    except (OSError, NotPossibleNow, NotImplementedError, AttributeError) as error:
        control.fail(f"there can be no socket here: {error}")
        if control.state == "free":
            parts.agent.emit(Warned(text=f"nobody can act in this session: {control.fault}"))
        task_status.started()
        return
    task_status.started()
    inode = path.lstat().st_ino
    sweep_sockets(path.parent)
    async with listener, anyio.create_task_group() as group:
        try:
            await listener.serve(partial(_meet, parts, group))
        finally:
            _remove(path, inode)


def _remove(path: Path, inode: int) -> None:
    """Remove the socket, if it is still the one."""
    with suppress(OSError):
        if path.lstat().st_ino == inode:
            os.unlink(path)  # noqa: PTH108 - a single call, nothing to wait for


async def _meet(parts: Parts, group: anyio.abc.TaskGroup, stream: anyio.abc.SocketStream) -> None:
    """Talk with one who has connected, for as long as it stays."""
    peer = peer_process(stream)
    async with stream:
        if peer is None or not peer.is_ours:
            return
        with suppress(*_LOST, *_TORN):
            lines = BufferedByteReceiveStream(stream)
            with anyio.fail_after(_PATIENCE):
                hello = await lines.receive_until(b"\n", _HELLO)
            code = msgspec.json.decode(hello, type=ControlHello).code
            if not _CODE.fullmatch(code):
                return
            request = ControlRequest(peer.pid, code)
            why = await _decided(parts, request, lines)
            await _send(stream, ControlVerdict(why))
            if not why:
                await _admit(parts, group, request, stream, lines)


async def _decided(parts: Parts, request: ControlRequest, lines: BufferedByteReceiveStream) -> str:
    """Wait for the decision; who goes away in the meantime, or talks on, is not let in."""
    why = "it did not wait for an answer"

    async def watch() -> None:
        with suppress(*_LOST, *_TORN):
            await lines.receive(1)
        waiting.cancel_scope.cancel()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(watch)
        why = await parts.control.ask(request)
        waiting.cancel_scope.cancel()
    return why


async def _admit(
    parts: Parts,
    group: anyio.abc.TaskGroup,
    request: ControlRequest,
    stream: anyio.abc.SocketStream,
    lines: BufferedByteReceiveStream,
) -> None:
    """Take the commands of who was let in."""
    control, questions = parts.control, parts.agent.questions
    parts.agent.emit(ControlChanged(pid=request.pid, code=request.code, acts=True))
    try:
        with anyio.CancelScope() as scope:
            control.admitted[request] = scope
            # Somebody is there now who can be asked.
            questions.lend()
            async with anyio.create_task_group() as answering:
                await _take_orders(parts, group, answering, request, stream, lines)
    finally:
        del control.admitted[request]
        questions.give_back()
        parts.agent.emit(ControlChanged(pid=request.pid, code=request.code, acts=False))


async def _take_orders(
    parts: Parts,
    group: anyio.abc.TaskGroup,
    answering: anyio.abc.TaskGroup,
    request: ControlRequest,
    stream: anyio.abc.SocketStream,
    lines: BufferedByteReceiveStream,
) -> None:
    order_of_words = anyio.Lock()

    async def answer(order: OutsideOrder) -> None:
        carried, first = parts.control.begin(order.id)
        if first:
            # Not in this connection's own group: what was begun is done, whoever hangs up.
            async def carry_out() -> None:
                carried.settle(await _carry_out(parts, request, order))

            group.start_soon(carry_out)
        done = OrderDone(order.id, await carried.wait_outcome())
        with suppress(*_LOST):
            async with order_of_words:
                await _send(stream, done)

    with suppress(*_LOST, *_TORN):
        while True:
            line = await lines.receive_until(b"\n", LONGEST)
            answering.start_soon(answer, msgspec.json.decode(line, type=OutsideOrder))
    answering.cancel_scope.cancel()


async def _carry_out(parts: Parts, request: ControlRequest, order: OutsideOrder) -> Outcome:
    """Do what an order says, and record who gave it."""
    command = order.command
    if isinstance(command, Answer):
        asked = parts.bus.view().questions.get(command.request_id)
        if asked is None or asked.seq != order.asked:
            return Refused("that question waits for no answer any more")
    if isinstance(command, Say) and command.parts:
        return Refused("from outside only text can be said")
    async with parts.control.speaking if isinstance(command, Say | Tell) else nullcontext():
        # It may have waited here while the user sent everybody away.
        if why := parts.control.ended:
            return Refused(why)
        outcome = await perform.perform(parts, command)
    if not isinstance(outcome, Refused):
        parts.agent.emit(_taken(request, order))
    return outcome


def _taken(request: ControlRequest, order: OutsideOrder) -> CommandTaken:
    command, target, text = order.command, "", ""
    match command:
        case Answer(request_id=request_id, allow=allow):
            target, text = f"{request_id} {'yes' if allow else 'no'}", command.text
        case Say():
            text = command.text
        case Tell():
            target, text = command.to, command.text
        case Stop():
            target = command.task_id
        case Interrupt():
            pass
    name = str(command.__struct_config__.tag)
    return CommandTaken(pid=request.pid, command=name, target=target, text=text)


async def _send(stream: anyio.abc.SocketStream, message: msgspec.Struct) -> None:
    await stream.send(msgspec.json.encode(message) + b"\n")
