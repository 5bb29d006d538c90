"""A session with a person at a terminal: opened here, and handed from one face to the other.

Which face opens is decided once; the key Ctrl+O changes it. Trust is asked for before anything is
opened, and what is left to do when the user leaves is done here, whichever face it was.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import anyio
import msgspec

from prong.command import Remember, SetMemory
from prong.event import MAIN, AgentRested, Envelope, MemoryKept, Warned, WorkKept
from prong.face.composer import LineReader
from prong.face.draw.phrase import dollars
from prong.face.garbage import look_seldom
from prong.face.handover import FaceStart, Following, Handover, Left, Swapped
from prong.face.line import describe, describe_outcome, dumb
from prong.face.output import flat, flush, tell
from prong.face.plain import Talk
from prong.face.screen import InputPrompt, Screen
from prong.face.status import recount, settled_items
from prong.face.task_list import tell_stopping
from prong.face.terminal import Terminal, full_hindered
from prong.face.terminal_watch import TerminalWatch, WatchedFace, watched_terminal
from prong.face.window_title import borrowed_title
from prong.session import Options, Session, Subscription, open_session
from prong.system.path_form import real_path
from prong.system.stop_signal import end_self, ignore_stops, received, stop_signals
from prong.view import View

"""The least that a full screen needs."""


async def run(options: Options, first: str, wanted: str) -> int:
    """Talk until the user leaves; gives the exit code.

    `wanted` is the face that was asked for on the command line: full, line, or empty.
    """
    terminal = Terminal()
    try:
        return await _run(options, first, wanted, terminal)
    finally:
        terminal.restore()


async def _run(options: Options, first: str, wanted: str, terminal: Terminal) -> int:
    start = FaceStart(first)
    if sys.stdin.isatty() and not options.bare:
        await _ask_trust(options, terminal)
    while True:
        options = await _ask_cost(options, terminal)
        async with open_session(options, attended=True) as session:
            look_seldom()
            if not options.allow_actions:
                session.records.control.open()
            events = session.events(since=session.records.began)
            shown = _Shown(session, terminal, events)
            async with _leaving_when_told(session):
                left = await shown.talk(start, wanted)
            await _end(session, left)
        # What only the end of the session has told.
        _say_rest(events.drain())
        _say_way_back(session.view(), left)
        match left:
            case Following():
                options = _resumed(options, left.id, session.view().cwd)
                start = FaceStart("", left.draft, left.note)
                wanted = shown.face
            case _:
                terminal.restore()
                if terminal.has_keys:
                    return 0
                # A thread may still wait for a line; nothing is left to do: it must not hold us up.
                os._exit(_flushed())


def _flushed() -> int:
    """Let the rest of the output leave; gives the exit code, as not all of it may have left."""
    try:
        flush()
    except BrokenPipeError:
        return 141
    except OSError as error:
        tell(f"{error.filename}: {error.strerror or error}")
        return 1
    return 0


@asynccontextmanager
async def _leaving_when_told(session: Session) -> AsyncGenerator[None, None]:
    """Leave as if asked by the system once the session, a member of a team, has agreed to end."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_wait_told, session.events(since=None))
        try:
            yield
        except Exception as error:  # noqa: BLE001 - given back below, bare of its group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _wait_told(events: Subscription) -> None:
    with events:
        async for envelope in events:
            if envelope.agent == MAIN and envelope.event == AgentRested(waits="end"):
                end_self()


def _resumed(options: Options, session_id: str, cwd: str) -> Options:
    """Give the options of a session that follows; a worktree that was left is not made again."""
    return msgspec.structs.replace(
        options,
        cwd=cwd if options.worktree is not None and os.path.isdir(cwd) else options.cwd,  # noqa: PTH112 - a text
        worktree=None,
        persist=True,
        resume=session_id,
        continue_last=False,
        fork_session=False,
        session_id=None,
    )


class _Shown:
    """One session, in one face after the other."""

    def __init__(self, session: Session, terminal: Terminal, events: Subscription) -> None:
        self._session = session
        self._terminal = terminal
        self._events = events
        self.face: WatchedFace = "line"
        """The face that has it, or had it last."""
        self._printed = 0
        """Items of the conversation, from the first on, that stand in the scrollback for good."""

    async def talk(self, start: FaceStart, wanted: str) -> Handover:
        """Talk in the face that is wanted, or in the other, until the user leaves the session."""
        self.face = self._chosen(wanted)
        if not sys.stdout.isatty() or dumb():
            return await self._talk(start, TerminalWatch())
        with watched_terminal() as watch, borrowed_title():
            return await self._talk(start, watch)

    async def _talk(self, start: FaceStart, watch: TerminalWatch) -> Handover:
        taken_over = False
        if self.face == "line":
            _recount(self._session)
        while True:
            watch.tell(self.face)
            left = await self._in_face(start, taken_over=taken_over)
            if not isinstance(left, Swapped):
                return left
            start, taken_over = FaceStart(draft=left.draft), True
            self.face = "full" if self.face == "line" else "line"

    def _chosen(self, wanted: str) -> WatchedFace:
        """Choose the face; if the one that was asked for cannot be, that is said."""
        asked = wanted or os.environ.get("PRONG_UI", "") or self._session.records.ui
        if asked == "line":
            return "line"
        if why := full_hindered():
            if sys.stdout.isatty():
                Screen().line(f"(line by line: {why})", style="dim")
            else:
                tell(f"(line by line: {why})", lead="")
            return "line"
        return "full"

    async def _in_face(self, start: FaceStart, *, taken_over: bool) -> Handover:
        if self.face == "full":
            from prong.face.full.fullscreen import run_full

            left = await run_full(self._session, self._events, start, taken_over=taken_over)
            if isinstance(left, Left):
                self._print(last_turn=True)
            return left
        if taken_over:
            # What is printed now is not told again.
            missed = self._events.drain()
            self._print()
            _say_rest(missed)
            Screen().line("(line by line; Ctrl+O brings the full screen back)", style="dim")
        talk = Talk(self._session, self._terminal, self._events)
        left = await talk.run(start.first, start.draft, taken_over=taken_over)
        if taken_over or not self._session.records.began:
            # Else only the end of what was said earlier has been told.
            self._printed = settled_items(self._session.view().main)
        return left

    def _print(self, *, last_turn: bool = False) -> None:
        """Print what is not yet in the scrollback of the conversation, or of its last turn."""
        from prong.face.full.scrollback import print_conversation

        view, now = self._session.view(), self._session.records.now
        print_conversation(view, self._printed, now=now, last_turn=last_turn)


