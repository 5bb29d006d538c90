"""One prompt in, one answer out: for scripts.

Reads the prompt or a stream of commands, writes text, one JSON object, or every event as a line of
JSON. The exit code says how it ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from prong.cost.receipt import as_json
from prong.entry import Usage
from prong.errors import ProngError
from prong.event import Command, Envelope, Say, Warned
from prong.face.line import printable, stop_signals
from prong.session import Options, Session, Subscription, Turn, open_session

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
    receipts: tuple[dict[str, Any], ...] = ()
    """What each child shared and paid."""


async def run(options: Options, prompt: str | None, *, output: Format, reads: Format) -> int:
    """Work on a prompt, or on the commands that come in, and give the exit code."""
    # A program that reads events and writes commands can answer, for as long as it does.
    attended = output == reads == "stream-json"
    turn = Turn(text="", why="interrupted", detail="a signal stopped it")
    async with open_session(options, attended=attended) as session:
        events = session.events()
        if output == "stream-json":
            _line(_encode(Envelope(0, "main", session.started)))
        for text in session.warnings:
            _show(Envelope(0, "main", Warned(text=text)), output)
        async with anyio.create_task_group() as group:
            group.start_soon(_show_all, events, output)
            with anyio.CancelScope() as work:
                group.start_soon(_on_signals, work)
                turn = await (_follow(session) if prompt is None else session.run(prompt))
            group.cancel_scope.cancel()
    # The session is closed: what is left of its events ends by itself.
    await _show_all(events, output)
    return _finish(session, turn, output)


def _finish(session: Session, turn: Turn, output: Format) -> int:
    if output == "text":
        if session.structured is not None:
            print(session.structured.decode())
        elif turn.text:
            print(printable(turn.text) if sys.stdout.isatty() else turn.text)
        if not turn.ok:
            print(f"prong: {turn.why}: {printable(turn.detail)}", file=sys.stderr)
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
            receipts=tuple(as_json(receipt) for receipt in session.receipts()),
        )
        _line(_encode(summary))
    sys.stdout.flush()
    return EXIT[turn.why]


def _line(data: bytes) -> None:
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def _show(envelope: Envelope, output: Format) -> None:
    if output == "stream-json":
        _line(_encode(envelope))
    elif isinstance(envelope.event, Warned):
        print(f"prong: {printable(envelope.event.text)}", file=sys.stderr)


async def _show_all(events: Subscription, output: Format) -> None:
    async for envelope in events:
        _show(envelope, output)


async def _on_signals(work: anyio.CancelScope) -> None:
    """Stop the work on a signal, so that all is stored; a second one ends everything."""
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async for _ in signals:
            if work.cancel_called:
                os._exit(130)
            work.cancel()


async def _follow(session: Session) -> Turn:
    """Carry out commands, a line each, until they end; gives the last turn."""
    async for line in _lines(sys.stdin.fileno()):
        try:
            command = read_command(line)
            if isinstance(command, Say):
                await session.say(command.text)
            else:
                session.send(command)
        except (ProngError, msgspec.MsgspecError) as error:
            print(f"prong: input line {line[:80]!r}: {error}", file=sys.stderr)
    session.leave()
    await session.wait_settled()
    return session.last or Turn(text="", why="done")


async def _lines(source: int) -> AsyncIterator[bytes]:
    """Read lines without a thread: one that waits for input would hold up the exit."""
    held = b""
    while True:
        # A file is always ready, and cannot be waited for.
        with suppress(PermissionError):
            await anyio.wait_readable(source)
        data = os.read(source, 65_536)
        *whole, held = (held + data).split(b"\n")
        for line in [*whole, held] if not data else whole:
            if line.strip():
                yield line
        if not data:
            return


class _Message(msgspec.Struct):
    content: str | list[dict[str, object]]


class _UserLine(msgspec.Struct, tag_field="type", tag="user"):
    message: _Message


def read_command(line: bytes) -> Command:
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
