"""Talking line by line: text as it streams, tool calls and diffs as lines, questions in between.

Works without colour and with a screen reader. Where the terminal gives single keys one can type at
any time: while a turn runs a message steers it, and commands are carried out at once. This face
reads events and sends commands, nothing else.
"""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Literal

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from prong.command import (
    Accepted,
    Background,
    Interrupt,
    Refused,
    RunShell,
    Say,
    SetMode,
    TakeUp,
    Unsay,
)
from prong.event import (
    MAIN,
    Envelope,
    MessageQueued,
    MessageUnqueued,
    PermissionAsked,
    QuestionAsked,
    RequestSettled,
    TurnFinished,
    TurnStarted,
)
from prong.face.ask_in_turn import Questions
from prong.face.carry import Carrier
from prong.face.composer import Composer, KeyAction, LineReader
from prong.face.control_consent import announce_others, ask_about_others
from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Sources
from prong.face.edit.external import following
from prong.face.event_printer import EventPrinter
from prong.face.handover import Handover, Left, Swapped
from prong.face.line import describe_forks
from prong.face.screen import InputLine, InputPrompt, Screen
from prong.face.side_work import SideWork
from prong.face.slash import is_leaving, is_slash
from prong.face.status import describe_status, find_sources
from prong.face.status_watch import StatusWatch
from prong.face.task_list import describe_leaving
from prong.face.terminal import Terminal, full_hindered
from prong.face.window_title import window_title
from prong.session import Session, Subscription
from prong.system.stop_signal import RESIZED, received, stop_signals

_TICK = 0.25
"""Seconds between two looks at what is being done."""
_PATIENCE = 5.0
"""Seconds in which a second Ctrl+C leaves."""


_STIRRING = MessageQueued | MessageUnqueued | TurnStarted | TurnFinished
"""After what the row of what is being done is drawn at once."""


class _Consent:
    """Questions of this face's own, which the session knows nothing of; one at a time."""

    key = "consent"

    def __init__(self) -> None:
        """Nothing is asked."""
        self.order = anyio.Lock()
        self._settled: anyio.Event | None = None
        self._words: frozenset[str] = frozenset()
        self._given = False

    @property
    def is_open(self) -> bool:
        """Whether something is asked now."""
        return self._settled is not None

    def take(self, line: str) -> None:
        """Take a line as the answer to what is asked, if anything is."""
        if self._settled is not None:
            self._given = line.strip().lower() in self._words
            self._settled.set()

    async def wait(self, words: frozenset[str]) -> bool:
        """Wait for the user's answer, a yes by one of these words; for who has the order."""
        self._words, self._given, self._settled = words, False, anyio.Event()
        try:
            await self._settled.wait()
            return self._given
        finally:
            self._settled = None


