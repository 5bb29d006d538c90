"""The screen: four boards, drawn from the view, and keys handed to what knows them."""

from __future__ import annotations

import math
import sys
import time

import anyio
from msgspec.structs import replace
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Offset, Region

from prong.errors import NotPossibleNow
from prong.event import MAIN, PermissionAsked
from prong.face.draw.header import draw_header
from prong.face.draw.placement import Placement, arrange, aspect_of, stand_beside
from prong.face.draw.row import EMPTY, Row, Span
from prong.face.draw.theme import ThemeName
from prong.face.draw.todo_list import TODOS, draw_todos
from prong.face.draw.tree import draw_fan, draw_tree
from prong.face.edit.editor import Editor
from prong.face.edit.external import edit
from prong.face.edit.key import CLICK, PASTE, KeyPress
from prong.face.full.board import Board, Page
from prong.face.full.clipboard import copy
from prong.face.full.control import Control, ScreenAction
from prong.face.full.foot import Content, Foot, draw_foot, draw_panel, draw_rule
from prong.face.full.looking import lines_of
from prong.face.full.paint import Painter
from prong.face.full.press import pressed
from prong.face.handover import Handover, Left, Swapped
from prong.face.status_watch import StatusWatch
from prong.face.window_title import title_code, window_title
from prong.session import Session
from prong.system.stop_signal import leave_jobs_alone, suspend_self
from prong.view import View

_FRAME = 0.05
"""Seconds between two drawings at least; a slow one is given twice its time."""
_KEYS = {
    "line": (
        ("Enter", "send"),
        ("Tab", "agents and calls"),
        ("Shift+Tab", "mode"),
        ("Ctrl+O", "line by line"),
        ("/help", ""),
    ),
    "agents": (
        ("Up/Down", "look at"),
        ("m", "message"),
        ("x", "stop"),
        ("b", "background"),
        ("a", "answer"),
        ("Enter", "keep in sight"),
        ("Esc", "back"),
    ),
    "conversation": (
        ("Up/Down", "move"),
        ("Enter", "unfold"),
        ("PgUp/PgDn", "page"),
        ("Esc", "back"),
    ),
}
_EARLY = 0.3
"""Seconds after the beginning in which keys come that were pressed before it."""
_LOW = 18
"""Lines below which a question may take nearly all of them."""
_TALL = 30
"""Lines from which a list of things to do has more than one row below the conversation."""
_TAKE = ("Tab", "take it")
_BUSY = ("Esc", "interrupt")
_SEARCH = (("Enter", "send"), ("Ctrl+R", "further back"), ("Right", "take"), ("Esc", "give up"))
_CHOICES = (("Up/Down", "choose"), ("Enter", "take"), ("Esc", "close"))


def _listed(lines: int) -> int:
    """Say how many rows of a list there may be below a conversation."""
    return 1 if lines < _TALL else 5


def _line_keys(editor: Editor, view: View) -> tuple[tuple[str, str], ...]:
    """Name the keys of the line, as it is now."""
    if editor.search is not None:
        return _SEARCH
    if editor.menu is not None:
        return _CHOICES
    keys = _KEYS["line"]
    if editor.hint:
        keys = tuple(_TAKE if key == "Tab" else (key, does) for key, does in keys)
    # A command of the user's own is a call without a turn.
    return (_BUSY, *keys) if view.busy or view.main.open_calls else keys


