"""The screen of the line face: played on a model of a terminal, nothing tears or doubles."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prong.entry import CallId, Usage
from prong.event import (
    MAIN,
    AgentStarted,
    Envelope,
    Event,
    MessageQueued,
    Progressed,
    ReplyDiscarded,
    RequestSent,
    SessionStarted,
    ToolStarted,
    TurnStarted,
)
from prong.face.cell import cells
from prong.face.edit.arrange import Rows, lay_out
from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Proposal, Sources
from prong.face.edit.editor import Editor
from prong.face.edit.grapheme import clusters
from prong.face.edit.key import PASTE, TEXT, KeyPress
from prong.face.output import drawable
from prong.face.screen import Screen
from prong.face.status import describe_status
from prong.ids import AgentPath, RequestId, TaskId
from prong.view import fold_all

pytestmark = pytest.mark.spec("X2")

_CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])")


class Glass:
    """As much of a terminal as the screen uses: rows without end, wrapping, a few codes."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        while text:
            if found := _CODE.match(text):
                self._code(found[2], int(found[1] or 1))
                text = text[found.end() :]
                continue
            cluster = next(clusters(text))
            cluster = cluster[0] if cluster == "\r\n" else cluster
            text = text[len(cluster) :]
            self._put(cluster)

    def _code(self, final: str, number: int) -> None:
        match final:
            case "A":
                self.row -= number
                assert self.row >= 0, "above the first row"
                self.column = min(self.column, self.columns - 1)
            case "C":
                self.column = min(self.columns - 1, self.column + number)
            case "J":
                del self.rows[self.row + 1 :]
                del self.rows[self.row][self.column :]
            case "m":
                pass
            case _:
                raise AssertionError(final)

    def _put(self, cluster: str) -> None:
        if cluster == "\r":
            self.column = 0
        elif cluster == "\n":
            self.row, self.column = self.row + 1, 0
        else:
            if self.column + cells(cluster) > self.columns:
                self.row, self.column = self.row + 1, 0
            while len(self.rows) <= self.row:
                self.rows.append([])
            line = self.rows[self.row]
            line += [" "] * (self.column - len(line))
            line[self.column : self.column + cells(cluster)] = [
                cluster,
                *[""] * (cells(cluster) - 1),
            ]
            self.column += cells(cluster)
        while len(self.rows) <= self.row:
            self.rows.append([])

    def text(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]


class Played(Screen):
    """A screen on a model of a terminal."""

    def __init__(self, columns: int = 20) -> None:
        super().__init__()
        self.erases = True
        self.glass = Glass(columns)

    @property
    def size(self) -> tuple[int, int]:
        return self.glass.columns, 24

    def _out(self, text: str) -> None:
        if self._held is not None:
            super()._out(text)
        else:
            self.glass.write(text)


PIECES = st.text(st.sampled_from("ab 日\n👍"), max_size=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), PIECES),
        st.tuples(st.just("line"), st.text("xy", max_size=30)),
        st.tuples(st.just("notice"), st.text("mn", min_size=1, max_size=9)),
        st.tuples(st.just("typed"), st.text("pq", max_size=40)),
        st.tuples(st.just("hide"), st.just("")),
    ),
    max_size=12,
)


@given(STEPS)
def test_output_and_input_never_mix(steps: list[tuple[str, str]]) -> None:
    """Whatever is written while something is typed: above stands what was written, once and in
    order, and below it the rows as they are, once.
    """
    screen, plain, typed = Played(), Played(), ""
    for kind, text in steps:
        if kind == "typed":
            typed = text
            screen.show(lay_out(Editor(Buffer(text, len(text))), "> ", 20, 10))
        elif kind == "hide":
            typed = ""
            screen.hide()
        else:
            getattr(screen, kind)(text)
            getattr(plain, kind)(text)
    screen.end()
    plain.end()
    below = [text.rstrip() for text, _ in screen._rows.rows]
    above = plain.glass.text()
    assert above[-1] == ""
    assert screen.glass.text() == [*above[:-1], *(below or [""])]
    assert typed.replace(" ", "") in "".join(below).replace(" ", "")


