"""A rectangle of rows: the only kind of widget there is."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from prong.face.draw.row import EMPTY, Row, Span, copied
from prong.face.full.paint import Painter


class Board(Widget, can_focus=False):
    """Shows rows, and repaints those that have changed."""

    ALLOW_SELECT = False

    class Pressed(Message):
        """A row was clicked."""

        def __init__(self, board: Board, line: int, row: Row) -> None:
            """Say which."""
            super().__init__()
            self.board = board
            self.line = line
            self.row = row

    class Rolled(Message):
        """The wheel was turned over a board."""

        def __init__(self, board: Board, step: int) -> None:
            """Say by how much, down being positive."""
            super().__init__()
            self.board = board
            self.step = step

    def __init__(self, painter: Painter, name: str) -> None:
        """Paint with a painter."""
        super().__init__(id=name)
        self._painter = painter
        self._placed = Region(0, 0, 0, 0)
        self._caret: tuple[int, int] | None = None
        self.rows: tuple[Row, ...] = ()

    def place(self, region: Region) -> None:
        """Stand somewhere on the screen."""
        if region == self._placed:
            return
        self._placed = region
        self.styles.offset = (region.x, region.y)
        self.styles.width, self.styles.height = region.width, region.height

    def put(self, rows: Sequence[Row], caret: tuple[int, int] | None = None) -> None:
        """Show rows from now on; a caret is a line and a cell."""
        before, self.rows = self.rows, tuple(rows)
        old, self._caret = self._caret, caret
        changed = {place[0] for place in (old, caret) if place is not None and old != caret}
        for line in range(max(len(before), len(self.rows))):
            if before[line : line + 1] != self.rows[line : line + 1]:
                changed.add(line)
        width = self._placed.width
        if changed:
            self.refresh(*(Region(0, line, width, 1) for line in changed))

    def render_line(self, y: int) -> Strip:
        """Paint a line."""
        row = self.rows[y] if y < len(self.rows) else EMPTY
        caret = self._caret[1] if self._caret is not None and self._caret[0] == y else None
        return self._painter.strip(row, self.size.width, caret=caret)

    def on_click(self, event: events.Click) -> None:
        """Tell which row was clicked."""
        # Two clicks would select everything.
        event.prevent_default()
        row = self.rows[event.y] if event.y < len(self.rows) else EMPTY
        self.post_message(Board.Pressed(self, event.y, row))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go up."""
        event.stop()
        self.post_message(Board.Rolled(self, -1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go down."""
        event.stop()
        self.post_message(Board.Rolled(self, 1))


class Page(Board):
    """Rows of something longer, which can be selected with the mouse."""

    ALLOW_SELECT = True

    def __init__(self, painter: Painter, name: str) -> None:
        """Paint with a painter."""
        super().__init__(painter, name)
        self._top = 0

    def turn(self, rows: Sequence[Row], top: int) -> None:
        """Show rows, the first of which has a number."""
        moved, self._top = top != self._top, top
        self.put(rows)
        if moved:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Paint a line, with what is selected of it."""
        row = self.rows[y] if y < len(self.rows) else EMPTY
        selection = self.text_selection
        marked = None if selection is None else selection.get_span(self._top + y)
        strip = self._painter.strip(row, self.size.width, marked=marked)
        return strip.apply_offsets(0, self._top + y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Give the text that is selected, as it was before it was broken into rows."""
        found: list[Row] = []
        for line, row in enumerate(self.rows, self._top):
            span = selection.get_span(line)
            if span is not None:
                found.append(_part(row, *span))
        text = copied(found)
        return (text, "\n") if text.strip() else None


def _part(row: Row, start: int, end: int) -> Row:
    """Give the part of a row between two characters; an end of -1 is that of the row."""
    text = row.text[start:] if end < 0 else row.text[start:end]
    return Row((Span(text),), max(0, row.lead - start), None if start else row.glue)
