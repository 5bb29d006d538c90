"""Rows that are made when they are wanted: a megabyte costs nothing before it is seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from prong.face.draw.row import Row, Span, cells, chop, split_lines


class RowSource(Protocol):
    """Something that knows how many rows it has, and gives some of them."""

    def __len__(self) -> int:
        """Count the rows."""
        ...

    def window(self, start: int, end: int) -> Sequence[Row]:
        """Give the rows from a place up to another."""
        ...


class Drawn:
    """Rows that are there already."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold rows."""
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def window(self, start: int, end: int) -> Sequence[Row]:
        """Give the rows from a place up to another."""
        return self._rows[start:end]


class Plain:
    """A text as it is, broken where the room ends; only what is seen of it is drawn."""

    __slots__ = ("_lead", "_lines", "_starts", "_style", "_width")

    def __init__(self, text: str, width: int, *, lead: Span, style: str = "") -> None:
        """Measure a text."""
        self._lines = split_lines(text)
        self._width, self._lead, self._style = width, lead, style
        room = max(2, width - cells(lead.text))
        self._starts: list[int] | None = None
        if any(len(line) > room or not line.isascii() for line in self._lines):
            heights = (self._height(line, room) for line in self._lines)
            self._starts = [0, *accumulate(heights)]

    def __len__(self) -> int:
        return len(self._lines) if self._starts is None else self._starts[-1]

    def window(self, start: int, end: int) -> list[Row]:
        """Draw the rows from a place up to another."""
        start, end = max(0, start), min(end, len(self))
        if start >= end:
            return []
        if self._starts is None:
            return [row for line in self._lines[start:end] for row in self._draw(line)]
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1)
        rows = [row for line in self._lines[first:last] for row in self._draw(line)]
        skipped = start - self._starts[first]
        return rows[skipped : skipped + end - start]

    def _height(self, line: str, room: int) -> int:
        if line.isascii():
            return -(-len(line) // room) or 1
        return len(self._draw(line))

    def _draw(self, line: str) -> list[Row]:
        spans = [Span(line, self._style)]
        return chop(spans, self._width, first=[self._lead], rest=[self._lead])


class Stack:
    """Rows above each other, of several kinds."""

    __slots__ = ("_parts", "_starts")

    def __init__(self, *parts: RowSource) -> None:
        """Put parts above each other."""
        self._parts = parts
        self._starts = [0, *accumulate(len(part) for part in parts)]

    def __len__(self) -> int:
        return self._starts[-1]

    def window(self, start: int, end: int) -> list[Row]:
        """Give the rows from a place up to another."""
        found: list[Row] = []
        for part, begin in zip(self._parts, self._starts, strict=False):
            if begin < end and begin + len(part) > start:
                found += part.window(max(0, start - begin), min(len(part), end - begin))
        return found
