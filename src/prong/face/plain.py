"""Talking line by line: text as it streams, tool calls and diffs as lines, questions in between.

Works without colour and with a screen reader. Ctrl+C interrupts the turn; a second one at an empty
prompt leaves. Ctrl+B sends the agent that a turn waits for to the background. This face reads
events and sends commands, nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

import anyio

from prong.command import (
    Accepted,
    Background,
    Command,
    Interrupt,
    Outcome,
    Refused,
    Remember,
    Rename,
    Say,
    SetMemory,
    TakeUp,
    UseSkill,
)
from prong.errors import ProngError, UsageError
from prong.event import (
    MAIN,
    AgentStarted,
    Envelope,
    Event,
    MemoryKept,
    PermissionAsked,
    Progressed,
    QuestionAsked,
    ReplyFinished,
    RequestFailed,
    RequestSettled,
    TaskFinished,
    TaskStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Warned,
)
from prong.face.call import Calls
from prong.face.edit.external import SHIFT_TAB
from prong.face.line import describe, describe_outcome, progress_bar, stop_signals
from prong.face.output import flat
from prong.face.question import Questions
from prong.face.screen import Line, Prompt, Screen
from prong.face.slash import HELP, Show, read_slash
from prong.face.team import describe_leaving, list_tasks, report, tell_stopping
from prong.face.terminal import Terminal
from prong.session import Options, Session, open_session


async def run(options: Options, first: str) -> int:
    """Talk until the user leaves; gives the exit code."""
    message = first
    terminal = Terminal()
    if sys.stdin.isatty() and not options.bare:
        await _ask_trust(options)
    while True:
        async with open_session(options, attended=True) as session:
            talk = _Talk(session, terminal)
            following = await talk.run(message)
        talk.show_rest()
        if following is None:
            with suppress(OSError):
                sys.stdout.flush()
            terminal.restore()
            # A thread may still wait for a line; nothing is left to do, so it must not hold us up.
            os._exit(0)
        options, message = _resumed(options, following), ""


def _resumed(options: Options, session_id: str) -> Options:
    import msgspec

    return msgspec.structs.replace(
        options, resume=session_id, continue_last=False, fork_session=False, session_id=None
    )


async def _ask_trust(options: Options) -> None:
    """Ask once whether a folder's own hooks, servers and rules may work, and keep the answer."""
    from prong.session import decide_trust, open_trust

    asked = open_trust(options)
    if asked is None:
        return
    screen = Screen()
    screen.line(f"{asked.folder} wants to run or change things of its own:", style="bold")
    for want in asked.wants:
        screen.line(f"  {flat(want)}")
    try:
        answer = await screen.ask(Prompt("trust this folder? [y]es, [n]o: "))
    except EOFError:
        return
    if answer.text.strip().lower() in {"y", "yes"}:
        decide_trust(asked, trusted=True)
    else:
        decide_trust(asked, trusted=False)
        screen.line("not trusted: it goes on without them; 'prong trust' changes that")


