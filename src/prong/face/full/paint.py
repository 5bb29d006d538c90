"""Rows as strips of Textual: the one place where our styles become theirs."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from prong.face.draw.row import Row
from prong.face.draw.theme import THEMES, Look, ThemeName, look

_REVERSE = Style(reverse=True)
_WEB = ("https://", "http://")


class Painter:
    """Paints rows in the colours of a theme."""

    def __init__(self, theme: ThemeName) -> None:
        """Use a theme."""
        self._theme = THEMES[theme]
        self._styles: dict[tuple[str, str], Style] = {}

    def strip(
        self,
        row: Row,
        width: int,
        *,
        marked: tuple[int, int] | None = None,
        caret: int | None = None,
    ) -> Strip:
        """Paint a row; `marked` are characters that are selected, `caret` is a cell."""
        found = [Segment(span.text, self._style(span.style, span.link)) for span in row.spans]
        if marked is not None:
            found = _reversed(found, *marked)
        strip = Strip(found).crop_extend(0, width, None)
        if caret is None or caret >= width:
            return strip
        before, at, after = (
            strip.crop(0, caret),
            strip.crop(caret, caret + 1),
            strip.crop(caret + 1),
        )
        return Strip.join([before, at.apply_style(_REVERSE), after])

    def _style(self, name: str, link: str) -> Style:
        found = self._styles.get((name, link))
        if found is None:
            found = _painted(look(self._theme, name), link)
            if not link:
                # Of names there are few; of links there may be any number.
                self._styles[name, link] = found
        return found


def _painted(found: Look, link: str) -> Style:
    return Style(
        color=found.fore or None,
        bgcolor=found.back or None,
        bold=found.bold or None,
        dim=found.dim or None,
        italic=found.italic or None,
        underline=found.underline or None,
        strike=found.strike or None,
        reverse=found.reverse or None,
        link=link if link.startswith(_WEB) else None,
    )


def _reversed(segments: list[Segment], start: int, end: int) -> list[Segment]:
    """Turn the colours of some characters around; an end of -1 is that of the row."""
    found: list[Segment] = []
    place = 0
    for text, style, _ in segments:
        stop = len(text) if end < 0 else max(0, min(len(text), end - place))
        begin = max(0, min(stop, start - place))
        marked = _REVERSE if style is None else style + _REVERSE
        parts = ((text[:begin], style), (text[begin:stop], marked), (text[stop:], style))
        found += [Segment(piece, worn) for piece, worn in parts if piece]
        place += len(text)
    return found
