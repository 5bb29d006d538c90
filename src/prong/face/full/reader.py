"""Which conversation is read, from where on, and what of it is unfolded."""

from __future__ import annotations

from collections import OrderedDict

from prong.event import MAIN
from prong.face.draw.header import draw_hints
from prong.face.draw.item import is_foldable
from prong.face.draw.row import Row, Span
from prong.face.draw.transcript import Excerpt, Transcript
from prong.ids import AgentPath
from prong.view import AgentView, View

_KEPT = 4
"""Conversations that stay drawn when others are looked at."""


class ConversationReader:
    """Reads one agent's conversation; at its end new rows come into sight by themselves."""

    def __init__(self) -> None:
        """Read the main agent's, at its end."""
        self.path = MAIN
        self.cursor: int | None = None
        """The item that is marked, if the keys are for the conversation."""
        self._transcripts: OrderedDict[str, Transcript] = OrderedDict()
        self._unfolded: dict[str, frozenset[int]] = {}
        self._top: int | None = None
        """The first row in sight; None at the end."""
        self._window = Excerpt((), 0, 0)
        self._height = 1

    @property
    def below(self) -> int:
        """How many rows there are below what is in sight."""
        return max(0, self._window.total - self._window.top - len(self._window.rows))

    def open(self, path: AgentPath) -> None:
        """Read another agent's conversation, from its end."""
        if path != self.path:
            self.path, self._top, self.cursor = path, None, None

    def show(self, view: View, width: int, height: int, now: float) -> tuple[list[Row], int]:
        """Give the rows in sight, and the number of the first."""
        transcript = self._transcript()
        unfolded = self._unfolded.get(self.path, frozenset())
        transcript.show(view, max(10, width), now=now, unfolded=unfolded)
        self._height = height
        if not transcript.total and self.path == MAIN:
            return draw_hints(view, width), 0
        if self._top is None:
            self._window = transcript.bottom(height)
        else:
            self._window = transcript.window(self._top, height)
            self._top = self._window.top if self.below else None
        rows = list(self._window.rows)
        if self.cursor is not None:
            line = transcript.row_of(self.cursor) - self._window.top
            for place in range(max(0, line), len(rows)):
                if (
                    rows[place].spans
                    and transcript.item_at(self._window.top + place) == self.cursor
                ):
                    rows[place] = _marked(rows[place])
                    break
        return rows, self._window.top

    def roll(self, step: int) -> None:
        """Go so many rows down, or up."""
        top = self._window.top + step
        at_end = top + self._height >= self._window.total
        self._top = None if at_end and step > 0 else max(0, top)

    def turn(self, step: int) -> None:
        """Go a page down, or up."""
        self.roll(step * max(1, self._height - 2))

    def end(self) -> None:
        """Go to the end."""
        self._top = None

    def press(self, line: int) -> bool:
        """Fold or unfold what stands on a line in sight; says whether anything does."""
        item = self._transcript().item_at(self._window.top + line)
        if item is None or line >= len(self._window.rows):
            return False
        self._fold(item)
        return True

    def fold_marked(self) -> None:
        """Fold or unfold what is marked."""
        if self.cursor is not None:
            self._fold(self.cursor)

    def mark(self, view: View, step: int) -> None:
        """Mark the next thing that can be unfolded, up or down; the first time the last one."""
        agent = view.agents.get(self.path) or AgentView(path=self.path)
        items = agent.transcript
        start = len(items) if self.cursor is None else self.cursor
        if self.cursor is None:
            step = -1
        place = start + step
        while 0 <= place < len(items):
            if is_foldable(items[place]):
                self.cursor = place
                self._reveal(place)
                return
            place += step
        if self.cursor is None and len(items):
            self.cursor = len(items) - 1

    def unmark(self) -> None:
        """Mark nothing."""
        self.cursor = None

    def _reveal(self, item: int) -> None:
        row = self._transcript().row_of(item)
        last = self._window.top + self._height - 2
        if not self._window.top <= row < last:
            self._top = max(0, row - self._height // 2)

    def _fold(self, item: int) -> None:
        unfolded = self._unfolded.get(self.path, frozenset())
        self._unfolded[self.path] = unfolded ^ {item}
        # What is looked at stays where it is; only at the end would it be pushed out of sight.
        if self._top is None and item not in unfolded:
            self._top = self._window.top

    def _transcript(self) -> Transcript:
        found = self._transcripts.pop(self.path, None) or Transcript(self.path)
        self._transcripts[self.path] = found
        while len(self._transcripts) > _KEPT:
            self._transcripts.popitem(last=False)
        return found


def _marked(row: Row) -> Row:
    spans = tuple(
        Span(span.text, f"{span.style} selected".strip(), span.link) for span in row.spans
    )
    return Row(spans, row.lead, row.glue, row.key)
