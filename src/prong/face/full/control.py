"""What keys do on the full screen: they change what is shown here, or become commands.

Nothing of Textual is known here. What only the screen can do comes back as a word from `press`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

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
    Tell,
    Unsay,
)
from prong.event import (
    MAIN,
    CacheMissed,
    CommandTaken,
    ControlChanged,
    Envelope,
    MemoryKept,
    TurnFinished,
    Warned,
    WorkKept,
)
from prong.face.carry import Carrier
from prong.face.control_consent import ask_about_others
from prong.face.edit.buffer import Buffer
from prong.face.edit.editor import Editor
from prong.face.edit.external import following
from prong.face.edit.key import CLICK, PASTE, TEXT, KeyPress
from prong.face.edit.keymap import TWICE, meaning
from prong.face.edit.paste import picture_path
from prong.face.edit.recall import Recall
from prong.face.full.asking import (
    Asking,
    OwnQuestion,
    Rewriting,
    Wording,
    is_own,
)
from prong.face.full.foot import Panel
from prong.face.full.foot_note import FootNotes
from prong.face.full.looking import Addressed, Glance, Looking, Preferred, Wanted
from prong.face.full.typed_line import TypedLine
from prong.face.handover import Following
from prong.face.line import describe, describe_end
from prong.face.side_work import SideWork
from prong.face.slash import is_leaving, is_slash
from prong.face.task_list import describe_leaving, list_todos
from prong.face.wish import describe_importable, describe_session
from prong.question import Answer
from prong.session import Session, Subscription
from prong.view import AskedView, View

_PATIENCE = 5.0
"""Seconds in which a second Ctrl+C leaves."""
_LEAP = 8
_LISTED = 50
_SHORT = 4
"""Lines that are told in passing; more open a panel."""

ScreenAction: TypeAlias = Literal[
    "", "leave", "swap", "suspend", "redraw", "copy", "editor", "plan"
]
"""What only the screen can do."""

_TYPING = frozenset({TEXT, PASTE, "enter", "backspace"})
"""Keys by which one sees that somebody is at something else than a question."""
_NOTED = Warned | MemoryKept | WorkKept | CacheMissed | ControlChanged | CommandTaken


class Control:
    """One session under somebody's hands."""

    def __init__(
        self,
        session: Session,
        events: Subscription,
        group: TaskGroup,
        *,
        draft: Buffer,
        quiet: float,
    ) -> None:
        """Send to a session; what takes long is done in the group."""
        self._session = session
        self._events = events
        self._group = group
        self._carrier = Carrier(session, self)
        self._side = SideWork(session)
        self._consent = OwnQuestion()
        self._leaves_until = 0.0
        """Until when another Ctrl+C leaves."""
        self._escaped = 0.0
        recall = Recall(session.records.history.load())
        self.line = TypedLine(session, Editor(draft, recall))
        self.looking = Looking()
        self.asking = Asking(quiet)
        self.panel: Panel | None = None
        self.notes = FootNotes()
        self._stirred = anyio.Event()
        """Set when something has changed that is drawn."""

    @property
    def following(self) -> Following | None:
        """The session to go on with, once there is one."""
        return self._carrier.following

    def stir(self) -> None:
        """Have everything drawn again."""
        self._stirred.set()

    async def changed(self) -> None:
        """Wait until something has changed that is drawn; for one who waits."""
        await self._stirred.wait()
        self._stirred = anyio.Event()

    def begin(self, first: str, *, taken_over: bool) -> None:
        """Say the first words, or take up what was left; listen from now on."""
        self._group.start_soon(self._follow)
        self._group.start_soon(ask_about_others, self._session, self, self._agree_seen)
        self._side.begin(self._group, self._hint)
        if first:
            self._start(Say(first))
        elif not taken_over:
            self._group.start_soon(self._session.send, TakeUp())

    async def _follow(self) -> None:
        """Listen to the session as long as it talks."""
        async for envelope in self._events:
            self._take_in(envelope)
            self.stir()

    def _take_in(self, envelope: Envelope) -> None:
        event = envelope.event
        self._side.heed(envelope)
        if isinstance(event, _NOTED):
            badge = "" if envelope.agent == MAIN else f"[{envelope.agent}] "
            self.notes.add(*((badge + text, style) for text, style in describe(event)))
        elif isinstance(event, TurnFinished) and envelope.agent == MAIN:
            elsewhere = self.looking.reader.path != MAIN
            if elsewhere and event.why != "done":
                # Else it stands in the conversation.
                self.notes.add((describe_end(event.why, event.detail), "bad"))

    # What the carrier says and asks.

    def tell(self, lines: list[tuple[str, str]]) -> None:
        """Say lines: a few in passing, more in a panel."""
        split = [(line, style) for text, style in lines for line in text.split("\n")]
        if len(split) > _SHORT:
            # What comes while somebody types, or was long waited for, is not typed away unseen.
            stays = self.notes.is_waiting or not self.line.editor.is_empty
            self.panel = Panel(tuple(split), stays=stays)
        else:
            self.notes.add(*split)
        self.stir()

    def tell_forks(self, ids: tuple[str, ...]) -> None:
        """Say that forks work, each until it has ended."""
        self.notes.add_forks(ids)
        self.stir()

    @contextmanager
    def tell_wait(self, text: str) -> Generator[None]:
        """Say what is waited for, until it has come."""
        with self.notes.wait(text):
            self.stir()
            yield
        self.stir()

    def show_todos(self) -> None:
        """Show all that the agent that is looked at has to do."""
        agent = self._session.view().agents.get(self.looking.reader.path)
        lines = list_todos(agent.todos) if agent is not None else []
        self.panel = Panel(tuple((line, "") for line in lines))
        self.stir()

    async def _agree_seen(self, question: str, code: str) -> bool:
        """Ask a question that names a code; a key counts once that has been on the screen."""
        del code
        return await self.agree(question)

    async def agree(self, question: str) -> bool:
        """Ask a question of the face's own."""
        return await self._consent.ask(question, self.stir)

    def questions(self, view: View) -> list[AskedView]:
        """Give what waits for an answer."""
        return [*self._consent.asked, *view.questions.values()]

    def _armed(self, at: float) -> bool:
        """Whether a key pressed at a time would answer the question on the screen."""
        return self.line.is_free and self.panel is None and self.asking.armed(at)

    @property
    def in_front(self) -> bool:
        """Whether something lies over the lower part: a panel, or else a question."""
        return self.panel is not None or self.asking.asked is not None

    def keep_panel(self, seen: Panel) -> None:
        """Take note of the panel as it is in sight."""
        self.panel = seen

    def roll(self, step: int) -> None:
        """Go up or down in what lies over the lower part."""
        if self.panel is not None:
            self.panel = self.panel.moved(step)
        else:
            self.asking.roll(step)

    # Keys.

    async def press(self, key: KeyPress, at: float) -> ScreenAction:
        """Take a key that was pressed at a time; gives what is left for the screen to do."""
        armed = self._armed(at)
        if key.name == CLICK:
            # As long as a key would not answer, it means nothing.
            return await self._answer(KeyPress(TEXT, key.text)) if armed else ""
        if key.name in _TYPING:
            self.asking.note_typing(at)
        self.stir()
        action = meaning(key.name)
        if action in {"swap", "redraw", "suspend"}:
            return self._screen_key(action)
        if action != "interrupt":
            self._leaves_until = 0.0
        if key.name in {"pageup", "pagedown"}:
            self._page(-1 if key.name == "pageup" else 1)
            return ""
        # Who has gone to the agents means these, whatever is asked meanwhile.
        if self.panel is None and self._looks(key):
            return ""
        if armed and self.asking.takes(key):
            return await self._answer(key)
        if self.panel is not None and self._in_panel(self.panel, key):
            # The question behind it has to be seen first.
            self.asking.note_typing(at)
            return ""
        if self.panel is not None and self._looks(key):
            return ""
        return await self._type(key, at)

    def _looks(self, key: KeyPress) -> bool:
        """Take a key for the agents or the calls, if keys are for them; says whether it was."""
        if self.looking.zone == "line":
            return False
        glance = self.looking.press(self._session.view(), key)
        if glance is not None:
            self._glanced(glance)
        return glance is not None

    def _glanced(self, glance: Glance) -> None:
        """Do what a look at an agent asks for."""
        match glance:
            case Wanted(command=command):
                self._group.start_soon(self._carrier.carry_out, command)
            case Addressed(task_id=task_id):
                self.line.write_to(task_id)
            case Preferred(request_id=request_id):
                self.asking.prefer(request_id)
            case _:
                pass

    def _screen_key(self, action: str) -> ScreenAction:
        if action == "swap" and self._consent.asked:
            # What was not agreed to is not done.
            self._consent.refuse()
        elif action == "swap" and self._carrier.under_way:
            self.notes.add(("(a command is being carried out; once it has ended)", ""))
            return ""
        return "swap" if action == "swap" else "redraw" if action == "redraw" else "suspend"

    def _page(self, step: int) -> None:
        if self.in_front:
            self.roll(step * _LEAP)
        else:
            self.looking.reader.turn(step)

    async def _answer(self, key: KeyPress) -> ScreenAction:
        # A question that was answered by a key does not hold up the next one.
        self.asking.note_typing(0.0)
        match self.asking.press(key):
            case Answer() as answer:
                await self._give(answer)
            case Wording() as wording:
                self.line.word(wording)
            case Rewriting():
                return "plan"
            case None:
                if key.name in {"up", "down"}:
                    self.asking.roll(1 if key.name == "down" else -1)
        return ""

    async def _give(self, answer: Answer) -> None:
        """Send an answer."""
        if is_own(answer.request_id):
            self._consent.take(answer)
            return
        await self._carrier.carry_out(answer)

    async def approve_as(self, request_id: str, text: str) -> None:
        """Approve a plan as it was edited."""
        await self._give(Answer(request_id, text=text))

    def _in_panel(self, panel: Panel, key: KeyPress) -> bool:
        """Take a key for the panel; says whether it was for it."""
        match key.name:
            case "up" | "down":
                self.panel = panel.moved(-1 if key.name == "up" else 1)
            case "escape":
                self.panel = None
            case "enter" if panel.picks and self.line.editor.is_empty:
                self.panel = None
                self._group.start_soon(self._carry, panel.picks[panel.at])
            case _:
                # Whoever types goes on.
                closes = key.name in {TEXT, PASTE} and not panel.stays
                self.panel = None if closes else panel
                return False
        return True

    # The line.

    async def _type(self, key: KeyPress, at: float) -> ScreenAction:
        if key.name == PASTE and (path := picture_path(key.text)) and await self._attach(path):
            return ""
        if key.name == "tab" and self.line.can_wait and not self.line.editor.hint:
            self.looking.go_on(self._session.view())
            return ""
        was_empty = self.line.editor.is_empty
        deed = await self.line.press(key)
        match deed:
            case "send":
                return await self._send()
            case "escape":
                await self._escape(at)
            case "interrupt":
                return await self._interrupt(at)
            case "leave":
                return "leave"
            case "editor":
                return "editor"
            case _:
                await self._deed(deed, was_empty=was_empty)
        return ""

    async def _deed(self, deed: str, *, was_empty: bool) -> None:
        match deed:
            case "background":
                await self._carrier.carry_out(Background())
            case "picture":
                await self._attach()
            case "mode":
                await self._carrier.carry_out(SetMode(following(self._session.view().mode)))
            case "older":
                await self._older(was_empty=was_empty)
            case _:
                pass

    async def _older(self, *, was_empty: bool) -> None:
        """Take back the message that waits, if one does; else show what was said before."""
        outcome = Refused("")
        if was_empty and self._session.view().queued:
            outcome = await self._session.send(Unsay())
        if isinstance(outcome, Accepted):
            self.line.retype(outcome.text)
        else:
            self.line.recall()

    async def _escape(self, at: float) -> None:
        """Leave what was begun, or interrupt the turn; twice goes back to an earlier message."""
        if self.line.let_go():
            return
        if self.looking.reader.path != MAIN:
            self.looking.come_back(self._session.view())
        elif isinstance(await self._session.send(Interrupt()), Accepted):
            self._escaped = 0.0
        elif at - self._escaped < TWICE and self.line.editor.is_empty:
            await self._pick_message()
        else:
            self._escaped = at

    async def _pick_message(self) -> None:
        found = await self._session.records.messages()
        if found:
            lines = tuple((f"{one.number:3}  {' '.join(one.title.split())}", "") for one in found)
            picks = tuple(f"/rewind {one.number}" for one in found)
            self.panel = Panel(lines, picks, len(picks) - 1)

    async def _interrupt(self, at: float) -> ScreenAction:
        """Stop the turn that runs; without one, ask for once more."""
        self._side.titling.cancel()
        if self._consent.asked:
            self._consent.refuse()
        elif isinstance(await self._session.send(Interrupt()), Accepted):
            self._leaves_until = 0.0
        elif at < self._leaves_until:
            return "leave"
        else:
            self._leaves_until = at + _PATIENCE
            self.notes.add((describe_leaving(self._session.view()), ""))
        return ""

    async def _send(self) -> ScreenAction:
        missing, taken = self.line.editor.buffer.missing, self.line.take()
        if taken is None:
            return ""
        message, target = taken
        self.notes.clear()
        if missing:
            self.tell([(missing, "bad")])
        self.looking.reader.end()
        text, words = message.text, target.answers
        if words is not None:
            # Of several questions the next one was in sight with this one.
            self.asking.note_typing(0.0)
            if (answer := self.asking.word(words, text.strip())) is not None:
                await self._give(answer)
            return ""
        if is_leaving(text, answers=bool(target.agent)):
            return "leave"
        self._session.records.history.add(text)
        self._start(message, target.agent)
        # What a line begins is begun before the next key counts.
        await anyio.lowlevel.checkpoint()
        return ""

    def _start(self, message: Say, agent: str = "") -> None:
        """Begin what a line asks for: a command, or a message to an agent."""
        text = message.text
        if is_slash(text):
            self._group.start_soon(self._carry, text)
        elif text.startswith("!"):
            self._group.start_soon(self._carrier.carry_out, RunShell(text[1:].strip()))
        elif agent:
            self._group.start_soon(self._carrier.carry_out, Tell(agent, text))
        else:
            self._group.start_soon(self._message, message)

    def _hint(self, text: str) -> None:
        """Show what may be said next."""
        if self.line.suggest(text):
            self.stir()

    async def _message(self, message: Say) -> None:
        self._side.suggesting.cancel()
        outcome = await self._carrier.say(message)
        if isinstance(outcome, Refused) and self.line.editor.is_empty:
            self.line.retype(message.text)
        self.stir()

    async def _carry(self, line: str) -> None:
        if line.strip() == "/resume" and (rows := self._resumable()):
            lines = tuple((text, "") for text, _ in rows)
            self.panel = Panel(lines, tuple(f"/resume {name}" for _, name in rows))
        elif line.strip() == "/rewind":
            await self._pick_message()
        else:
            await self._carrier.obey(line)
        self.stir()

    def _resumable(self) -> list[tuple[str, str]]:
        """List the sessions that can be gone on with, ours and those of other programs."""
        records = self._session.records
        own = [one for one in records.others()[:_LISTED] if one.id != self._session.id]
        theirs = records.importable()[: max(0, _LISTED - len(own))]
        rows = [(describe_session(one), one.id) for one in own]
        return rows + [(describe_importable(one), str(one.path)) for one in theirs]

    async def _attach(self, path: str = "") -> bool:
        """Put a picture into the line, that of the clipboard if no path is given."""
        why = await (self.line.attach(path) if path else self.line.attach_copied())
        if why:
            self.notes.add((why, "bad"))
        return why is None