class _Talk:
    """One session on a screen."""

    def __init__(self, session: Session, terminal: Terminal) -> None:
        self._session = session
        self._terminal = terminal
        self._screen = Screen()
        self._questions = Questions(self._screen)
        self._calls = Calls()
        self._titling = anyio.CancelScope()
        self._keeping: anyio.CancelScope | None = None
        self._ready = anyio.Event()
        self._turned = anyio.Event()
        self._idle = True
        self._reading = ""
        self._following: str | None = None
        self._revived: set[str] = set()
        self._events = session.events(since=session.records.began)

    async def run(self, first: str) -> str | None:
        """Talk; gives the id of a session to go on with, or None to leave."""
        for envelope in self._events.drain():
            self._take_in(envelope)
        async with anyio.create_task_group() as group:
            group.start_soon(self._show)
            group.start_soon(self._on_interrupt, group.cancel_scope)
            group.start_soon(self._see_to_title)
            if first:
                self._screen.line(f"> {first}")
                await self._take(Line(first, ""))
            else:
                self._idle = isinstance(await self._session.send(TakeUp()), Refused)
            await self._read()
            await self._keep_notes()
            group.cancel_scope.cancel()
        # What could be kept is kept; the session's end need not wait for it again.
        await self._session.send(SetMemory(on=False))
        for text in tell_stopping(self._session.view()):
            self._screen.line(text)
        if self._following is None:
            # A closed terminal hangs up more than once; the session must still end in order.
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        return self._following

    def show_rest(self) -> None:
        """Say what only the end of the session has shown."""
        for envelope in self._events.drain():
            if isinstance(envelope.event, MemoryKept | Warned):
                self._take_in(envelope)

    async def _see_to_title(self) -> None:
        """After the first turn that worked, have the session named for the list of sessions."""
        await self._turned.wait()
        if self._session.records.wants_title:
            # A scope of its own: an interrupt before this was not meant for it.
            with anyio.CancelScope() as self._titling:
                await self._session.send(Rename())

    async def _keep_notes(self) -> None:
        """Before leaving, keep what later sessions should know; Ctrl+C leaves without."""
        if self._session.records.owes_notes:
            self._screen.line("(keeping notes for later sessions; Ctrl+C leaves without)")
            with anyio.CancelScope() as self._keeping:
                await self._carry_out(Remember())

    async def _read(self) -> None:
        """Take one line after the other, each for whatever waits for one at that moment."""
        while self._following is None:
            await self._wanted()
            try:
                line = await self._line()
            except EOFError:
                self._screen.line("")
                return
            if line.text.strip() in {"/quit", "/exit"}:
                return
            await self._take(line)

    async def _take(self, line: Line) -> None:
        """Do what a line says: a command, the answer to the question it stands under, a message."""
        if line.text.startswith("/"):
            await self._command(line.text)
        elif line.key:
            answer = await self._questions.answer(line)
            if answer is not None:
                await self._session.send(answer)
        elif line.text.strip():
            await self._say(Say(line.text))

    async def _wanted(self) -> None:
        """Wait until a line is wanted; only the keys that work at any time are heard before."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._terminal.listen, self._background)
            while not self._idle and not self._questions:
                self._ready = anyio.Event()
                await self._ready.wait()
            group.cancel_scope.cancel()

    async def _line(self) -> Line:
        # What was typed before a question was put, or is half typed, is no answer to it.
        if not self._questions and (ahead := self._terminal.typed()) is not None:
            self._screen.line(f"> {ahead}")
            return Line(ahead, "")
        begun = self._questions and self._terminal.begun()
        prompt = self._questions.defer() if begun else self._questions.pose()
        return await self._screen.ask(prompt, bind=SHIFT_TAB)

    async def _say(self, command: Say | UseSkill) -> Outcome:
        self._idle = False
        outcome = await self._session.send(command)
        self._idle = isinstance(outcome, Refused)
        return outcome

    async def _on_interrupt(self, scope: anyio.CancelScope) -> None:
        warned = False
        with anyio.open_signal_receiver(*stop_signals()) as signals:
            async for number in signals:
                self._titling.cancel()
                if self._keeping is not None:
                    self._keeping.cancel()
                    continue
                if number != signal.SIGINT:
                    # The terminal is gone or the system ends: leave, so that all is stored.
                    scope.cancel()
                elif isinstance(await self._session.send(Interrupt()), Accepted):
                    warned = False
                elif warned:
                    scope.cancel()
                else:
                    warned = True
                    self._screen.line(describe_leaving(self._session.view()))

    async def _show(self) -> None:
        async for envelope in self._events:
            self._take_in(envelope)

    def _take_in(self, envelope: Envelope) -> None:
        own = envelope.agent == MAIN or isinstance(envelope.event, AgentStarted)
        badge = "" if own else f"[{envelope.agent}] "
        if isinstance(envelope.event, Progressed):
            self._reading = envelope.agent
            self._screen.bar(progress_bar(envelope.event, badge=badge))
        else:
            if isinstance(envelope.event, TextDelta) and envelope.agent == self._reading:
                # A child's text is not shown, so it would not draw over the bar.
                self._screen.wipe()
            self._one(badge, envelope.agent, envelope.event)
        self._ready.set()

    def _one(self, badge: str, agent: str, event: Event) -> None:
        screen = self._screen
        match event:
            case TextDelta():
                if not badge:
                    screen.text(event.text)
            case ReplyFinished(sidecar="") | RequestFailed(sidecar=""):
                screen.end()
            case PermissionAsked() | QuestionAsked():
                self._questions.add(agent, event)
            case RequestSettled():
                self._questions.drop(event.request_id)
            case TurnFinished():
                self._end(badge, event)
            case _:
                for text, style in self._lines(event):
                    screen.line(badge + text, style=style)

    def _end(self, badge: str, event: TurnFinished) -> None:
        if badge:
            # Of a child its task tells how it ended.
            return
        self._idle = True
        if event.why != "done":
            self._screen.line(f"({event.why}: {event.detail})", style="bad")
        else:
            self._turned.set()
            if event.detail:
                self._screen.line(f"({event.detail})", style="dim")

    def _lines(self, event: Event) -> list[tuple[str, str]]:
        match event:
            case ToolStarted() | ToolFinished():
                return self._calls.lines(event)
            case TaskFinished(task_id=task_id):
                told = report(self._session.view(), task_id)
                return describe(event) + [(f"  {line}", "") for line in told]
            case TaskStarted(task_id=task_id) if task_id in self._revived:
                self._revived.remove(task_id)
                return []
            case AgentStarted(resumed=True, task_id=task_id) if task_id:
                self._revived.add(task_id)
                return [(f"{task_id} goes on: {event.title}", "")]
            case _:
                return describe(event)

    async def _command(self, line: str) -> None:
        try:
            read = read_slash(line, self._session.view())
            for step in read:
                if isinstance(step, Show):
                    await self._show_wish(step)
                elif not await self._carry_out(step):
                    return
        except ProngError as error:
            self._screen.line(str(error), style="bad")

    async def _carry_out(self, command: Command) -> bool:
        """Send a command and say what came of it; gives whether it was accepted."""
        if isinstance(command, Say | UseSkill):
            outcome = await self._say(command)
        else:
            outcome = await self._session.send(command)
        for text, style in describe_outcome(command, outcome):
            self._screen.line(text, style=style)
        return isinstance(outcome, Accepted)

    async def _background(self) -> None:
        """Let the agents that are waited for go on by themselves."""
        await self._carry_out(Background())

    async def _show_wish(self, wish: Show) -> None:
        for text in await self._wished(wish):
            self._screen.line(text)

    async def _wished(self, wish: Show) -> list[str]:
        view, records = self._session.view(), self._session.records
        match wish.what:
            case "cost":
                return await self._cost()
            case "agents":
                return self._agents(wish.rest)
            case "receipt":
                return self._receipts(wish.rest)
            case "resume":
                return self._resume(wish.rest)
            case "memory":
                from prong.face.inspect import describe_memory

                return describe_memory(records.memory)
            case "outline":
                return [records.outline()]
            case "plan":
                return [f"plan mode {records.plan_file}".strip()]
            case _:
                simple = {"help": [HELP], "model": [view.model], "mode": [view.mode]}
                return simple.get(wish.what) or list_tasks(view)

    async def _cost(self) -> list[str]:
        from prong.face.account import describe_cost

        return list(describe_cost(await self._session.records.costs()))

    def _receipts(self, task_id: str) -> list[str]:
        from prong.session import describe as describe_receipt

        found = [r for r in self._session.receipts() if task_id in {"", r.task_id}]
        if not found:
            raise UsageError("there is no such receipt; /tasks lists what has run")
        return [describe_receipt(receipt) for receipt in found]

    def _resume(self, wanted: str) -> list[str]:
        if wanted:
            self._following = self._session.records.other(wanted).id
            return []
        others = self._session.records.others()[:20]
        lines = [f"{info.id}  {info.title[:60]}" for info in others]
        return [*lines, "/resume ID goes on with one"]

    def _agents(self, name: str) -> list[str]:
        from prong.face.roster import list_types, show_type
        from prong.session import type_report

        types = self._session.records.types
        if not name:
            return list_types(types)
        return show_type(type_report(types, name, self._session.view().tools))