def _recount(session: Session) -> None:
    screen = Screen()
    for text, style in recount(session.view(), session.records.began):
        screen.line(text, style=style, words=True)


async def _end(session: Session, left: Handover) -> None:
    """Do what is left before the session is closed."""
    away = [one for one in session.view().agents.values() if one.session and not one.ended]
    for member in (one for one in away if one.parent == MAIN):
        told = (
            f"({member.task_id} works on in its pane; prong --resume {session.id} leads it again)"
        )
        Screen().line(told, style="dim")
    screen = Screen()
    if not isinstance(left, Left) or left.asked:
        await _keep_notes(session, screen)
    # What could be kept is kept; the session's end need not wait for it again.
    await session.send(SetMemory(on=False))
    for text in tell_stopping(session.view()):
        screen.line(text)
    if isinstance(left, Left):
        # A closed terminal hangs up more than once; the session must still end in order.
        ignore_stops()


async def _keep_notes(session: Session, screen: Screen) -> None:
    """Before leaving, keep what later sessions should know; Ctrl+C leaves without."""
    if not session.records.owes_notes:
        return
    screen.line("(keeping notes for later sessions; Ctrl+C leaves without)")
    async with anyio.create_task_group() as group:
        group.start_soon(_heed_signals, group.cancel_scope)
        outcome = await session.send(Remember())
        group.cancel_scope.cancel()
        for text, style in describe_outcome(Remember(), outcome):
            screen.line(text, style=style)


async def _heed_signals(scope: anyio.CancelScope) -> None:
    """Cancel a scope when the user or the system asks for an end."""
    with received(*stop_signals()) as signals:
        async for _ in signals:
            scope.cancel()


def _say_rest(missed: Iterable[Envelope]) -> None:
    """Say what no face has told and no conversation has."""
    screen = Screen()
    for envelope in missed:
        if isinstance(envelope.event, MemoryKept | Warned | WorkKept):
            for text, style in describe(envelope.event):
                screen.line(text, style=style, words=True)


def _say_way_back(view: View, left: Handover) -> None:
    """Say what it cost, and how to go on with it another time."""
    if isinstance(left, Left) and left.asked and view.main.transcript and sys.stdout.isatty():
        elsewhere = real_path(view.cwd) != real_path(".")
        where = f"-C {shlex.quote(view.cwd)} " if elsewhere else ""
        told = f"({dollars(view.cost)}; prong {where}--resume {view.session_id} goes on with it)"
        Screen().line(told, style="dim")


async def _ask_trust(options: Options, terminal: Terminal) -> None:
    """Ask once whether a folder's own hooks, servers and rules may work, and keep the answer."""
    from prong.session import decide_trust, open_trust

    asked = open_trust(options)
    if asked is None:
        return
    screen = Screen()
    screen.line(f"{asked.folder} wants to run or change things of its own:", style="bold")
    for want in asked.wants:
        screen.line(f"  {flat(want)}")
    trusted = await _asked(terminal, "trust this folder?")
    if trusted is None:
        return
    decide_trust(asked, trusted=trusted)
    if not trusted:
        screen.line("not trusted: it goes on without them; 'prong trust' changes that")


async def _ask_cost(options: Options, terminal: Terminal) -> Options:
    """Ask before a session is resumed with another model for much money; gives how to resume it.

    What costs little, or cannot be asked about, the session says when it opens.
    """
    from prong.session import resuming_cost

    cost = resuming_cost(options) if sys.stdin.isatty() else None
    if cost is None or not cost.asks:
        return options
    screen = Screen()
    screen.line(cost.loss.text, style="bold")
    if await _asked(terminal, f"that is ${cost.loss.extra:.2f} more; go on?"):
        return options
    screen.line(f"(left as it was: it goes on with {cost.before})", style="dim")
    return msgspec.structs.replace(options, model=None, api=None, base_url=None)


async def _asked(terminal: Terminal, question: str) -> bool | None:
    """Ask before there is a session; None if nobody answers."""
    with terminal.lend():
        terminal.forget_typed()
        try:
            answer = await LineReader(Screen()).read(InputPrompt(f"{question} [y]es, [n]o: "))
        except EOFError:
            return None
    return answer.text.strip().lower() in {"y", "yes"}
