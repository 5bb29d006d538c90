"""What styles look like: on dark and light ground, in sixteen colours, and in none.

A style is a name, or several with spaces between them. A name that a theme does not have is looked
up without its last part, so `code.keyword` is drawn as `code` where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import convert
from msgspec.structs import replace


class Look(msgspec.Struct, frozen=True):
    """How text is drawn; a colour is a name of the sixteen, or `#rrggbb`, or empty."""

    fore: str = ""
    back: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    reverse: bool = False


Theme: TypeAlias = Mapping[str, Look]
ThemeName: TypeAlias = Literal["dark", "light", "ansi", "none"]

_BOLD, _DIM = Look(bold=True), Look(dim=True)

_SHAPES: dict[str, Look] = {
    "bold": _BOLD,
    "dim": _DIM,
    "strong": _BOLD,
    "em": Look(italic=True),
    "struck": Look(strike=True),
    "heading": _BOLD,
    "heading.1": Look(bold=True, underline=True),
    "link": Look(underline=True),
    "link.address": _DIM,
    "quote": _DIM,
    "bad": _BOLD,
    "asks": _BOLD,
    "user": _BOLD,
    "badge": Look(reverse=True),
    "key": _BOLD,
    "selected": Look(reverse=True),
    "code.inline": _BOLD,
    "code.comment": _DIM,
    "code.keyword": _BOLD,
    "diff.file": _BOLD,
    "diff.same": _DIM,
    "diff.add": _BOLD,
    "diff.word": Look(underline=True),
    "thinking": Look(dim=True, italic=True),
}
"""What is there without any colour; no meaning is carried by colour alone."""


def _coloured(colours: Mapping[str, str], grounds: Mapping[str, str]) -> dict[str, Look]:
    """Add colours to the shapes; where a colour tells a thing apart, bold need not."""
    found = dict(_SHAPES)
    for name, colour in colours.items():
        known = found.get(name, Look())
        bold = known.bold and name not in {"diff.add", "code.inline", "code.keyword"}
        found[name] = replace(known, fore=colour, bold=bold, dim=False)
    for name, colour in grounds.items():
        found[name] = replace(found.get(name, Look()), back=colour, underline=False)
    return found


_ANSI = {
    "good": "green",
    "bad": "red",
    "asks": "yellow",
    "warn": "yellow",
    "heading": "cyan",
    "heading.1": "cyan",
    "link": "blue",
    "user": "cyan",
    "bullet": "cyan",
    "quote.bar": "bright_black",
    "code.inline": "yellow",
    "code.keyword": "magenta",
    "code.string": "green",
    "code.number": "cyan",
    "code.name": "blue",
    "code.builtin": "cyan",
    "diff.add": "green",
    "diff.del": "red",
    "bar": "green",
    "bar.short": "yellow",
    "member.blue": "blue",
    "member.green": "green",
    "member.magenta": "magenta",
    "member.cyan": "cyan",
    "member.yellow": "yellow",
    "member.red": "red",
}

_DARK = _ANSI | {
    "good": "#7fc97f",
    "bad": "#ff7b72",
    "asks": "#f2cc60",
    "warn": "#f2cc60",
    "heading": "#8ecbff",
    "heading.1": "#8ecbff",
    "link": "#79b8ff",
    "user": "#8ecbff",
    "bullet": "#8ecbff",
    "quote.bar": "#6e7681",
    "dim": "#8b949e",
    "thinking": "#8b949e",
    "code.inline": "#f0b072",
    "code.comment": "#8b949e",
    "code.keyword": "#ff9492",
    "code.string": "#a5d6a7",
    "code.number": "#79c0ff",
    "code.name": "#d2a8ff",
    "code.builtin": "#79c0ff",
    "diff.add": "#aff5b4",
    "diff.del": "#ffdcd7",
    "diff.same": "#8b949e",
    "bar": "#7fc97f",
    "bar.short": "#f2cc60",
    "member.blue": "#79b8ff",
    "member.green": "#7fc97f",
    "member.magenta": "#d2a8ff",
    "member.cyan": "#8ecbff",
    "member.yellow": "#f2cc60",
    "member.red": "#ff7b72",
}

_LIGHT = _ANSI | {
    "good": "#116329",
    "bad": "#b3261e",
    "asks": "#7d4e00",
    "warn": "#7d4e00",
    "heading": "#0a3069",
    "heading.1": "#0a3069",
    "link": "#0550ae",
    "user": "#0a3069",
    "bullet": "#0550ae",
    "quote.bar": "#8c959f",
    "dim": "#59636e",
    "thinking": "#59636e",
    "code.inline": "#953800",
    "code.comment": "#59636e",
    "code.keyword": "#a40e26",
    "code.string": "#0a5c2b",
    "code.number": "#0550ae",
    "code.name": "#6639ba",
    "code.builtin": "#0550ae",
    "diff.add": "#033d16",
    "diff.del": "#67060c",
    "diff.same": "#59636e",
    "bar": "#116329",
    "bar.short": "#7d4e00",
    "member.blue": "#0550ae",
    "member.green": "#116329",
    "member.magenta": "#6639ba",
    "member.cyan": "#0a3069",
    "member.yellow": "#7d4e00",
    "member.red": "#b3261e",
}

THEMES: Mapping[ThemeName, Theme] = {
    "dark": _coloured(
        _DARK, {"diff.add": "#12261e", "diff.del": "#301b1e", "diff.word": "#2f5a3f"}
    ),
    "light": _coloured(
        _LIGHT, {"diff.add": "#dafbe1", "diff.del": "#ffebe9", "diff.word": "#ffe08a"}
    ),
    "ansi": _coloured(_ANSI, {}),
    "none": _SHAPES,
}


def look(theme: Theme, style: str) -> Look:
    """Say how a style is drawn; of several names a later one prevails where it says something."""
    names = style.split()
    if not names:
        return Look()
    found = _one(theme, names[0])
    for name in names[1:]:
        more = _one(theme, name)
        found = Look(*(getattr(more, f) or getattr(found, f) for f in Look.__struct_fields__))
    return found


OWN = "own"
"""Leads the name of a look of a text itself: `own.bold`, `own.fore.red`, `own.back.#123456`."""


def _own(theme: Theme, name: str) -> Look:
    _, field, *colour = name.split(".")
    if colour and theme is _SHAPES:
        return Look()
    return convert({field: colour[0] if colour else True}, Look)


def _one(theme: Theme, name: str) -> Look:
    if name.startswith(f"{OWN}."):
        return _own(theme, name)
    while name:
        if name in theme:
            return theme[name]
        name = name.rpartition(".")[0]
    return Look()