def test_a_notice_waits_for_the_end_of_a_line() -> None:
    """What a fork says does not stand in the midst of a word of the main agent."""
    screen = Played()
    screen.text("some wo")
    screen.notice("[fork-1] done")
    screen.text("rds\nand m")
    screen.text("ore")
    screen.end()
    assert screen.glass.text() == ["some words", "[fork-1] done", "and more", ""]


def test_what_is_made_of_words_is_broken_between_them() -> None:
    """What follows is set in; code and output stay as they are, and so does what a pipe reads."""
    screen = Played()
    screen.line("fork-1 completed: it works\n  and more of that again", words=True)
    screen.notice("! the server is overloaded", words=True)
    screen.line("! /an/address/without/blanks is wrong", words=True)
    screen.line("x = some(long, line, of, code)")
    assert screen.glass.text() == [
        "fork-1 completed:",
        "  it works",
        "  and more of that",
        "    again",
        "! the server is",
        "  overloaded",
        "! /an/address/witho",
        "  ut/blanks is",
        "  wrong",
        "x = some(long, line,",
        " of, code)",
        "",
    ]


def test_a_narrower_terminal_leaves_no_debris() -> None:
    """The rows that were broken by it are all taken away."""
    screen = Played(40)
    screen.line("before")
    screen.show(Rows((("status " * 5, ""), ("> " + "x" * 30, "")), 1, 32))
    glass = Glass(20)
    for text in ("before", ("status " * 5).rstrip(), "> " + "x" * 30):
        glass.write(text + "\r\n")
    glass.row -= 1
    glass.column = 12
    screen.glass = glass
    screen.show(Rows((("> y", ""),), 0, 3))
    assert screen.glass.text() == ["before", "> y"]


def test_what_is_written_while_another_program_draws_comes_later() -> None:
    """Nothing is sent to the terminal meanwhile, and nothing is lost."""
    screen = Played()
    screen.show(Rows((("> x", ""),), 0, 3))
    with screen.away():
        assert screen.glass.text() == [""]
        screen.line("news")
        assert screen.glass.text() == [""]
    screen.show(Rows((("> x", ""),), 0, 3))
    assert screen.glass.text() == ["news", "> x"]


@given(
    st.text(st.sampled_from("ab \n\t日👍\u200d\ufe0f🏽🇩\u0301ह\u093fन\u094d\x1b"), max_size=80),
    st.integers(10, 60),
    st.integers(1, 6),
)
def test_rows_fit_and_show_the_cursor(text: str, columns: int, height: int) -> None:
    """No row is wider than the terminal, no more are given than fit, the cursor is in one; they are
    drawn as they are measured.
    """
    rows = lay_out(Editor(Buffer(text, len(text))), "> ", columns, height)
    assert all(drawable(row) == row for row, _ in rows.rows)
    assert rows.column == cells(rows.rows[rows.row][0])
    assert all(cells(row) < columns for row, _ in rows.rows)
    assert len(rows.rows) <= height
    assert 0 <= rows.row < len(rows.rows)
    assert rows.column < columns


@given(st.integers(10, 60), st.text("ab ", max_size=30))
def test_a_long_prompt_is_broken_between_words(columns: int, text: str) -> None:
    """What can be answered is never cut off, however narrow the terminal is."""
    prompt = "[main/fork-1] Bash: [y]es, [s]ession, [a]lways, [n]o, or why not: "
    rows = lay_out(Editor(Buffer(text, len(text))), prompt, columns, 50)
    shown = "".join(row for row, _ in rows.rows)
    assert shown.replace(" ", "") == (prompt + text).replace(" ", "")
    assert all(cells(row) < columns for row, _ in rows.rows)
    assert rows.column == cells(rows.rows[rows.row][0])


SOURCES = Sources(commands={"mode": "how", "model": "which"}, values={}, files=("a.py",))


def pressed(editor: Editor, *keys: str | KeyPress) -> tuple[Editor, list[str]]:
    deeds: list[str] = []
    for key in keys:
        press = key if isinstance(key, KeyPress) else KeyPress(key)
        editor, deed = editor.press(press, SOURCES)
        deeds.append(deed)
    return editor, [deed for deed in deeds if deed]


