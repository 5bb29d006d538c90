"""Lists of names that stand in every request: kept within a bound, and they say what is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

_LENGTHS = (1_000, 600, 400, 250, 180, 120, 90, 60, 40, 25, 0)
"""Characters of a description, tried in this order until the list fits."""


class ShortList(msgspec.Struct, frozen=True):
    """A list as the model sees it."""

    text: str
    cut: str = ""
    """What was shortened or left out, in a sentence; empty if nothing."""


def shorten(
    items: Sequence[tuple[str, str]], *, limit: int, longest: int = sys.maxsize
) -> ShortList:
    """List names with what they are for, a line each, in so many characters at most.

    A description has `longest` characters in any case. All of them get shorter alike before a name
    is left out.
    """
    lines: list[str] = []
    for length in (longest, *(length for length in _LENGTHS if length < longest)):
        lines = [_line(name, text, length) for name, text in items]
        if _size(lines) <= limit:
            cut = "" if length == longest else _told(length)
            return ShortList("\n".join([*lines, *([f"({cut}.)"] if cut else [])]), cut)
    kept = _fitting(lines, limit)
    cut = f"{_told(0)}, and {len(lines) - kept:,} of {len(lines):,} are not listed"
    return ShortList("\n".join([*lines[:kept], f"({cut}.)"]), cut)


def _line(name: str, text: str, length: int) -> str:
    line = " ".join(text.split())
    if len(line) > length:
        line = f"{line[: length - 1].rstrip()}…" if length else ""
    return f"- {name}: {line}" if line else f"- {name}"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _fitting(lines: Sequence[str], limit: int) -> int:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > limit:
            return number
    return len(lines)


def _told(length: int) -> str:
    if length:
        return f"descriptions were cut to {length} characters, as there are many"
    return "descriptions were left out, as there are many"
