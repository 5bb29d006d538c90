"""Tables that fit: columns give way in turn, and where none can, each row becomes a list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from prong.face.draw.row import Row, Span, cells, fit, wrap

_NARROWEST = 6
_BETWEEN = Span(" │ ", "dim")

Cell = tuple[Span, ...]


class Table(msgspec.Struct, frozen=True):
    """A table as it was written."""

    head: tuple[Cell, ...]
    body: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()
    """The columns that are set to the right."""


def draw_table(table: Table, width: int) -> list[Row]:
    """Draw a table within a width."""
    sizes = _sizes(table, width)
    if sizes is None:
        return _records(table, width)
    rows = _line(table, table.head, sizes, "strong")
    rule = "─┼─".join("─" * size for size in sizes)
    rows.append(fit([Span(rule, "dim")], width))
    for line in table.body:
        rows += _line(table, line, sizes, "")
    return rows


def _sizes(table: Table, width: int) -> list[int] | None:
    """Give each column its cells; None if they would be too narrow to read."""
    count = len(table.head)
    room = width - 3 * (count - 1)
    wanted = [
        max([1, *(_long(line[place]) for line in (table.head, *table.body) if place < len(line))])
        for place in range(count)
    ]
    if sum(wanted) <= room:
        return wanted
    if room < _NARROWEST * count:
        return None
    # What is short stays whole; the long ones share the rest evenly.
    sizes = [0] * count
    left, open_ = room, sorted(range(count), key=lambda place: wanted[place])
    while open_:
        share = left // len(open_)
        place = open_.pop(0)
        sizes[place] = min(wanted[place], share)
        left -= sizes[place]
    return sizes


def _long(cell: Cell) -> int:
    return sum(cells(span.text) for span in cell)


def _line(table: Table, line: Sequence[Cell], sizes: Sequence[int], style: str) -> list[Row]:
    columns = [
        wrap(_styled(line[place] if place < len(line) else (), style), max(2, size))
        for place, size in enumerate(sizes)
    ]
    rows: list[Row] = []
    for parts in zip_longest(*columns, fillvalue=Row()):
        spans: list[Span] = []
        for place, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            space = Span(" " * max(0, size - part.width))
            around = (space, *part.spans) if place in table.right else (*part.spans, space)
            spans += [_BETWEEN, *around] if place else around
        rows.append(fit(_stripped(spans), sum(sizes) + 3 * (len(sizes) - 1)))
    return rows


def _styled(cell: Cell, style: str) -> Cell:
    if not style:
        return cell
    return tuple(Span(span.text, f"{style} {span.style}".strip(), span.link) for span in cell)


def _stripped(spans: list[Span]) -> list[Span]:
    while spans and not spans[-1].text.strip(" "):
        spans.pop()
    return spans


def _records(table: Table, width: int) -> list[Row]:
    """Draw each row as lines of names and values."""
    rows: list[Row] = []
    for number, line in enumerate(table.body):
        if number:
            rows.append(fit([Span("─" * min(width, 8), "dim")], width))
        for name, value in zip_longest(table.head, line[: len(table.head)], fillvalue=()):
            spans = (*_styled(name, "strong"), Span(": "), *value)
            rows += wrap(spans, width, rest=[Span("  ")])
    return rows
