"""A range of a text's lines, numbered; of a huge file without holding the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

WIDTH = 2000
"""Characters of a line that are shown."""
_ENOUGH = WIDTH * 4 + 4
"""Bytes of a line that surely hold so many characters."""


class NumberedLines(msgspec.Struct, frozen=True):
    """Numbered lines, and where they end."""

    text: str
    last: int
    """The number of the last line shown."""


def split(text: str) -> list[str]:
    """Cut a text into lines as editors count them; a final line feed ends the last one."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def view(lines: Iterable[str], first: int, *, budget: int) -> NumberedLines:
    """Put numbers before lines, cutting long ones, until the budget of characters is used up."""
    shown: list[str] = []
    used = 0
    for number, raw in enumerate(lines, first):
        line = raw.removesuffix("\r")
        if len(line) > WIDTH:
            line = f"{line[:WIDTH]} [… this line goes on]"
        numbered = f"{number:>6}\t{line}"
        used += len(numbered) + 1
        if used > budget and shown:
            break
        shown.append(numbered)
    return NumberedLines("\n".join(shown), first + len(shown) - 1)


class Window:
    """Picks a range of lines out of a stream of bytes and counts the rest."""

    def __init__(self, first: int, count: int) -> None:
        """Keep `count` lines from number `first` on."""
        self.first = first
        self.stop = first + count
        self._number = 1
        self._kept: list[bytes] = []
        self._begun = False

    @property
    def total(self) -> int:
        """Lines seen so far."""
        return self._number if self._begun else self._number - 1

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        ends = piece.count(b"\n")
        if self._number >= self.stop or self._number + ends < self.first:
            self._number += ends
            self._begun = not piece.endswith(b"\n")
            return
        for part in self._parts(piece):
            self._keep(part)
            if part.endswith(b"\n"):
                self._number += 1
        self._begun = not piece.endswith(b"\n")

    @staticmethod
    def _parts(piece: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(piece):
            end = piece.find(b"\n", start) + 1 or len(piece)
            yield piece[start:end]
            start = end

    def _keep(self, part: bytes) -> None:
        index = self._number - self.first
        if not 0 <= index < self.stop - self.first:
            return
        if index == len(self._kept):
            self._kept.append(b"")
        body = part.removesuffix(b"\n")
        room = _ENOUGH - len(self._kept[index])
        self._kept[index] += body[: max(room, 0)]

    def lines(self) -> list[str]:
        """Give the lines kept; what is not UTF-8 in them shows as replacement characters."""
        return [line.decode(errors="replace") for line in self._kept]
