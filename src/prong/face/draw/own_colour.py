"""Text with colours of its own, as another program printed it, made rows of ours.

Of all that a terminal can be told only looks are taken over: colours, bold and the like. Everything
else, from moving the cursor to naming the window, is taken away whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prong.face.draw.row import Row, Span, fit
from prong.face.draw.theme import OWN
from prong.foreign_number import whole_number

_CODE = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_CUBE = (0, 95, 135, 175, 215, 255)
_NAMED, _CUBED, _PALETTE = 16, 232, 256


def own_rows(text: str, width: int, *, most: int, indent: int = 0) -> tuple[Row, ...]:
    """Give the rows of a text, each cut to the width; empty lines at its ends are left out."""
    if not _CODE.sub("", text).strip():
        return ()
    lines = text.replace("\r\n", "\n").strip("\r\n").split("\n")[:most]
    lead = Span(" " * min(indent, max(0, width - 1)))
    return tuple(fit([lead, *_spans(line)], width) for line in lines)


def _spans(line: str) -> Iterator[Span]:
    worn: dict[str, str] = {}
    place = 0
    for found in _CODE.finditer(line):
        yield Span(line[place : found.start()].expandtabs(4), " ".join(worn.values()))
        place = found.end()
        if found["sgr"] is not None:
            _wear(worn, found["sgr"])
    yield Span(line[place:].expandtabs(4), " ".join(worn.values()))


def _wear(worn: dict[str, str], codes: str) -> None:
    """Put on and take off what a code says."""
    numbers = [whole_number(one) or 0 for one in re.split("[;:]", codes)]
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            worn.clear()
        elif number in _ON:
            worn[_ON[number]] = f"{OWN}.{_ON[number]}"
        elif number in _OFF:
            for name in _OFF[number]:
                worn.pop(name, None)
        elif number in {38, 48}:
            _dye(worn, "fore" if number == 38 else "back", _mixed(numbers))
        elif number in {39, 49}:
            worn.pop("fore" if number == 39 else "back", None)
        else:
            _named(worn, number)


def _named(worn: dict[str, str], number: int) -> None:
    for first, layer, bright in (
        (30, "fore", ""),
        (40, "back", ""),
        (90, "fore", "bright_"),
        (100, "back", "bright_"),
    ):
        if first <= number < first + len(_NAMES):
            _dye(worn, layer, bright + _NAMES[number - first])


def _dye(worn: dict[str, str], layer: str, colour: str) -> None:
    if colour:
        worn[layer] = f"{OWN}.{layer}.{colour}"


def _mixed(numbers: list[int]) -> str:
    """Read a colour of the palette or of three parts, and take it off the codes."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return _of_palette(numbers.pop(0))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(255, numbers.pop(0)) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    return ""


def _of_palette(number: int) -> str:
    if number < _NAMED:
        return ("bright_" if number >= len(_NAMES) else "") + _NAMES[number % len(_NAMES)]
    if number < _CUBED:
        parts = divmod(number - _NAMED, 36)
        red, (green, blue) = parts[0], divmod(parts[1], 6)
        return f"#{_CUBE[red]:02x}{_CUBE[green]:02x}{_CUBE[blue]:02x}"
    grey = 8 + 10 * (number - _CUBED)
    return f"#{grey:02x}{grey:02x}{grey:02x}" if number < _PALETTE else ""
