"""Rows with the codes of a terminal, for output that is only written and never drawn over."""

from __future__ import annotations

from prong.face.draw.row import Row
from prong.face.draw.theme import THEMES, Look, look

_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_MARKS = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}


def styled(row: Row) -> str:
    """Give a row in the terminal's own colours; its text is clean, so it has no other codes."""
    pieces = ((span.text, _codes(look(THEMES["ansi"], span.style))) for span in row.spans)
    painted = (f"\x1b[{codes}m{text}\x1b[0m" if codes else text for text, codes in pieces)
    return "".join(painted).rstrip(" ")


def _codes(found: Look) -> str:
    codes = [code for name, code in _MARKS.items() if getattr(found, name)]
    codes += [_colour(one, ground) for one, ground in ((found.fore, 0), (found.back, 10)) if one]
    return ";".join(codes)


def _colour(colour: str, ground: int) -> str:
    """Give the code of a colour; that of a background is ten higher."""
    if colour.startswith("#"):
        red, green, blue = bytes.fromhex(colour[1:])
        return f"{38 + ground};2;{red};{green};{blue}"
    bright, name = colour.startswith("bright_"), colour.removeprefix("bright_")
    return str(_COLOURS.index(name) + (90 if bright else 30) + ground)