class Talk:
    """One session on a screen, line by line."""

    def __init__(
        self,
        session: Session,
        terminal: Terminal,
        events: Subscription,
    ) -> None:
        """Show events as they come."""
        self._session = session
        self._screen = Screen()
        keyed = terminal.has_keys and self._screen.erases
        self._input = (
            Composer(self._screen, terminal, self._sources) if keyed else LineReader(self._screen)
        )
        self._questions = Questions(self._screen, self._input)
        self._transcript = EventPrinter(session, self._screen)
        self._side = SideWork(session)
        self._status = StatusWatch(session)
        self._ready = anyio.Event()
        self._carrier = Carrier(session, self)
        self._composing = anyio.CancelScope()
        """Ends when another session is to be gone on with."""
        self._armed = 0.0
        """Until when another Ctrl+C leaves."""
        self._consent = _Consent()
        self._events = events
        self._leaves: Literal["", "session", "face"] = ""
        """What the user has left; empty if it was the system, or for another session."""

    async def run(self, first: str, draft: Buffer, *, taken_over: bool = False) -> Handover:
        """Talk until the user leaves or wants another session or face.

        A session that was taken over from another face is in the midst of things.
        """
        if taken_over:
            self._take_over()
        for envelope in self._events.drain():
            self._take_in(envelope)
        if isinstance(self._input, Composer):
            self._input.begin(self._session.records.history.load(), draft)
        async with anyio.create_task_group() as group:
            group.start_soon(self._show)
            group.start_soon(self._on_interrupt, group.cancel_scope)
            if isinstance(self._input, Composer):
                group.start_soon(ask_about_others, self._session, self, self._agree_by_code)
                self._side.begin(group, self._input.hint)
            else:
                group.start_soon(announce_others, self._session, self)
                self._side.begin(group, None)
            if first:
                self._screen.line(f"> {first}")
                await self._take(InputLine(first, ""))
            elif not taken_over:
                self._carrier.rest(idle=isinstance(await self._session.send(TakeUp()), Refused))
            if isinstance(self._input, Composer):
                group.start_soon(self._tick)
                group.start_soon(self._status.run, lambda: self._screen.size, self._stand)
                with self._composing:
                    await self._compose(self._input, group)
            else:
                await self._read(self._input)
            self._leaves = self._leaves or "session"
            group.cancel_scope.cancel()
        self._screen.hide()
        typed = self._input.end() if isinstance(self._input, Composer) else Buffer()
        swapped = self._leaves == "face"
        left = Swapped(typed) if swapped else Left(asked=bool(self._leaves))
        return self._carrier.following or left

    def _take_over(self) -> None:
        """Take up what waits in the session: questions, and messages that are shown later."""
        view = self._session.view()
        self._carrier.rest(idle=not view.busy)
        for asked in view.questions.values():
            self._questions.add(asked.agent, asked.asked)
        for queued in view.queued.values():
            self._transcript.expect((queued.message_id,), InputLine(queued.text, ""))

    def tell(self, lines: list[tuple[str, str]]) -> None:
        """Say lines, each with a style."""
        for text, style in lines:
            self._screen.line(text, style=style, words=True)

    def tell_forks(self, ids: tuple[str, ...]) -> None:
        """Say that forks work; of each end there is a line of its own."""
        self.tell(describe_forks(ids))

    def tell_wait(self, text: str) -> AbstractContextManager[None]:
        """Say what is waited for."""
        self.tell([(text, "dim")])
        return nullcontext()

    async def _read(self, reader: LineReader) -> None:
        """Take one line after the other, each for whatever waits for one at that moment."""
        while self._carrier.following is None:
            while not self._carrier.idle and not self._questions:
                self._ready = anyio.Event()
                await self._ready.wait()
            try:
                line = await reader.read(self._questions.pose())
            except EOFError:
                self._screen.line("")
                return
            if is_leaving(line.text, answers=bool(line.key)):
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
            at_once = bool(act.key) or is_slash(act.text) or act.text.startswith("!")
            echoed = at_once or not self._session.view().busy
            if echoed:
                self._transcript.echo(act, act.prompt)
            if is_leaving(act.text, answers=bool(act.key)):
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
            case "escape" | "escape twice":
                await self._escape(twice=deed == "escape twice")
            case "background":
                await self._carrier.carry_out(Background())
            case "mode":
                await self._carrier.carry_out(SetMode(following(self._session.view().mode)))
            case "older":
                await self._take_back(composer)
            case "swap" if self._carrier.under_way:
                self._screen.line("(a command is being carried out; once it has ended)")
            case "swap" if why := full_hindered():
                self._screen.line(f"(no full screen: {why})")
            case "swap":
                self._leaves = "face"
                return True
            case _:
                pass
        return False

    async def _escape(self, *, twice: bool) -> None:
        """Interrupt the turn; with nothing running, twice lists what can be gone back to."""
        interrupted = isinstance(await self._session.send(Interrupt()), Accepted)
        if twice and not interrupted:
            await self._carrier.obey("/rewind")

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

    def _stand(self) -> None:
        """Draw the user's own status line."""
        assert isinstance(self._input, Composer)
        self._input.stand(self._status.rows)

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
        if isinstance(self._input, LineReader) and (self._questions or not view.busy):
            self._input.remind(asked=bool(self._questions))
        self._screen.entitle(window_title(view))

    async def _sources(self, text: str) -> Sources:
        """Give what a text can be completed with."""
        return await find_sources(self._session.view(), self._session.records, text)

    async def _take(self, line: InputLine, *, echoed: bool = True) -> None:
        """Do what a line says: a command, the answer to the question it stands under, a message."""
        self._armed = 0.0
        if is_slash(line.text):
            self._remember(line)
            await self._carrier.obey(line.text)
        elif line.key == _Consent.key:
            self._consent.take(line.text)
        elif line.key:
            answer = await self._questions.answer(line)
            if answer is not None and not await self._carrier.carry_out(answer):
                self._questions.put_back(line.key, self._session.view())
        elif line.text.startswith("!"):
            self._remember(line)
            await self._carrier.carry_out(RunShell(line.text[1:].strip()))
        elif line.text.strip():
            await self._message(line, echoed=echoed)
        self._questions.next()
        if self._carrier.following is not None:
            self._composing.cancel()

    async def _message(self, line: InputLine, *, echoed: bool) -> None:
        """Say something to the agent; it is written here once, at once or when it is taken in."""
        self._remember(line)
        self._side.suggesting.cancel()
        message = line.buffer.message() if line.buffer is not None else Say(line.text)
        outcome = await self._carrier.say(message)
        waits = isinstance(outcome, Accepted) and outcome.ids
        if waits and not echoed:
            self._transcript.expect(waits, line)
        elif not echoed:
            self._transcript.echo(line)

    def _remember(self, line: InputLine) -> None:
        if line.buffer is not None:
            self._session.records.history.add(line.text)

    async def _on_interrupt(self, scope: anyio.CancelScope) -> None:
        """Heed signals: of the system, and of keys where the terminal makes signals of them."""
        resized = () if RESIZED is None else (RESIZED,)
        with received(*stop_signals(), *resized) as signals:
            async for number in signals:
                if number in resized:
                    if isinstance(self._input, Composer):
                        self._input.draw()
                        self._screen.redraw()
                    continue
                if number == signal.SIGINT:
                    if not await self._interrupt():
                        continue
                    self._leaves = "session"
                    if isinstance(self._input, LineReader):
                        # The terminal has written the key into the line of the prompt.
                        self._screen.entered()
                        self._screen.line("")
                # Else the terminal is gone or the system ends: leave, so that all is stored.
                scope.cancel()

    async def _interrupt(self) -> bool:
        """Stop the turn that runs; without one, ask for once more. Gives whether to leave."""
        self._side.titling.cancel()
        if self._consent.is_open:
            self._consent.take("")
        elif isinstance(await self._session.send(Interrupt()), Accepted):
            self._armed = 0.0
        elif anyio.current_time() < self._armed:
            return True
        else:
            self._armed = anyio.current_time() + _PATIENCE
            self._screen.line(describe_leaving(self._session.view()))
            self._refresh()
        return False

    async def _show(self) -> None:
        async for envelope in self._events:
            self._take_in(envelope)

    def _take_in(self, envelope: Envelope) -> None:
        event = envelope.event
        self._side.heed(envelope)
        match event:
            case PermissionAsked() | QuestionAsked():
                self._screen.ring()
                self._questions.add(envelope.agent, event)
            case RequestSettled():
                self._questions.drop(event.request_id)
            case _:
                self._transcript.write(envelope)
        if isinstance(event, TurnFinished) and envelope.agent == MAIN:
            self._carrier.rest(idle=True)
        if isinstance(event, _STIRRING):
            self._refresh()
        self._ready.set()

    async def agree(self, question: str) -> bool:
        """Ask a question of our own."""
        prompt = InputPrompt(f"{question} [y]es, [n]o: ", _Consent.key)
        return await self._ask(prompt, frozenset({"y", "yes"}))

    async def _agree_by_code(self, question: str, code: str) -> bool:
        """Ask a question to which nothing but a code agrees: no line meant for another does."""
        prompt = InputPrompt(f"{question} type {code} to agree: ", _Consent.key)
        return await self._ask(prompt, frozenset({code}))

    async def _ask(self, prompt: InputPrompt, words: frozenset[str]) -> bool:
        """Ask a question of our own."""
        if isinstance(self._input, LineReader):
            try:
                line = await self._input.read(prompt)
            except EOFError:
                return False
            return line.text.strip().lower() in words
        async with self._consent.order:
            # What was typed ahead is no answer.
            while not self._input.untouched():  # noqa: ASYNC110 - nobody tells that a line is empty
                await anyio.sleep(_TICK)
            self._input.switch(prompt)
            try:
                return await self._consent.wait(words)
            finally:
                if self._input.asking == prompt:
                    self._input.switch(InputPrompt())