class Full(App[Handover]):
    """Draws a session, and takes keys."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    Board, Page { position: absolute; background: ansi_default; color: ansi_default; }
    """

    def __init__(
        self, session: Session, control: Control, theme: ThemeName, first: str, *, taken_over: bool
    ) -> None:
        """Draw a session; what keys do is up to the control."""
        super().__init__(ansi_color=True)
        self._session = session
        self._control = control
        self._first = first
        self._taken_over = taken_over
        self.failure: BaseException | None = None
        """What the screen itself has failed of, if it has."""
        self._titled = ""
        self._began = math.inf
        """When it was there; keys that come before, or with it, were pressed before."""
        self._status = StatusWatch(session)
        painter = Painter(theme)
        self._header = Board(painter, "header")
        self._page = Page(painter, "conversation")
        self._agents = Board(painter, "agents")
        self._foot = Board(painter, "foot")

    def _fatal_error(self) -> None:
        """Keep what went wrong, for one who can say it: Textual would print all variables too."""
        self.failure = self.failure or sys.exception()
        self._close_messages_no_wait()

    def compose(self) -> ComposeResult:
        """Make the boards."""
        yield self._header
        yield self._page
        yield self._agents
        yield self._foot

    def on_mount(self) -> None:
        """Begin."""
        self._began = time.monotonic()
        # Textual takes the terminal again at any SIGCONT, also one that comes with a hang-up or
        # when another face has it; stopping as a job is done here.
        leave_jobs_alone()
        self.set_interval(1.0, self._control.stir)
        self.run_worker(self._paint(), exit_on_error=True)
        self.run_worker(self._watch(), exit_on_error=True)
        self._control.begin(self._first, taken_over=self._taken_over)

    async def _watch(self) -> None:
        """Keep the user's own status line as it should be."""
        await self._status.run(lambda: (self.size.width, self.size.height), self._control.stir)

    async def on_event(self, event: events.Event) -> None:
        """Take keys and pastes before anything else can."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._press(pressed(event), event.time)
        elif isinstance(event, events.Paste) and not event.is_forwarded:
            await self._press(KeyPress(PASTE, event.text), event.time)
        else:
            await super().on_event(event)

    async def _press(self, key: KeyPress, at: float) -> None:
        if key.name == "ctrl+j" and at < self._began + _EARLY:
            # Of an Enter that was pressed before, the terminal has made a line feed.
            key = KeyPress("enter")
        if key.name == "ctrl+c" and self.screen.get_selected_text():
            await self._copy()
        else:
            await self._do(await self._control.press(key, at))
        self._draw()

    async def _do(self, effect: ScreenAction) -> None:
        match effect:
            case "leave":
                self.exit(Left())
            case "swap":
                self.exit(Swapped(self._control.line.editor.buffer))
            case "suspend":
                with self.suspend():
                    suspend_self()
            case "redraw":
                self.refresh(layout=True)
            case "editor":
                await self._edit_message()
            case "plan":
                await self._edit_plan()
            case _:
                pass

    async def _edit_message(self) -> None:
        line = self._control.line
        text = await self._edited(line.editor.buffer.message().text, "message.md")
        if isinstance(text, str):
            line.retype(text)
        else:
            self._control.tell([(f"the message is as it was: {text}", "bad")])

    async def _edit_plan(self) -> None:
        view = self._control.asking.asked
        assert view is not None
        assert isinstance(view.asked, PermissionAsked)
        text = await self._edited(view.asked.plan, "plan.md")
        if isinstance(text, str):
            await self._control.approve_as(view.asked.request_id, text)
        else:
            self._control.tell([(f"the plan is as it was: {text}", "bad")])

    async def _edited(self, text: str, name: str) -> str | NotPossibleNow:
        """Lend the terminal to the user's editor; gives what it left, or why there is nothing."""
        with self.suspend():
            # Textual does not take the terminal back if something is raised in between.
            try:
                return await edit(text, name)
            except NotPossibleNow as error:
                return error

    async def _copy(self) -> None:
        """Copy what is selected, and say which way."""
        text = self.screen.get_selected_text() or ""
        by = await copy(text)
        if not by:
            self.copy_to_clipboard(text)
            by = "the terminal (OSC 52; some terminals do not take it)"
        self.screen.clear_selection()
        self._control.tell([(f"(copied {len(text):,} characters by {by})", "dim")])

    # The mouse.

    def on_board_pressed(self, event: Board.Pressed) -> None:
        """Unfold what was clicked, or look at whom."""
        if self.screen.get_selected_text():
            return
        if event.board is self._page:
            self._control.looking.reader.press(event.line)
        elif event.row.key == TODOS:
            self._control.show_todos()
        elif event.board is self._agents and event.row.key:
            view = self._session.view()
            self._control.looking.select(event.row.key, view)
            self._control.looking.enter("agents", view)
        elif event.board is self._foot and (key := self._control.asking.key_of(event.row)):
            self.call_later(self._choose, KeyPress(CLICK, key), event.time)
        self._draw()

    async def _choose(self, key: KeyPress, at: float) -> None:
        await self._do(await self._control.press(key, at))
        self._draw()

    def on_board_rolled(self, event: Board.Rolled) -> None:
        """Go up or down."""
        rows = event.step * self._session.records.wheel_rows
        if event.board is not self._foot or not self._control.in_front:
            self._control.looking.reader.roll(rows)
        else:
            panel = self._control.panel
            self._control.roll(event.step if panel is not None and panel.picks else rows)
        self._draw()

    def on_resize(self) -> None:
        """Lay everything out anew."""
        self._control.stir()

    # Drawing.

    async def _paint(self) -> None:
        """Draw whenever something has changed, and not more often than the screen can bear."""
        while True:
            await self._control.changed()
            if self._control.following is not None:
                self.exit(self._control.following)
                return
            began = time.monotonic()
            self._draw()
            took = time.monotonic() - began
            await anyio.sleep(max(_FRAME, 2 * took))

    def _draw(self) -> None:
        """Draw the session as it is now."""
        columns, lines = self.size
        if not columns or not self._header.is_attached:
            return
        view, now = self._session.view(), self._session.records.now
        if self._control.asking.see(self._control.questions(view), time.monotonic()):
            self.bell()
        self._entitle(view)
        count = len(lines_of(view))
        foot = self._draw_foot(view, now, count)
        layout = arrange(columns, lines, count=count, below=len(foot.rows))
        self._place(layout, columns, lines, len(foot.rows))
        path = self._control.looking.reader.path
        self._header.put([draw_header(view, columns, now=now, path=path)])
        width, height = layout.conversation
        below = self._control.looking.reader.below
        self._page.turn(*self._control.looking.reader.show(view, width, height, now))
        if below != self._control.looking.reader.below:
            # Of as many rows, one says how much is out of sight now.
            foot = self._draw_foot(view, now, count)
        self._agents.put(self._draw_agents(view, layout, now))
        self._foot.put(foot.rows, foot.caret)
        self.cursor_position = Offset(foot.caret[1], lines - len(foot.rows) + foot.caret[0])

    def _entitle(self, view: View) -> None:
        """Name the window, if another name is due."""
        title = window_title(view)
        if title != self._titled and self._driver is not None:
            self._titled = title
            self._driver.write(title_code(title))

    def _draw_foot(self, view: View, now: float, count: int) -> Foot:
        columns, lines = self.size
        control = self._control
        zone = control.looking.zone
        keys = _line_keys(control.line.editor, view) if zone == "line" else _KEYS[zone]
        room = lines - 2 if lines < _LOW else lines * 2 // 3
        above: list[Row] = []
        if control.panel is not None:
            asked = control.asking.asked is not None
            above, seen = draw_panel(control.panel, columns, max(6, lines // 2), asked=asked)
            control.keep_panel(seen)
        elif control.asking.asked is not None:
            height = min(room - 3, max(6, lines // 2))
            above = control.asking.draw(columns, height, control.line.way_out)
        aside = stand_beside(columns, count)
        todos = () if aside else self._draw_todos(view, columns, _listed(lines))
        prompt = control.line.target.prompt
        if prompt == "> " and control.looking.reader.path != MAIN:
            prompt = "to main> "
        content = Content(
            editor=control.line.editor,
            prompt=prompt,
            above=above,
            notes=control.notes.shown(view),
            todos=todos,
            status=self._status.rows,
            keys=keys,
            below=control.looking.reader.below,
        )
        return draw_foot(view, content, columns, now=now, height=max(4, room))

    def _draw_agents(self, view: View, layout: Placement, now: float) -> list[Row]:
        marked = self._control.looking.selected if self._control.looking.zone == "agents" else ""
        if not layout.agents[1]:
            return []
        width, height = layout.agents
        if not layout.beside:
            rows = draw_tree(view, aspect_of(layout, now=now, selected=marked))
            return [draw_rule("agents", width), *rows]
        todos = self._draw_todos(view, width, height // 3)
        room = replace(layout, agents=(width, max(1, height - len(todos) - 1)))
        rows = draw_tree(view, aspect_of(room, now=now, selected=marked))
        rows += draw_fan(view, width)
        rows += [EMPTY, *todos] if todos else []
        bar = Span("│", "dim")
        shown = [Row((bar, *row.spans), row.lead, row.glue, row.key) for row in rows]
        return [*shown, *[Row((bar,))] * (height - len(shown))]

    def _draw_todos(self, view: View, width: int, most: int) -> list[Row]:
        """Draw what the agent that is looked at has to do."""
        agent = view.agents.get(self._control.looking.reader.path)
        return draw_todos(agent.todos, width, most) if agent is not None else []

    def _place(self, layout: Placement, columns: int, lines: int, below: int) -> None:
        """Put the boards where they belong."""
        width, height = layout.conversation
        self._header.place(Region(0, 0, columns, 1))
        self._page.place(Region(0, 1, width, height))
        self._foot.place(Region(0, lines - below, columns, below))
        tree_width, tree_height = layout.agents
        if layout.beside:
            self._agents.place(Region(width, 1, tree_width + 1, tree_height))
        else:
            rule = 1 if tree_height else 0
            self._agents.place(Region(0, 1 + height, tree_width, tree_height + rule))
