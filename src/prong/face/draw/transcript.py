"""An agent's conversation as rows, of which only those that are seen are drawn.

Heights of items that nobody has seen are guessed. An item is drawn when a window reaches it, and
its height is right from then on. What is measured lies at the top of a window or below, so the rows
that the reader sees do not move; where a window reaches up into an item for the first time, it is
held by the item's end, and `Excerpt.top` says where the reader now is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from prong.face.draw.height import Heights
from prong.face.draw.item import Setting, draw_item, draw_reply, draw_thinking, guess_height
from prong.face.draw.markdown import Flow
from prong.face.draw.row import EMPTY, Row, Span, fit
from prong.face.draw.stack import Drawn, RowSource, Stack
from prong.face.draw.toolcall import Company, StartedAgent
from prong.ids import AgentPath
from prong.view import AgentView, Called, Item, Live, Replied, Series, View

_HELD = 6_000
"""Drawn rows that are held; those seen longest ago are drawn again when they are wanted."""


class Excerpt(msgspec.Struct, frozen=True):
    """A part of a conversation."""

    rows: tuple[Row, ...]
    top: int
    """The number of its first row."""
    total: int
    """How many rows there are in all, as far as is known."""


class Transcript:
    """Draws one agent's conversation."""

    def __init__(self, path: str) -> None:
        """Draw the conversation of the agent at a path."""
        self._path = path
        self._width = 0
        self._now = 0.0
        self._items: Series[Item] = Series()
        self._unfolded: frozenset[int] = frozenset()
        self._heights = Heights()
        self._drawn: OrderedDict[int, RowSource] = OrderedDict()
        self._held = 0
        self._calls: dict[str, int] = {}
        self._moving: dict[int, Company] = {}
        self._flow = Flow(0)
        self._live: RowSource = Drawn([])

    def show(self, view: View, width: int, *, now: float, unfolded: frozenset[int]) -> None:
        """Take in how things are: what has changed will be drawn anew, and nothing else."""
        agent = view.agents.get(self._path) or AgentView(path=AgentPath(self._path))
        self._now = now
        if width != self._width or len(agent.transcript) < len(self._items):
            self._start(agent.transcript, width, unfolded)
        else:
            self._change(agent.transcript, unfolded)
        self._follow(view, agent)
        self._live = self._draw_live(agent)

    @property
    def total(self) -> int:
        """How many rows there are, as far as is known."""
        return self._heights.total + len(self._live)

    def window(self, top: int, height: int) -> Excerpt:
        """Give so many rows from one on; at the end the last ones."""
        if top >= self.total - height:
            return self.bottom(height)
        index, place = self._heights.find(max(0, top))
        if index < len(self._heights):
            guessed = self._heights[index]
            place += self._measure(index) - guessed
            while place < 0 and index > 0:
                index -= 1
                place += self._measure(index)
            place = max(0, place)
        rows: list[Row] = []
        start = self._heights.start(index) + place
        while len(rows) < height and index < len(self._heights):
            drawn = self._rows(index)
            rows += drawn.window(place, place + height - len(rows))
            index, place = index + 1, 0
        if len(rows) < height:
            rows += self._live.window(place, place + height - len(rows))
        if len(rows) < height:
            return self.bottom(height)
        return Excerpt(tuple(rows), start, self.total)

    def bottom(self, height: int) -> Excerpt:
        """Give the last rows."""
        parts: list[Sequence[Row]] = [self._live.window(max(0, len(self._live) - height), 1 << 60)]
        missing = height - len(parts[0])
        index = len(self._heights)
        while missing > 0 and index > 0:
            index -= 1
            drawn = self._rows(index)
            size = len(drawn)
            parts.append(drawn.window(max(0, size - missing), size))
            missing -= len(parts[-1])
        rows = tuple(row for part in reversed(parts) for row in part)
        return Excerpt(rows, self.total - len(rows), self.total)

    def item_at(self, row: int) -> int | None:
        """Say to which item a row belongs; None if to none, or to what is still being written."""
        index, _ = self._heights.find(row)
        return index if row >= 0 and index < len(self._heights) else None

    def row_of(self, item: int) -> int:
        """Say where an item begins, as far as is known."""
        return self._heights.start(item)

    def _start(self, items: Series[Item], width: int, unfolded: frozenset[int]) -> None:
        """Begin anew, with guesses alone."""
        self._items, self._width, self._unfolded = items, width, unfolded
        self._drawn.clear()
        self._held = 0
        self._heights = Heights([guess_height(item, width) for item in items])
        for index in unfolded:
            if index < len(items):
                self._heights.put(index, guess_height(items[index], width, unfolded=True))
        self._calls = {}
        self._flow.resize(width)

    def _change(self, items: Series[Item], unfolded: frozenset[int]) -> None:
        changed = set(items.differing(self._items)) if items is not self._items else set[int]()
        changed |= {index for index in unfolded ^ self._unfolded if index < len(items)}
        self._items, self._unfolded = items, unfolded
        for index in sorted(changed):
            item = items[index]
            if isinstance(item, Called):
                self._calls[item.call_id] = index
            seen = self._forget(index)
            guess = guess_height(item, self._width, unfolded=index in unfolded)
            self._heights.put(index, guess)
            if seen:
                self._measure(index)

    def _follow(self, view: View, agent: AgentView) -> None:
        """Look after calls that go on: time passes, output comes, children do something."""
        children = {child.call_id: child for child in view.children(self._path) if child.call_id}
        before, self._moving = self._moving, {}
        outputs = (agent.live or Live()).outputs
        self._calls |= agent.open_calls
        if unknown := children.keys() - self._calls.keys():
            # A call that is not in the transcript is sought once.
            self._calls = dict.fromkeys(unknown, -1) | {
                item.call_id: n for n, item in enumerate(self._items) if isinstance(item, Called)
            }
        for call_id in {**agent.open_calls, **children}:
            index = self._calls[call_id]
            if index >= 0:
                child = children.get(call_id)
                known = None if child is None else StartedAgent.of(child)
                ended = known is not None and known.ended_at is not None
                now = 0 if ended else int(self._now)
                self._moving[index] = Company(now, known, outputs.get(call_id, ""))
        for index in {*before, *self._moving}:
            if before.get(index) != self._moving.get(index) and self._forget(index):
                self._measure(index)

    def _setting(self, index: int) -> Setting:
        company = self._moving.get(index, Company())
        return Setting(self._width, index == 0, index in self._unfolded, company)

    def _measure(self, index: int) -> int:
        return len(self._rows(index))

    def _rows(self, index: int) -> RowSource:
        """Draw an item, or give it as it was drawn; from then on its height is known."""
        found = self._drawn.get(index)
        if found is not None:
            self._drawn.move_to_end(index)
            return found
        item, setting = self._items[index], self._setting(index)
        if isinstance(item, Replied) and item.text and self._flow.text == item.text:
            found = draw_reply(item, setting, self._flow.finish())
        else:
            found = draw_item(item, setting)
        self._drawn[index] = found
        self._held += len(found)
        self._heights.put(index, len(found))
        self._let_go()
        return found

    def _forget(self, index: int) -> bool:
        """Let go of an item's rows; says whether there were any."""
        found = self._drawn.pop(index, None)
        if found is not None:
            self._held -= len(found)
        return found is not None

    def _let_go(self) -> None:
        while self._held > _HELD and len(self._drawn) > 1:
            _, rows = self._drawn.popitem(last=False)
            self._held -= len(rows)

    def _draw_live(self, agent: AgentView) -> RowSource:
        """Draw what is being said at this moment."""
        live = agent.live
        if live is None or not (live.text or live.thinking or live.writing or live.progress):
            return Drawn([])
        setting = Setting(self._width, first=not self._items)
        above: list[Row] = [] if setting.first else [EMPTY]
        if live.thinking:
            above += draw_thinking(live.thinking, setting)
        done: Sequence[Row] = []
        tail: Sequence[Row] = []
        if live.text:
            done, tail = self._flow.show(live.text)
        doing = _doing(live)
        below = [fit([Span(f"◐ {doing}", "dim")], self._width)] if doing else []
        return Stack(Drawn(above), Drawn(done), Drawn(tail), Drawn(below))


def _doing(live: Live) -> str:
    if live.progress is not None:
        what, done, total = live.progress
        name = "loading the model" if what == "load" else "reading the prompt"
        return f"{name}, {done / total:.0%}" if total else name
    if live.writing:
        return f"writes {live.writing}"
    return "" if live.text else "thinks"


def rows_of(transcript: Transcript) -> list[Row]:
    """Draw everything, as for a copy into scrollback."""
    return list(transcript.bottom(1 << 40).rows)
