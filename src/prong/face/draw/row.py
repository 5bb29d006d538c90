"""Rows of styled text: how wide they are, and how text is broken into them.

A row holds what a terminal shows on one line. Its text is clean by construction: a `Span` takes
away control characters, so nobody who draws can forget it. Widths are counted in cells, and no wide
character is ever cut in two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from prong.face.cell import cell, cells
from prong.face.output import drawable

_TAB = 4
_SPACES = re.compile(r" *")


class Span(msgspec.Struct, frozen=True, gc=False):
    """A piece of text in one style."""

    text: str
    style: str = ""
    """Names of a theme with spaces between them; a later one prevails."""
    link: str = ""
    """Where a press on it leads, for terminals that know links."""

    def __post_init__(self) -> None:
        """Keep what could move the cursor or hide text out of every row."""
        if not (self.text.isascii() and self.text.isprintable()):
            msgspec.structs.force_setattr(self, "text", drawable(self.text))
        if self.link and not (self.link.isascii() and self.link.isprintable()):
            msgspec.structs.force_setattr(self, "link", "")


class Row(msgspec.Struct, frozen=True):
    """One line of a screen."""

    spans: tuple[Span, ...] = ()
    lead: int = 0
    """Cells at its beginning that are ornament: what is copied begins behind them."""
    glue: str | None = None
    """If it goes on with the line above, which was too long: what stood between the two."""
    key: str = ""
    """What a press on it concerns: an agent's path, a task, a request; empty for nothing."""

    @property
    def text(self) -> str:
        """What it reads, without styles."""
        return "".join(span.text for span in self.spans)

    @property
    def width(self) -> int:
        """How many cells it takes."""
        return sum(cells(span.text) for span in self.spans)


EMPTY = Row()
"""A row with nothing in it."""


def split_lines(text: str) -> list[str]:
    """Cut a text into lines, tabs expanded."""
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [line.expandtabs(_TAB) if "\t" in line else line for line in lines]


def wrap(
    spans: Iterable[Span],
    width: int,
    *,
    first: Sequence[Span] = (),
    rest: Sequence[Span] = (),
    key: str = "",
) -> list[Row]:
    """Break a line between words; `first` stands before the first row, `rest` before the others."""
    return _broken(spans, width, (first, rest), key, words=True)


def chop(
    spans: Iterable[Span],
    width: int,
    *,
    first: Sequence[Span] = (),
    rest: Sequence[Span] = (),
    key: str = "",
) -> list[Row]:
    """Break a line wherever the room ends; every space is kept, as code wants it."""
    return _broken(spans, width, (first, rest), key, words=False)


def fit(spans: Iterable[Span], width: int, *, key: str = "", lead: int = 0) -> Row:
    """Make one row; what does not fit is cut off, and an ellipsis says so."""
    kept: list[Span] = []
    room = max(0, width)
    for span in spans:
        size = cells(span.text)
        if size > room:
            _cut(kept, span, room)
            break
        kept.append(span)
        room -= size
    return Row(_merged(kept), min(lead, max(0, width)), key=key)


_ASCII = str.maketrans("●◐○✗·├└│─┼⋮…▸▾•◦▪→»", "@*ox.|`|-+:~>v*-+>>")


def in_ascii(row: Row) -> Row:
    """Draw our own signs with letters that every terminal has, in the same cells."""
    spans = (Span(span.text.translate(_ASCII), span.style, span.link) for span in row.spans)
    return msgspec.structs.replace(row, spans=tuple(spans))


def copied(rows: Iterable[Row]) -> str:
    """Give the text of rows as it was before it was broken and adorned."""
    lines: list[str] = []
    for row in rows:
        text = row.text
        own = text[_reach(text, 0, row.lead) :]
        if row.glue is not None and lines:
            lines[-1] += row.glue + own
        else:
            lines.append(own)
    return "\n".join(line.rstrip() for line in lines)


def pad(row: Row, width: int, style: str = "") -> Row:
    """Fill a row up with spaces."""
    missing = width - row.width
    if missing <= 0:
        return row
    return msgspec.structs.replace(row, spans=(*row.spans, Span(" " * missing, style)))


def crop(text: str, width: int) -> str:
    """Cut a text to a number of cells; an ellipsis says that something is missing."""
    return fit([Span(text)], width).text


