"""One prompt in, one answer out: for scripts.

Reads the prompt or a stream of commands, writes text, one JSON object, or every event as a line of
JSON. The exit code says how it ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

import anyio

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
    SetMemory,
    Suggest,
    TakeUp,
    UseSkill,
)
from prong.errors import NotPossibleNow, UnknownName, nearest
from prong.event import (
    MAIN,
    AgentFinished,
    Envelope,
    Event,
    MemoryKept,
    Progressed,
    PromptMoved,
    ReplyDiscarded,
    ToolFinished,
    Warned,
    WorkKept,
)
from prong.face.garbage import look_seldom
from prong.face.input_line import read_command
from prong.face.line import (
    describe_kept,
    describe_retry,
    describe_work,
    dumb,
    progress_bar,
)
from prong.face.output import answer, draw, flush, send, show_json, tell
from prong.face.run_summary import SpentSoFar, spent_so_far, summarise
from prong.face.step import describe_step
from prong.foreign_json import NOT_JSON
from prong.session import Options, Session, Subscription, Turn, dump, open_session
from prong.system.pipe_end import read_input
from prong.system.standard_stream import named
from prong.system.stop_signal import received, stop_signals

Format: TypeAlias = Literal["text", "json", "stream-json"]

Detail: TypeAlias = Literal["", "verbose", "debug"]
"""How much is told on standard error beside what must be."""

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


async def run(
    options: Options, prompt: str | None, *, output: Format, reads: Format, detail: Detail = ""
) -> int:
    """Work on a prompt, or on the commands that come in, and give the exit code."""
    # A program that reads events and writes commands can answer, for as long as it does.
    attended = output == reads == "stream-json"
    turn = Turn(text="", why="interrupted", detail="a signal stopped it")
    teller = _Teller(output, detail)
    async with open_session(options, attended=attended) as session:
        look_seldom()
        before = spent_so_far(session)
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
    return _finish(session, turn, teller, before)


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
    """Take a prompt for a skill that is called by name, as at the interactive prompt.

    Raises UsageError if it is a command that only a terminal has, or a slip of one or of a skill.
    """
    name, *rest = prompt.removeprefix("/").split(maxsplit=1) or [""]
    if not prompt.startswith(f"/{name}") or not name:
        return prompt
    if session.records.is_command(name):
        return UseSkill(name, rest[0] if rest else "")
    from prong.face.slash import COMMANDS

    terminal = {one.name for one in COMMANDS}
    told = f"'/{name}' is a command of the terminal, and -p has none."
    if name not in terminal:
        close = nearest(name, [*terminal, *session.records.skills], cutoff=0.8)
        if not close:
            return prompt
        told = f"there is no '/{name}'; did you mean '/{close}'?"
    raise UnknownName(f"{told} To say it to the model, put a blank before the slash")


def _finish(session: Session, turn: Turn, teller: _Teller, before: SpentSoFar) -> int:
    if teller.output == "text":
        if turn.structured is not None:
            show_json(turn.structured)
        elif turn.text:
            answer(turn.text)
        if not turn.ok or turn.detail:
            tell(f"{turn.why}: {turn.detail}")
    else:
        summary = summarise(
            session,
            turn,
            before=before,
            seconds=time.monotonic() - teller.since,
            refused=teller.refused,
            worktrees=tuple(teller.worktrees.values()),
        )
        send(dump(summary))
    flush()
    return EXIT[turn.why]


class _Teller:
    """Writes events, or what of them people should see beside the answer."""

    def __init__(self, output: Format, detail: Detail) -> None:
        self._detail: Detail = detail
        self.since = time.monotonic()
        self.output: Format = output
        self.refused: list[ToolFinished] = []
        self.worktrees: dict[str, WorkKept] = {}
        self.wrong = ""
        """What was said of the first line of input that could not be taken."""
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
            self.refused.append(event)
        if isinstance(event, WorkKept):
            # By whose it is: what came back from another machine has no folder here.
            self.worktrees[envelope.agent] = event
        if self._bars:
            drawn = progress_bar(event, badge=badge) if isinstance(event, Progressed) else ""
            self._draw(drawn)
        if self.output == "stream-json":
            send(dump(envelope))
        elif told := _told(event):
            tell(f"{badge}{told}")
        elif badge and isinstance(event, AgentFinished) and event.status == "failed":
            # Why the main agent did stands behind its answer.
            tell(f"{badge}failed: {event.detail}")
        if self._detail and (told := describe_step(event, debug=self._detail == "debug")):
            tell(f"{badge}{told}", lead="")

    def answer(self, line: bytes, outcome: Outcome) -> None:
        """Say what came of a line of input, as far as no event does."""
        if isinstance(outcome, Refused):
            text = f"input line {line[:80].decode(errors='replace')!r}: {outcome.why}"
            self.wrong = self.wrong or text
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
        case PromptMoved(reason="compaction"):
            return f"a summary takes the place of the conversation: {event.detail}"
        case _:
            return ""


async def _on_signals(work: anyio.CancelScope) -> None:
    """Stop the work on a signal, so that all is stored; a second one ends everything."""
    with received(*stop_signals()) as signals:
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
            except NOT_JSON as error:
                teller.answer(line, Refused(str(error)))
                continue
            if isinstance(command, Compact | Aside | Suggest | Rename | Remember):
                # The model is asked: an interrupt must be heard meanwhile.
                group.start_soon(_carry_out, session, teller, line, command)
            else:
                await _carry_out(session, teller, line, command)
    await session.send(Leave())
    await session.wait_settled()
    if session.last is None and teller.wrong:
        # Whoever looks at the exit code alone must not take it for done.
        told = f"nothing of the input was taken: {teller.wrong}"
        return Turn(text="", why="error", detail=told)
    return session.last or Turn(text="", why="done")


async def _carry_out(session: Session, teller: _Teller, line: bytes, command: Command) -> None:
    teller.answer(line, await session.send(command))


async def _lines(source: int) -> AsyncIterator[bytes]:
    """Read lines to the end."""
    held = b""
    while True:
        with named("standard input"):
            data = await read_input(source)
        *whole, held = (held + data).split(b"\n")
        for line in [*whole, held] if not data else whole:
            if line.strip():
                yield line
        if not data:
            return
