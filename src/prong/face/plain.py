"""Talking line by line: text as it streams, tool calls and diffs as lines, questions in between.

Works without colour and with a screen reader. Where the terminal gives single keys one can type at
any time: while a turn runs a message steers it, and commands are carried out at once. This face
reads events and sends commands, nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from prong.command import (
    Accepted,
    Background,
    Branch,
    Command,
    Interrupt,
    Outcome,
    Refused,
    Remember,
    Rename,
    RunShell,
    Say,
    SetMemory,
    SetMode,
    TakeUp,
    Unsay,
    UseSkill,
)
from prong.errors import ProngError
from prong.event import (
    MAIN,
    Envelope,
    MemoryKept,
    MessageQueued,
    MessageUnqueued,
    PermissionAsked,
    QuestionAsked,
    RequestSettled,
    TurnFinished,
    TurnStarted,
    Warned,
)
from prong.face.ask_in_turn import Questions
from prong.face.composer import Composer, KeyAction, LineReader
from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Sources
from prong.face.edit.external import following
from prong.face.event_printer import EventPrinter
from prong.face.line import describe_outcome, stop_signals
from prong.face.output import flat
from prong.face.screen import InputLine, InputPrompt, Screen
from prong.face.slash import Show, read_slash
from prong.face.status import describe_status, recount, sources_of
from prong.face.task_list import describe_leaving, tell_stopping
from prong.face.terminal import Terminal
from prong.face.wish import shown
from prong.session import Options, Session, open_session

_TICK = 0.25
"""Seconds between two looks at what is being done."""
_PATIENCE = 5.0
"""Seconds in which a second Ctrl+C leaves."""


async def run(options: Options, first: str) -> int:
    """Talk until the user leaves; gives the exit code."""
    message = first
    terminal = Terminal()
    try:
        return await _run(options, message, terminal)
    finally:
        terminal.restore()


async def _run(options: Options, message: str, terminal: Terminal) -> int:
    draft = ""
    if sys.stdin.isatty() and not options.bare:
        await _ask_trust(options)
    while True:
        async with open_session(options, attended=True) as session:
            talk = _Talk(session, terminal)
            other = await talk.run(message, draft)
            # The end may take a moment, and must be open to signals of the keyboard again.
            terminal.restore()
        talk.show_rest()
        if other is None:
            with suppress(OSError):
                sys.stdout.flush()
            terminal.restore()
            if terminal.has_keys:
                return 0
            # A thread may still wait for a line; nothing is left to do, so it must not hold us up.
            os._exit(0)
        options, message, draft = _resumed(options, other.id), "", other.draft


def _resumed(options: Options, session_id: str) -> Options:
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
        answer = await LineReader(screen).read(InputPrompt("trust this folder? [y]es, [n]o: "))
    except EOFError:
        return
    if answer.text.strip().lower() in {"y", "yes"}:
        decide_trust(asked, trusted=True)
    else:
        decide_trust(asked, trusted=False)
        screen.line("not trusted: it goes on without them; 'prong trust' changes that")


_STIRRING = MessageQueued | MessageUnqueued | TurnStarted | TurnFinished
"""After what the row of what is being done is drawn at once."""


class _Following(msgspec.Struct, frozen=True):
    """The session to go on with."""

    id: str
    draft: str = ""
    """What stands in the line there."""


class _Consent(msgspec.Struct):
    """A question of this face's own, which the session knows nothing of."""

    key = "consent"
    settled: anyio.Event
    given: bool = False

    def settle(self, *, given: bool) -> None:
        """Answer it."""
        self.given = given
        self.settled.set()


async def _heed_signals(scope: anyio.CancelScope) -> None:
    """Cancel a scope when the user or the system asks for an end."""
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async for _ in signals:
            scope.cancel()


