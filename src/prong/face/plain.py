"""Talking line by line: text as it streams, tool calls and diffs as lines, questions in between.

Works without colour and with a screen reader. Ctrl+C interrupts the turn; a second one at an empty
prompt leaves. Ctrl+B sends the agent that a turn waits for to the background. This face reads
events and sends commands, nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from prong.errors import ProngError
from prong.event import (
    Event,
    PermissionAsked,
    Progressed,
    QuestionAsked,
    ReplyFinished,
    RequestSettled,
    TaskFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Warned,
)
from prong.face.call import Calls
from prong.face.edit import SHIFT_TAB, following
from prong.face.line import describe, progress_bar, stop_signals
from prong.face.output import flat
from prong.face.question import Questions
from prong.face.screen import Line, Prompt, Screen
from prong.face.team import Team
from prong.face.terminal import Terminal
from prong.session import Options, Session, Subscription, open_session

_HELP = """\
/help              this list
/cost              what agents and the session cost, and would have cost
/clear             start over with an empty conversation
/compact [focus]   replace the conversation by a summary
/model [name]      show the model, or change it
/mode [mode]       show the permission mode, or change it
/mode next         go on to the next mode (also Shift+Tab)
/plan [task]       plan first: only reading, until you approve a plan
/resume [ID]       list the sessions of this folder, or go on with one
/agents [name]     the types of agents, or one with its tools
/fork TEXT         split off a fork that works in the background
/fork ONE / TWO    split off several
/fork --worktree TEXT
                   the same, each in a working copy and a branch of its own
