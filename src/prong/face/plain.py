"""Talking line by line: text as it streams, tool calls and diffs as lines, questions in between.

Works without colour and with a screen reader. Where the terminal gives single keys one can type at
any time: while a turn runs a message steers it, and commands are carried out at once. This face
reads events and sends commands, nothing else.
"""

from __future__ import annotations

import signal
from functools import partial

import anyio
import anyio.lowlevel
import msgspec
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
from prong.face.carry import Carrier, Titling
from prong.face.composer import Composer, KeyAction, LineReader
from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Sources
from prong.face.edit.external import following
from prong.face.event_printer import EventPrinter
from prong.face.handover import Handover, Left, Swapped
from prong.face.line import stop_signals
from prong.face.screen import InputLine, InputPrompt, Screen
from prong.face.status import describe_status, find_sources
from prong.face.suggestion import Suggesting
from prong.face.task_list import describe_leaving
from prong.face.terminal import Terminal
from prong.face.window_title import window_title
from prong.session import Session, Subscription

_TICK = 0.25
"""Seconds between two looks at what is being done."""
_PATIENCE = 5.0
"""Seconds in which a second Ctrl+C leaves."""


_STIRRING = MessageQueued | MessageUnqueued | TurnStarted | TurnFinished
"""After what the row of what is being done is drawn at once."""


class _Consent(msgspec.Struct):
    """A question of this face's own, which the session knows nothing of."""

    key = "consent"
    settled: anyio.Event
    given: bool = False

    def settle(self, *, given: bool) -> None:
        """Answer it."""
        self.given = given
        self.settled.set()


class Talk:
    """One session on a screen, line by line."""

    def __init__(
        self, session: Session, terminal: Terminal, events: Subscription, *, swaps: bool = False
    ) -> None:
        """Show events as they come; with `swaps`, a key hands the session to another face."""
        self._session = session
        self._screen = Screen()
        keyed = terminal.has_keys and self._screen.erases
        self._input = (
            Composer(self._screen, terminal, self._sources) if keyed else LineReader(self._screen)
        )
        self._questions = Questions(self._screen, self._input)
        self._transcript = EventPrinter(session, self._screen)
        self._titling = Titling(session)
        self._suggesting = Suggesting(session)
        self._ready = anyio.Event()
        self._carrier = Carrier(session, self)
        self._composing = anyio.CancelScope()
        """Ends when another session is to be gone on with."""
        self._armed = 0.0
        """Until when another Ctrl+C leaves."""
        self._consent: _Consent | None = None
        self._events = events
        self._swaps = swaps
        self._swapped = False

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
        leaves = False
        async with anyio.create_task_group() as group:
            group.start_soon(self._show)
            group.start_soon(self._on_interrupt, group.cancel_scope)
            group.start_soon(self._titling.run)
            if first:
                self._screen.line(f"> {first}")
                await self._take(InputLine(first, ""))
            elif not taken_over:
                self._carrier.rest(idle=isinstance(await self._session.send(TakeUp()), Refused))
            if isinstance(self._input, Composer):
                group.start_soon(self._tick)
                group.start_soon(self._suggesting.run, self._input.hint)
                with self._composing:
                    await self._compose(self._input, group)
            else:
                await self._read(self._input)
            leaves = True
            group.cancel_scope.cancel()
        self._screen.hide()
        typed = self._input.end() if isinstance(self._input, Composer) else Buffer()
        left = Swapped(typed) if self._swapped else Left(asked=leaves)
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
            self._screen.line(text, style=style)

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
            case "swap" if self._swaps:
                self._swapped = True
                return True
            case "swap":
                self._screen.line("(there is no full screen here; see 'prong --help')")
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
            self._input.remind()
        self._screen.entitle(window_title(view))

    async def _sources(self, text: str) -> Sources:
        """Give what a text can be completed with."""
        return await find_sources(self._session.view(), self._session.records, text)

    async def _take(self, line: InputLine, *, echoed: bool = True) -> None:
        """Do what a line says: a command, the answer to the question it stands under, a message."""
        self._armed = 0.0
        if line.text.startswith("/"):
            self._remember(line)
            await self._carrier.obey(line.text)
        elif line.key == _Consent.key:
            if self._consent is not None:
                self._consent.settle(given=line.text.strip().lower() in {"y", "yes"})
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
        self._suggesting.cancel()
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
        self._suggesting.heed(envelope)
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
            if event.why == "done":
                self._titling.turned()
        if isinstance(event, _STIRRING):
            self._refresh()
        self._ready.set()

    async def agree(self, question: str) -> bool:
        """Ask a question of our own."""
        return await self._ask(InputPrompt(f"{question} [y]es, [n]o: ", _Consent.key))

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