class _Talk:
    """One session on a screen."""

    def __init__(self, session: Session, terminal: Terminal) -> None:
        self._session = session
        self._screen = Screen()
        keyed = terminal.has_keys and self._screen.erases
        self._input = (
            Composer(self._screen, terminal, self._sources) if keyed else LineReader(self._screen)
        )
        self._questions = Questions(self._screen, self._input)
        self._transcript = EventPrinter(session, self._screen)
        self._titling = anyio.CancelScope()
        self._ready = anyio.Event()
        self._turned = anyio.Event()
        self._order = anyio.Lock()
        """Messages are sent in the order in which they were typed, hooks or not."""
        self._idle = True
        self._composing = anyio.CancelScope()
        """Ends when another session is to be gone on with."""
        self._armed = 0.0
        """Until when another Ctrl+C leaves."""
        self._following: _Following | None = None
        self._consent: _Consent | None = None
        self._events = session.events(since=session.records.began)

    async def run(self, first: str, draft: str) -> _Following | None:
        """Talk; gives the session to go on with, or None to leave."""
        self._begin(draft)
        leaves = False
        async with anyio.create_task_group() as group:
            group.start_soon(self._show)
            group.start_soon(self._on_interrupt, group.cancel_scope)
            group.start_soon(self._see_to_title)
            if first:
                self._screen.line(f"> {first}")
                await self._take(InputLine(first, ""))
            else:
                self._idle = isinstance(await self._session.send(TakeUp()), Refused)
            if isinstance(self._input, Composer):
                group.start_soon(self._tick)
                with self._composing:
                    await self._compose(self._input, group)
            else:
                await self._read(self._input)
            leaves = True
            group.cancel_scope.cancel()
        await self._leave(keeps=leaves)
        for text in tell_stopping(self._session.view()):
            self._screen.line(text)
        if self._following is None:
            # A closed terminal hangs up more than once; the session must still end in order.
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        return self._following

    def _begin(self, draft: str) -> None:
        """Show what there is to see, and take the terminal."""
        for text, style in recount(self._session.view(), self._session.records.began):
            self._screen.line(text, style=style)
        for envelope in self._events.drain():
            self._take_in(envelope)
        if isinstance(self._input, Composer):
            self._input.begin(self._session.records.history.load(), draft)

    async def _leave(self, *, keeps: bool) -> None:
        """Give the terminal back, and keep notes for later sessions if they are wanted."""
        self._screen.hide()
        if isinstance(self._input, Composer):
            self._input.end()
        if keeps:
            await self._keep_notes()
        # What could be kept is kept; the session's end need not wait for it again.
        await self._session.send(SetMemory(on=False))

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
            async with anyio.create_task_group() as group:
                group.start_soon(_heed_signals, group.cancel_scope)
                await self._carry_out(Remember())
                group.cancel_scope.cancel()

    async def _read(self, reader: LineReader) -> None:
        """Take one line after the other, each for whatever waits for one at that moment."""
        while self._following is None:
            while not self._idle and not self._questions:
                self._ready = anyio.Event()
                await self._ready.wait()
            try:
                line = await reader.read(self._questions.pose())
            except EOFError:
                self._screen.line("")
                return
            if line.text.strip() in {"/quit", "/exit"}:
                return
            await self._take(line)

    async def _compose(self, composer: Composer, group: TaskGroup) -> None:
        """Take lines and keys as they come, whatever else is being done."""
        async for act in composer.acts():
            if isinstance(act, KeyAction):
                if await self._do(composer, act.name):
                    return
                continue
            # A message that will wait is shown as waiting, and written once it is taken in.
            at_once = bool(act.key) or act.text.startswith(("/", "!"))
            echoed = at_once or not self._session.view().busy
            if echoed:
                self._transcript.echo(act, act.prompt)
            if act.text.strip() in {"/quit", "/exit"}:
                return
            group.start_soon(partial(self._take, act, echoed=echoed))
            # What a line begins is begun before the next key counts.
            await anyio.lowlevel.checkpoint()

    async def _do(self, composer: Composer, deed: str) -> bool:
        """Do what a key asks for; gives whether that is to leave."""
        if deed == "interrupt":
            return await self._interrupt()
        self._armed = 0.0
        match deed:
            case "leave":
                return True
            case "escape":
                await self._session.send(Interrupt())
            case "background":
                await self._carry_out(Background())
            case "mode":
                await self._carry_out(SetMode(following(self._session.view().mode)))
            case "older":
                await self._take_back(composer)
            case _:
                pass
        return False

    async def _take_back(self, composer: Composer) -> None:
        """Take back the message that waits, if one does; else show what was said before."""
        outcome = Refused("")
        if composer.is_empty and self._session.view().queued:
            outcome = await self._session.send(Unsay())
        if isinstance(outcome, Refused):
            composer.older()
        else:
            line = self._transcript.withdrawn(*outcome.ids)
            typed = line.buffer if line is not None else None
            composer.restore(typed or Buffer(outcome.text, len(outcome.text)))

    async def _tick(self) -> None:
        """Keep saying what is being done."""
        while True:
            self._refresh()
            self._questions.next()
            await anyio.sleep(_TICK)

    def _refresh(self) -> None:
        """Say what is being done, and what waits."""
        view = self._session.view()
        waiting = tuple(one.text for one in view.queued.values())
        self._input.tell(describe_status(view, self._session.records.now), waiting)

    async def _sources(self, text: str) -> Sources:
        """Give what a text can be completed with."""
        files = await self._session.records.files() if "@" in text else []
        return sources_of(self._session.view(), self._session.records, files)

    async def _take(self, line: InputLine, *, echoed: bool = True) -> None:
        """Do what a line says: a command, the answer to the question it stands under, a message."""
        self._armed = 0.0
        if line.text.startswith("/"):
            self._remember(line)
            await self._command(line.text)
        elif line.key == _Consent.key:
            if self._consent is not None:
                self._consent.settle(given=line.text.strip().lower() in {"y", "yes"})
        elif line.key:
            answer = await self._questions.answer(line)
            if answer is not None:
                await self._session.send(answer)
        elif line.text.startswith("!"):
            self._remember(line)
            await self._carry_out(RunShell(line.text[1:].strip()))
        elif line.text.strip():
            await self._message(line, echoed=echoed)
        self._questions.next()
        if self._following is not None:
            self._composing.cancel()

    async def _message(self, line: InputLine, *, echoed: bool) -> None:
        """Say something to the agent; it is written here once, at once or when it is taken in."""
        self._remember(line)
        message = line.buffer.message() if line.buffer is not None else Say(line.text)
        outcome = await self._say(message)
        waits = isinstance(outcome, Accepted) and outcome.ids
        if waits and not echoed:
            self._transcript.expect(waits, line)
        elif not echoed:
            self._transcript.echo(line)

    def _remember(self, line: InputLine) -> None:
        if line.buffer is not None:
            self._session.records.history.add(line.text)

    async def _say(self, command: Say | UseSkill) -> Outcome:
        async with self._order:
            self._idle = False
            outcome = await self._session.send(command)
            self._idle = isinstance(outcome, Refused)
            return outcome

    async def _on_interrupt(self, scope: anyio.CancelScope) -> None:
        """Heed signals: of the system, and of keys where the terminal makes signals of them."""
        with anyio.open_signal_receiver(*stop_signals(), signal.SIGWINCH) as signals:
            async for number in signals:
                if number == signal.SIGWINCH:
                    if isinstance(self._input, Composer):
                        self._input.draw()
                        self._screen.redraw()
                    continue
                # The terminal is gone or the system ends: leave, so that all is stored.
                if number != signal.SIGINT or await self._interrupt():
                    scope.cancel()

    async def _interrupt(self) -> bool:
        """Stop the turn that runs; without one, ask for once more. Gives whether to leave."""
        self._titling.cancel()
        if self._consent is not None:
            self._consent.settle(given=False)
        elif isinstance(await self._session.send(Interrupt()), Accepted):
            self._armed = 0.0
        elif anyio.current_time() < self._armed:
            return True
        else:
            self._armed = anyio.current_time() + _PATIENCE
            self._screen.line(describe_leaving(self._session.view()))
        return False

    async def _show(self) -> None:
        async for envelope in self._events:
            self._take_in(envelope)

    def _take_in(self, envelope: Envelope) -> None:
        event = envelope.event
        match event:
            case PermissionAsked() | QuestionAsked():
                self._questions.add(envelope.agent, event)
            case RequestSettled():
                self._questions.drop(event.request_id)
            case _:
                self._transcript.write(envelope)
        if isinstance(event, TurnFinished) and envelope.agent == MAIN:
            self._idle = True
            if event.why == "done":
                self._turned.set()
        if isinstance(event, _STIRRING):
            self._refresh()
        self._ready.set()

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
        if not await self._may_cost(command):
            return False
        if isinstance(command, Say | UseSkill):
            outcome = await self._say(command)
        else:
            outcome = await self._session.send(command)
        if isinstance(command, Branch) and isinstance(outcome, Accepted):
            self._following = _Following(outcome.ids[0], outcome.text)
            outcome = Accepted(f"going on as {outcome.ids[0]}; this session stays as it is")
        for text, style in describe_outcome(command, outcome):
            self._screen.line(text, style=style)
        return isinstance(outcome, Accepted)

    async def _may_cost(self, command: Command) -> bool:
        """Say what a command costs more than going on, and ask if that is much."""
        loss = self._session.records.loss(command)
        if loss is None:
            return True
        self._screen.line(f"({loss.text})", style="dim")
        if loss.extra is None or loss.extra <= self._session.records.confirm_above:
            return True
        prompt = InputPrompt(f"that is ${loss.extra:.2f} more; go on? [y]es, [n]o: ", _Consent.key)
        agreed = await self._ask(prompt)
        if not agreed:
            self._screen.line("(left as it was)", style="dim")
        return agreed

    async def _ask(self, prompt: InputPrompt) -> bool:
        """Ask a question of our own."""
        if isinstance(self._input, LineReader):
            try:
                line = await self._input.read(prompt)
            except EOFError:
                return False
            return line.text.strip().lower() in {"y", "yes"}
        # What was typed ahead is no answer.
        while not self._input.untouched():  # noqa: ASYNC110 - nobody tells that a line is empty
            await anyio.sleep(_TICK)
        self._consent = consent = _Consent(anyio.Event())
        self._input.switch(prompt)
        try:
            await consent.settled.wait()
        finally:
            self._consent = None
            if self._input.asking == prompt:
                self._input.switch(InputPrompt())
        return consent.given

    async def _show_wish(self, wish: Show) -> None:
        if wish.what == "resume" and wish.rest:
            self._following = _Following(self._session.records.other(wish.rest).id)
            return
        for text in await shown(self._session, wish):
            self._screen.line(text)