def test_an_editor_is_led_by_keys() -> None:
    """Typing, completing with a menu, searching and sending, without any terminal."""
    editor, deeds = pressed(Editor(), KeyPress(TEXT, "/mo"), "tab")
    assert (editor.buffer.text, deeds) == ("/mode", [])
    assert editor.menu is not None
    editor, deeds = pressed(editor, "down", "down", "enter")
    assert (editor.buffer.text, editor.menu, deeds) == ("/model ", None, [])
    editor, deeds = pressed(editor, "enter", "ctrl+c", "ctrl+c", "ctrl+d", "escape", "shift+tab")
    assert deeds == ["send", "interrupt", "leave", "escape", "mode"]
    editor, deeds = pressed(editor.sent("earlier words"), "ctrl+r", KeyPress(TEXT, "wor"), "enter")
    assert (editor.buffer.text, deeds) == ("earlier words", ["send"])
    editor, deeds = pressed(editor.sent("x"), KeyPress(TEXT, "draft"), "ctrl+r", "escape")
    assert editor.buffer.text == "draft"
    assert editor.older().buffer.text == "x"
    assert editor.older().newer().buffer.text == "draft"
    editor, deeds = pressed(Editor(), KeyPress(PASTE, "a\r\nb"), "up", "up")
    assert (editor.buffer.text, deeds) == ("a\nb", ["older"])


@pytest.mark.parametrize(
    "keys", [("ctrl+r", "escape"), ("ctrl+c", "ctrl+y"), ("ctrl+a", "ctrl+k", "ctrl+y"), ()]
)
def test_what_was_pasted_comes_back_with_its_label(keys: tuple[str, ...]) -> None:
    """Whoever searches, clears and yanks, or looks at what was said, still sends all of a paste."""
    long = "row\n" * 40
    editor, _ = pressed(Editor().sent("earlier"), KeyPress(PASTE, long), *keys)
    editor = editor.older().newer()
    assert editor.buffer.text == "[pasted 40 lines #1]"
    assert editor.buffer.message().text == long
    assert editor.typed("see [pasted 40 lines #1]").buffer.message().text == f"see {long}"
    editor, _ = pressed(editor.sent(long), KeyPress(PASTE, long))
    assert editor.buffer.text == "[pasted 40 lines #2]"


def test_a_menu_follows_what_is_typed() -> None:
    """Typing and erasing leave in an open menu what the word can become; without any it closes."""

    def texts(editor: Editor) -> list[str]:
        return [] if editor.menu is None else [one.text for one in editor.menu.candidates]

    editor, _ = pressed(Editor(), KeyPress(TEXT, "/"), "tab")
    assert texts(editor) == ["mode", "model"]
    editor, _ = pressed(editor, "down", KeyPress(TEXT, "l"))
    assert (editor.buffer.text, texts(editor), editor.chosen) == ("/model", ["model"], -1)
    editor, _ = pressed(editor, "backspace")
    assert texts(editor) == ["mode", "model"]
    editor, deeds = pressed(editor, "down", "down", "enter")
    assert (editor.buffer.text, deeds) == ("/model ", [])
    editor, _ = pressed(Editor(), KeyPress(TEXT, "/"), "tab", KeyPress(TEXT, "l"), "tab")
    assert (editor.buffer.text, editor.menu) == ("/model ", None)
    editor, _ = pressed(Editor(), KeyPress(TEXT, "/"), "tab", KeyPress(TEXT, "x"))
    assert editor.menu is None


def test_enter_in_a_menu_sends_no_half_word() -> None:
    """With nothing marked Enter takes the first proposal; a word that is one of them is sent."""
    editor, _ = Editor(Buffer("see @a", 6)).press(KeyPress("tab"), Sources(files=("a.py", "ba.py")))
    editor, deeds = pressed(editor, "enter")
    assert (editor.buffer.text, editor.menu, deeds) == ("see @a.py ", None, [])
    editor, deeds = pressed(Editor(), KeyPress(TEXT, "/mo"), "tab", "enter")
    assert (editor.buffer.text, editor.menu, deeds) == ("/mode", None, ["send"])


