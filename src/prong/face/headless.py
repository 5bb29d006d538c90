"""One prompt in, one answer out: for scripts.

Reads the prompt or a stream of commands, writes text, one JSON object, or every event as a line of
JSON. The exit code says how it ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from prong.command import (
    Accepted,
    Aside,
    Command,
    Compact,
    Leave,
    Outcome,
    Refused,
    Remember,
    Rename,
    Say,
    SetMemory,
    Suggest,
    TakeUp,
    UseSkill,
)
from prong.entry import Image, Part, Text, Usage
from prong.errors import NotPossibleNow
from prong.event import (
    MAIN,
    Envelope,
    Event,
    MemoryKept,
    Progressed,
    ReplyDiscarded,
    ToolFinished,
    Warned,
    WorkKept,
)
from prong.face.garbage import look_seldom
from prong.face.line import (
    describe_kept,
    describe_retry,
    describe_work,
    dumb,
    progress_bar,
    stop_signals,
)
from prong.face.output import answer, draw, flush, send, show_json, tell
from prong.session import Options, Session, Subscription, Turn, as_json, dump, open_session

Format: TypeAlias = Literal["text", "json", "stream-json"]

EXIT = {
    "done": 0,
    "error": 1,
    "limit": 3,
    "budget": 4,
    "refused": 5,
    "cut_off": 6,
    "loop": 7,
    "interrupted": 130,
}
"""Exit codes by how the turn ended; 2 is a wrong command line."""


class Denial(msgspec.Struct, frozen=True):
    """A tool call that was not allowed to run."""

    tool: str
    why: str


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
    denials: tuple[Denial, ...] = ()
    """Tool calls that were not allowed to run."""
    worktrees: tuple[WorkKept, ...] = ()
    """Where children have left work."""


async def run(options: Options, prompt: str | None, *, output: Format, reads: Format) -> int:
    """Work on a prompt, or on the commands that come in, and give the exit code."""
    # A program that reads events and writes commands can answer, for as long as it does.
    attended = output == reads == "stream-json"
    turn = Turn(text="", why="interrupted", detail="a signal stopped it")
    teller = _Teller(output)
    async with open_session(options, attended=attended) as session:
        look_seldom()
        events = session.events(since=session.records.began)
        async with anyio.create_task_group() as group:
            group.start_soon(teller.show_all, events)
            with anyio.CancelScope() as work:
                group.start_soon(_on_signals, work)
                if prompt is None:
                    turn = await _follow(session, teller)
                elif prompt.strip():
                    turn = await session.run(_skill(session, prompt))
                else:
                    turn = await _go_on(session)
                if session.records.owes_notes:
                    # Here a signal still only cuts this short, and the answer is not lost.
                    await session.send(Remember())
            if work.cancelled_caught:
                await session.send(SetMemory(on=False))
            group.cancel_scope.cancel()
    # The session is closed: what is left of its events ends by itself.
    await teller.show_all(events)
    return _finish(session, turn, teller)


async def _go_on(session: Session) -> Turn:
    """Let a resumed session finish what it had begun: a turn, children that ran, reports.

    Raises UsageError if there is nothing of the kind.
    """
    await session.send(TakeUp())
    await session.wait_settled()
    if session.last is None:
        raise NotPossibleNow(
            "nothing in this session waits to go on: give a prompt as an argument or on standard "
            "input"
        )
    return session.last


def _skill(session: Session, prompt: str) -> str | UseSkill:
    """Take a prompt for a skill that is called by name, as at the interactive prompt."""
    name, *rest = prompt.removeprefix("/").split(maxsplit=1) or [""]
    if not prompt.startswith("/") or session.records.skill(name) is None:
        return prompt
    return UseSkill(name, rest[0] if rest else "")


def _finish(session: Session, turn: Turn, teller: _Teller) -> int:
    if teller.output == "text":
        if turn.structured is not None:
            show_json(turn.structured)
        elif turn.text:
            answer(turn.text)
        if not turn.ok or turn.detail:
            tell(f"{turn.why}: {turn.detail}")
    else:
        structured = turn.structured
        summary = Summary(
            session_id=session.id,
            text=turn.text,
            why=turn.why,
            detail=turn.detail,
            turns=session.records.requests,
            usage=session.usage,
            cost=session.cost,
            structured=msgspec.UNSET if structured is None else msgspec.Raw(structured),
            receipts=tuple(as_json(receipt) for receipt in session.receipts()),
            denials=tuple(teller.denials),
            worktrees=tuple(teller.worktrees.values()),
        )
        send(dump(summary))
    flush()
    return EXIT[turn.why]


class _Teller:
    """Writes events, or what of them people should see beside the answer."""

    def __init__(self, output: Format) -> None:
        self.output: Format = output
        self.denials: list[Denial] = []
        self.worktrees: dict[str, WorkKept] = {}
        # A bar is for eyes: in a file it would be noise.
        self._bars = output != "stream-json" and sys.stderr.isatty() and not dumb()
        self._bar = False

    async def show_all(self, events: Subscription) -> None:
        async for envelope in events:
            self.show(envelope)

    def show(self, envelope: Envelope) -> None:
        event = envelope.event
        badge = "" if envelope.agent == "main" else f"[{envelope.agent}] "
        if isinstance(event, ToolFinished) and event.refused:
            self.denials.append(Denial(event.name, event.text))
        if isinstance(event, WorkKept):
            self.worktrees[event.path] = event
        if self._bars:
            drawn = progress_bar(event, badge=badge) if isinstance(event, Progressed) else ""
            self._draw(drawn)
        if self.output == "stream-json":
            send(dump(envelope))
        elif told := _told(event):
            tell(f"{badge}{told}")

    def answer(self, line: bytes, outcome: Outcome) -> None:
        """Say what came of a line of input, as far as no event does."""
        if isinstance(outcome, Refused):
            text = f"input line {line[:80].decode(errors='replace')!r}: {outcome.why}"
            self.show(Envelope(0, time.time(), MAIN, Warned(text=text)))
            if self.output == "stream-json":
                # Also for whoever reads no events.
                tell(text)
        elif outcome != Accepted() and self.output == "stream-json":
            send(dump(outcome))

    def _draw(self, bar: str) -> None:
        """Show a bar in the place of the last one; nothing wipes it away."""
        if bar or self._bar:
            draw(bar)
        self._bar = bool(bar)


def _told(event: Event) -> str:
    match event:
        case Warned():
            return event.text
        case ToolFinished(refused=True):
            return f"not allowed: {event.title or event.name}: {event.text}"
        case WorkKept():
            return describe_work(event)
        case MemoryKept():
            return describe_kept(event)
        case ReplyDiscarded():
            return describe_retry(event)
        case _:
            return ""


async def _on_signals(work: anyio.CancelScope) -> None:
    """Stop the work on a signal, so that all is stored; a second one ends everything."""
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async for _ in signals:
            if work.cancel_called:
                os._exit(130)
            work.cancel()


async def _follow(session: Session, teller: _Teller) -> Turn:
    """Carry out commands, a line each, until they end; gives the last turn."""
    async with anyio.create_task_group() as group:
        async for line in _lines(sys.stdin.fileno()):
            try:
                command = read_command(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                teller.answer(line, Refused(str(error)))
                continue
            if isinstance(command, Compact | Aside | Suggest | Rename | Remember):
                # The model is asked: an interrupt must be heard meanwhile.
                group.start_soon(_carry_out, session, teller, line, command)
            else:
                await _carry_out(session, teller, line, command)
    await session.send(Leave())
    await session.wait_settled()
    return session.last or Turn(text="", why="done")


async def _carry_out(session: Session, teller: _Teller, line: bytes, command: Command) -> None:
    teller.answer(line, await session.send(command))


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


class _ImageSource(msgspec.Struct):
    media_type: str
    data: str


class _ContentBlock(msgspec.Struct):
    type: str
    text: str = ""
    source: _ImageSource | None = None

    def part(self) -> Part | None:
        """Read it as a part of a message; None if it is of another kind."""
        if self.type == "image" and self.source is not None:
            return Image(self.source.media_type, self.source.data)
        return Text(self.text) if self.type == "text" else None


class _UserMessage(msgspec.Struct):
    content: str | list[_ContentBlock]


class _UserLine(msgspec.Struct, tag_field="type", tag="user"):
    message: _UserMessage


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
    parts = (block.part() for block in content)
    return Say(parts=tuple(part for part in parts if part is not None))
