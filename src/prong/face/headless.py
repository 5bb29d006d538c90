"""One prompt in, one answer out: for scripts.

Reads the prompt or a stream of commands, writes text, one JSON object, or every event as a line of
JSON. The exit code says how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import IO, Literal, TypeAlias

import anyio
import msgspec

from prong.entry import Usage
from prong.errors import ProngError
from prong.event import Command, Say, Warned
from prong.session import Options, Session, Turn, open_session

Format: TypeAlias = Literal["text", "json", "stream-json"]

EXIT = {
    "done": 0,
    "error": 1,
    "limit": 3,
    "budget": 4,
    "refused": 5,
    "cut_off": 6,
    "interrupted": 130,
}
"""Exit codes by how the turn ended; 2 is a wrong command line."""

_encode = msgspec.json.Encoder().encode


class Summary(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of `stream-json`, and all of `json`."""

    session_id: str
    text: str
    why: str
    detail: str
    turns: int
    """Requests that were made."""
    usage: Usage
    cost: float | None
    """In dollars; null when a price is unknown."""
    structured: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The answer as an object, if a JSON schema was given."""


async def run(options: Options, prompt: str | None, *, output: Format, reads: Format) -> int:
    """Work on a prompt, or on the commands that come in, and give the exit code."""
    async with open_session(options) as session, anyio.create_task_group() as group:
        group.start_soon(_on_signals, session)
        if output == "stream-json":
            group.start_soon(_write_events, session)
        elif output == "text":
            group.start_soon(_write_warnings, session)
        if reads == "stream-json":
            turn = await _follow(session, sys.stdin)
        else:
            turn = await session.run(prompt or "")
        code = _finish(session, turn, output)
        group.cancel_scope.cancel()
        return code
    raise AssertionError("a session ends by itself")


def _finish(session: Session, turn: Turn, output: Format) -> int:
    if output == "text":
        if session.structured is not None:
            print(session.structured.decode())
        elif turn.text:
            print(turn.text)
        if not turn.ok:
            print(f"prong: {turn.why}: {turn.detail}", file=sys.stderr)
    else:
        structured = session.structured
        summary = Summary(
            session_id=session.id,
            text=turn.text,
            why=turn.why,
            detail=turn.detail,
            turns=len(session.ledger.rows),
            usage=session.usage,
            cost=session.cost,
            structured=msgspec.UNSET if structured is None else msgspec.Raw(structured),
        )
        _line(_encode(summary))
    sys.stdout.flush()
    return EXIT[turn.why]


def _line(data: bytes) -> None:
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


async def _write_events(session: Session) -> None:
    with session.events() as events:
        _line(_encode(session.started))
        async for envelope in events:
            _line(_encode(envelope))


async def _write_warnings(session: Session) -> None:
    with session.events() as events:
        async for envelope in events:
            if isinstance(envelope.event, Warned):
                print(f"prong: {envelope.event.text}", file=sys.stderr)


async def _on_signals(session: Session) -> None:
    """Stop the turn on SIGINT or SIGTERM, so that all is stored; a second one ends everything."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if not session.interrupt():
                os._exit(130)


async def _follow(session: Session, source: IO[str]) -> Turn:
    """Carry out commands, a line each, until they end; gives the last turn."""
    async for line in _lines(source):
        try:
            command = read_command(line)
            if isinstance(command, Say):
                await session.say(command.text)
            else:
                session.send(command)
        except (ProngError, msgspec.MsgspecError) as error:
            print(f"prong: input line {line[:80]!r}: {error}", file=sys.stderr)
    await session.wait_settled()
    return session.last or Turn(text="", why="done")


async def _lines(source: IO[str]) -> AsyncIterator[str]:
    while line := await anyio.to_thread.run_sync(source.readline, abandon_on_cancel=True):
        if line.strip():
            yield line


class _Message(msgspec.Struct):
    content: str | list[dict[str, object]]


class _UserLine(msgspec.Struct, tag_field="type", tag="user"):
    message: _Message


def read_command(line: str) -> Command:
    """Read one line of input: a command, or `{"type": "user", "message": {"content": …}}`.

    Raises msgspec.MsgspecError if it is neither.
    """
    try:
        return msgspec.json.decode(line, type=Command)
    except msgspec.ValidationError as error:
        try:
            content = msgspec.json.decode(line, type=_UserLine).message.content
        except msgspec.MsgspecError:
            raise error from None
    if isinstance(content, str):
        return Say(content)
    return Say("\n".join(str(block["text"]) for block in content if "text" in block))