def test_a_menu_shows_help_and_what_is_marked() -> None:
    """Each proposal has a row, cut to the width, robbed of controls."""
    editor, _ = pressed(Editor(), KeyPress(TEXT, "/mo"), "tab", "down")
    rows = lay_out(editor, "> ", 60, 5).rows
    assert [text for text, _ in rows] == [
        "> /mode",
        "> mode                       how",
        "  model                      which",
    ]
    sources = Sources(commands={"x": "a\x1b[2J\nb", "xy": ""})
    evil, _ = Editor(Buffer("/x", 2)).press(KeyPress("tab"), sources)
    assert "\x1b" not in str(lay_out(evil, "\x1b]0;x\x07> ", 40, 5))
    assert Proposal("x").help == ""


def test_the_time_is_that_of_what_is_being_done() -> None:
    """Neither a message that waits, nor another agent's work, nor a question beside it counts anew;
    it is said as the row of the call says it.
    """
    first = SessionStarted(session_id="s", model="m", cwd="/", tools=(), mode="default")
    fork = AgentStarted(kind="fork", model="m", task_id=TaskId("fork-1"), parent=MAIN)
    sent = RequestSent(request_id=RequestId("r"), model="m", digest="", bytes=1, entries=1)
    begun = ToolStarted(call_id=CallId("c"), name="Bash", arguments="{}", title="make")
    told = [
        (100.0, MAIN, first),
        (100.0, MAIN, AgentStarted(kind="main", model="m")),
        (100.0, MAIN, TurnStarted()),
        (101.0, MAIN, begun),
        (103.0, MAIN, MessageQueued(message_id="1", text="x")),
        (104.0, AgentPath("main/fork-1"), fork),
        (105.0, MAIN, replace(sent, sidecar="aside")),
    ]
    for length in range(4, len(told) + 1):
        envelopes = [Envelope(n, *one) for n, one in enumerate(told[:length], 1)]
        view = fold_all(envelopes)
        assert describe_status(view, 107.7, alone=True) == "· make 6 s"
        assert describe_status(view, 226.0, alone=True) == "· make 2:05"


def test_what_is_being_done_is_said_in_one_line() -> None:
    """The turn with its time, agents with what they do, how far a prompt is read."""

    def told(*events: tuple[str, Event]) -> str:
        first = SessionStarted(session_id="s", model="m", cwd="/", tools=(), mode="default")
        everything = [(MAIN, first), (MAIN, AgentStarted(kind="main", model="m")), *events]
        envelopes = [
            Envelope(0 if isinstance(event, Progressed) else n, 100.0, AgentPath(agent), event)
            for n, (agent, event) in enumerate(everything, 1)
        ]
        return describe_status(fold_all(envelopes), 107.0)

    sent = RequestSent(request_id=RequestId("r"), model="m", digest="", bytes=1, entries=1)
    fork = AgentStarted(kind="fork", model="m", task_id=TaskId("fork-1"), parent=MAIN)
    assert told() == ""
    assert told((MAIN, TurnStarted()), (MAIN, sent)) == "· thinks 7 s · Ctrl+C interrupts"
    assert told(("main/fork-1", fork)) == "· fork-1 waiting"
    long = ToolStarted(call_id=CallId("c"), name="Bash", arguments="{}", title="make " * 30)
    line = told((MAIN, TurnStarted()), (MAIN, long), ("main/fork-1", fork), ("main/fork-1", long))
    assert " 7 s · Ctrl+C interrupts · fork-1 make" in line
    assert len(line.partition("interrupts")[0]) < 70, "what is long hides neither time nor key"
    lost = ReplyDiscarded(request_id=RequestId("r"), why="it is full", retry_in=9.0, attempt=1)
    assert told((MAIN, TurnStarted()), (MAIN, sent), (MAIN, lost)).startswith(
        "· try 2 in 2 s: it is full"
    )
    soon = replace(lost, retry_in=3.0)
    assert told((MAIN, TurnStarted()), (MAIN, sent), (MAIN, soon)).startswith(
        "· try 2, 4 s: it is full"
    )
    bar = Progressed(what="prompt", done=50, total=100)
    assert "reading the prompt [######......] 50 of 100 tokens" in told(
        (MAIN, TurnStarted()), (MAIN, sent), (MAIN, bar)
    )
    assert told((MAIN, MessageQueued(message_id="1", text="x"))) == ""
    assert Usage().input == 0