/tasks             what runs in the background, and what has ended
/tell ID TEXT      send a message to a fork or agent
/stop ID           stop a task
/background        do not wait for the agent that works now (also Ctrl+B)
/receipt [ID]      what forks shared and paid
/outline           the conversation as the model sees it
/quit              leave, and stop what runs (also Ctrl+D)
Ctrl+C interrupts the turn that runs. Commands work while a question is open."""


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
            told = len(session.warnings)
        for text in session.warnings[told:]:
            talk.warn(text)
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
        self._team = Team(session, self._screen.line)
        self._titling = anyio.CancelScope()
        self._ready = anyio.Event()
        self._turned = anyio.Event()
        self._idle = True
        self._reading = ""
        self._following: str | None = None

    async def run(self, first: str) -> str | None:
        """Talk; gives the id of a session to go on with, or None to leave."""
        started = self._session.started
        verb = "resumed" if started.resumed else "session"
        self._screen.line(
            f"prong · {started.model} · {started.mode} · {verb} {started.session_id} · /help",
            style="dim",
        )
        events = self._session.events()
        for text in self._session.warnings:
            self._one("", "main", Warned(text=text))
        self._team.tell_revived()
        async with anyio.create_task_group() as group:
            group.start_soon(self._show, events)
            group.start_soon(self._on_interrupt, group.cancel_scope)
            group.start_soon(self._see_to_title)
            if first:
                self._screen.line(f"> {first}")
                await self._take(Line(first, ""))
            elif started.resumed:
                self._idle = not self._session.take_up()
            await self._read()
            group.cancel_scope.cancel()
        self._team.tell_stopping()
        if self._following is None:
            # A closed terminal hangs up more than once; the session must still end in order.
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        return self._following

    def warn(self, text: str) -> None:
        """Say what only the end of the session has shown."""
        self._one("", "main", Warned(text=text))

    async def _see_to_title(self) -> None:
        """After the first turn that worked, have the session named for the list of sessions."""
        await self._turned.wait()
        if self._session.wants_title:
            # A scope of its own: an interrupt before this was not meant for it.
            with anyio.CancelScope() as self._titling, suppress(ProngError):
                await self._session.title()

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
                with suppress(ProngError):
                    self._session.send(answer)
        elif line.text.strip():
            await self._say(line.text)

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

    async def _say(self, text: str) -> None:
        self._idle = False
        self._idle = await self._session.say(text) is None

    async def _on_interrupt(self, scope: anyio.CancelScope) -> None:
        warned = False
        with anyio.open_signal_receiver(*stop_signals()) as signals:
            async for number in signals:
                self._titling.cancel()
                if number != signal.SIGINT:
                    # The terminal is gone or the system ends: leave, so that all is stored.
                    scope.cancel()
                elif self._session.interrupt():
                    warned = False
                elif warned:
                    scope.cancel()
                else:
                    warned = True
                    self._screen.line(self._team.describe_leaving())

    def _background(self) -> None:
        """Let the agents that are waited for go on by themselves."""
        if not self._session.to_background():
            self._screen.line("(no agent is waited for)")

    async def _show(self, events: Subscription) -> None:
        async for envelope in events:
            badge = "" if envelope.agent == "main" else f"[{envelope.agent}] "
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
            case ReplyFinished():
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
        self._idle = not badge or self._idle
        if event.why != "done":
            self._screen.line(f"{badge}({event.why}: {event.detail})", style="bad")
        elif not badge:
            self._turned.set()
            if event.detail:
                self._screen.line(f"({event.detail})", style="dim")

    def _lines(self, event: Event) -> list[tuple[str, str]]:
        if isinstance(event, ToolStarted | ToolFinished):
            return self._calls.lines(event)
        report = self._team.report(event.task_id) if isinstance(event, TaskFinished) else []
        return describe(event) + [(f"  {line}", "") for line in report]

    async def _command(self, line: str) -> None:
        name, _, rest = line[1:].strip().partition(" ")
        commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "cost": self._cost,
            "clear": self._clear,
            "compact": self._compact,
            "model": self._model,
            "mode": self._mode,
            "plan": self._plan,
            "resume": self._resume,
            "outline": self._outline,
            "agents": self._agents,
            "background": self._to_background,
            **self._team.commands,
        }
        try:
            if name in commands:
                await commands[name](rest.strip())
            elif (body := self._session.skill(name, rest.strip())) is not None:
                await self._say(body)
            else:
                self._screen.line(f"there is no command /{name}; /help lists them")
        except ProngError as error:
            self._screen.line(str(error), style="bad")

    async def _to_background(self, _: str) -> None:
        self._background()

    async def _help(self, _: str) -> None:
        self._screen.line(_HELP)

    async def _cost(self, _: str) -> None:
        from prong.face.account import describe_cost
        from prong.session import costs_now

        for text in describe_cost(await costs_now(self._session)):
            self._screen.line(text)

    async def _clear(self, _: str) -> None:
        if self._session.empty:
            self._screen.line("there is nothing to clear")
        else:
            self._session.clear()

    async def _compact(self, focus: str) -> None:
        if self._session.empty:
            self._screen.line("there is nothing to compact")
        else:
            await self._session.compact(focus)

    async def _model(self, name: str) -> None:
        if name:
            self._session.set_model(name)
        self._screen.line(self._session.model)

    async def _mode(self, mode: str) -> None:
        if mode:
            self._session.set_mode(following(self._session.mode) if mode == "next" else mode)
        self._screen.line(self._session.mode)

    async def _plan(self, task: str) -> None:
        if self._session.mode != "plan":
            self._session.set_mode("plan")
        if task:
            await self._say(task)
        else:
            self._screen.line(f"plan mode {self._session.plan_file}".strip())

    async def _resume(self, wanted: str) -> None:
        if wanted:
            self._following = self._session.other(wanted).id
            return
        for info in self._session.others()[:20]:
            self._screen.line(f"{info.id}  {info.title[:60]}")
        self._screen.line("/resume ID goes on with one")

    async def _agents(self, name: str) -> None:
        from prong.face.roster import list_types, show_type
        from prong.session import type_report

        types = self._session.types
        kit = self._session.agent.kit.names
        lines = show_type(type_report(types, name, kit)) if name else list_types(types)
        for line in lines:
            self._screen.line(line)

    async def _outline(self, _: str) -> None:
        self._screen.line(self._session.outline())