def crop_left(text: str, width: int) -> str:
    """Cut a text from the other end: of a path the last part says most."""
    text = drawable(text)
    if cells(text) <= width:
        return text
    clusters = list(_clusters(text))
    kept: list[str] = []
    room = width - 1
    for cluster in reversed(clusters):
        room -= cells(cluster)
        if room < 0:
            break
        kept.append(cluster)
    return "…" + "".join(reversed(kept)) if width > 0 else ""


def _cut(kept: list[Span], span: Span, room: int) -> None:
    """Add what fits of a span before an ellipsis; makes room for it where there is none."""
    while room < 1 and kept:
        last = kept.pop()
        span, room = last, cells(last.text)
    if room < 1:
        return
    end = _reach(span.text, 0, room - 1)
    kept.append(msgspec.structs.replace(span, text=span.text[:end].rstrip() + "…"))


def _broken(
    spans: Iterable[Span],
    width: int,
    leads: tuple[Sequence[Span], Sequence[Span]],
    key: str,
    *,
    words: bool,
) -> list[Row]:
    whole = tuple(span for span in spans if span.text)
    text = "".join(span.text for span in whole)
    leads = (_narrowed(leads[0], width), _narrowed(leads[1], width))
    sizes = [sum(cells(span.text) for span in lead) for lead in leads]
    rooms = (max(2, width - sizes[0]), max(2, width - sizes[1]))
    cuts = _word_cuts(text, rooms) if words else _cell_cuts(text, rooms)
    rows: list[Row] = []
    last = 0
    for number, (start, end) in enumerate(cuts):
        later = number > 0
        lead = leads[later]
        piece = whole if start == 0 and end == len(text) else _sliced(whole, start, end)
        glue = text[last:start] if later else None
        rows.append(Row(_merged((*lead, *piece)), sizes[later], glue, key))
        last = end
    return rows


def _narrowed(lead: Sequence[Span], width: int) -> Sequence[Span]:
    """Leave an ornament out where it would leave no room for the text."""
    return lead if sum(cells(span.text) for span in lead) <= width - 2 else ()


def _cell_cuts(text: str, rooms: tuple[int, int]) -> list[tuple[int, int]]:
    cuts: list[tuple[int, int]] = []
    start, room = 0, rooms[0]
    while True:
        end = _reach(text, start, room)
        cuts.append((start, end))
        if end >= len(text):
            return cuts
        start, room = end, rooms[1]


def _word_cuts(text: str, rooms: tuple[int, int]) -> list[tuple[int, int]]:
    if len(text) <= rooms[0] and text.isascii():
        return [(0, len(text))]
    cuts: list[tuple[int, int]] = []
    start, room = 0, rooms[0]
    while True:
        end = _reach(text, start, room)
        if end >= len(text):
            cuts.append((start, len(text)))
            return cuts
        place = _break_before(text, start, end)
        cuts.append((start, start + len(text[start:place].rstrip(" "))))
        found = _SPACES.match(text, place)
        start, room = found.end() if found else place, rooms[1]
        if start >= len(text):
            return cuts


def _break_before(text: str, start: int, end: int) -> int:
    """Find the last place up to `end` where a line may end."""
    if text[end] == " ":
        return end
    for place in range(end, start, -1):
        before = text[place - 1]
        if before == " ":
            # Not in the indentation: that would leave a row empty.
            return place if text[start:place].strip(" ") else end
        if before > "\u1100" and cell(before) > 1 and cell(text[place]):
            return place
    return end


def _reach(text: str, start: int, room: int) -> int:
    """Say how far a text goes from a place within so many cells."""
    end = min(len(text), start + max(0, room))
    if text.isascii():
        return end
    sizes = set(map(cell, text[start : end + 1]))
    if sizes <= {1}:
        return end
    place, left = start, room
    while place < len(text):
        left -= cell(text[place])
        if left < 0:
            break
        place += 1
    return place


def _clusters(text: str) -> Iterator[str]:
    """Give characters with the marks that combine with them."""
    begin = 0
    for place in range(1, len(text)):
        if cell(text[place]):
            yield text[begin:place]
            begin = place
    if text:
        yield text[begin:]


def _sliced(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    found: list[Span] = []
    place = 0
    for span in spans:
        after = place + len(span.text)
        if after > start and place < end:
            text = span.text[max(0, start - place) : end - place]
            found.append(span if len(text) == len(span.text) else Span(text, span.style, span.link))
        place = after
        if place >= end:
            break
    return found


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbours of one style."""
    found: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if found and (found[-1].style, found[-1].link) == (span.style, span.link):
            found[-1] = Span(found[-1].text + span.text, span.style, span.link)
        else:
            found.append(span)
    return tuple(found)
