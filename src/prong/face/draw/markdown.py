"""Markdown that comes in pieces.

A text is cut into blocks at blank lines outside of fences, and before each item of a list. Whether
a block ends is known from the beginning of the next line, and no block depends on another: so a
block that has ended is drawn once and never again, and only the last is drawn anew when it grows.
"""

from __future__ import annotations

import re

import msgspec

from prong.face.draw.block import draw_block
from prong.face.draw.row import EMPTY, Row

_FENCE = re.compile(r"(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t]|>)*(`{3,}(?=[^`]*$)|~{3,})")
_OPENING = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
_BULLET = re.compile(r"[-*+] +\S")
_NUMBER = re.compile(r"(\d{1,9})[.)] +\S")


class Block(msgspec.Struct, frozen=True):
    """A part of a text that is drawn by itself."""

    source: str
    apart: bool
    """Whether an empty line stands before it."""


class Cutter:
    """Cuts a text that grows into blocks."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._lines: list[str] = []
        self._fence = ""
        self._closed = False
        self._blank = False
        self._apart = False
        self._rest = ""

    def feed(self, text: str) -> list[Block]:
        """Take more text; gives the blocks that have ended with it."""
        text = self._rest + text
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        *whole, begun = text.split("\n")
        ended: list[Block] = []
        for line in whole:
            self._begin(line, ended, whole=True)
            self._add(line)
        self._begin(begun, ended, whole=False)
        self._rest = begun + held
        return ended

    @property
    def tail(self) -> Block | None:
        """The block that has not ended yet; None if nothing is in it."""
        rest = self._rest.removesuffix("\r")
        source = "\n".join([*self._lines, rest] if rest else self._lines)
        return Block(source.rstrip(), self._apart) if source.strip() else None

    def _begin(self, line: str, ended: list[Block], *, whole: bool) -> None:
        """End the block if a line with such a beginning belongs to the next.

        Half a line may decide only what no more of it can change.
        """
        if self._fence or not self._lines or not line:
            return
        apart = self._closed or (self._blank and line[0] not in " \t")
        if apart or self._is_item(line) or (whole and _OPENING.match(line)):
            self._closed = False
            ended.append(Block("\n".join(self._lines).rstrip(), self._apart))
            self._lines = []
            self._apart, self._blank = self._blank, False

    def _is_item(self, line: str) -> bool:
        if _BULLET.match(line):
            return True
        number = _NUMBER.match(line)
        if number is None:
            return False
        return number[1] == "1" or _NUMBER.match(self._lines[0]) is not None

    def _add(self, line: str) -> None:
        if self._fence:
            closed = line.lstrip(" \t>").rstrip()
            if len(closed) >= len(self._fence) and not closed.strip(self._fence[0]):
                self._fence = ""
                self._closed = _OPENING.match(self._lines[0]) is not None
        elif found := _FENCE.match(line):
            self._fence = found[1]
        empty = not line.strip()
        self._blank = empty and not self._fence
        if not empty or self._lines:
            self._lines.append(line)
        elif empty:
            self._apart = True


def split(text: str) -> list[Block]:
    """Cut a whole text into blocks."""
    cutter = Cutter()
    blocks = cutter.feed(text)
    tail = cutter.tail
    return [*blocks, tail] if tail is not None else blocks


def draw_markdown(text: str, width: int) -> list[Row]:
    """Draw a whole text."""
    return _joined([(block, draw_block(block.source, width)) for block in split(text)])


class Flow:
    """A text that is being written, drawn as far as it has come."""

    def __init__(self, width: int) -> None:
        """Begin with no text."""
        self._width = width
        self._text = ""
        self._cutter = Cutter()
        self._blocks: list[Block] = []
        self._done: list[Row] = []

    @property
    def text(self) -> str:
        """What has come so far."""
        return self._text

    def show(self, text: str) -> tuple[list[Row], list[Row]]:
        """Take the text as it is now; gives the rows that stay, and those that may change.

        The first list only grows: it is the same one each time, as long as the text only does.
        """
        if not text.startswith(self._text):
            self._begin()
        self._take(self._cutter.feed(text[len(self._text) :]))
        self._text = text
        tail = self._cutter.tail
        if tail is None:
            return self._done, []
        drawn = draw_block(tail.source, self._width, coloured=len(tail.source) <= _RECOLOURED)
        return self._done, [EMPTY, *drawn] if self._done and tail.apart else drawn

    def resize(self, width: int) -> None:
        """Draw for another width from now on."""
        if width != self._width:
            self._width, self._done = width, []
            blocks, self._blocks = self._blocks, []
            self._take(blocks)

    def finish(self) -> list[Row]:
        """Give all rows, those of the last block as they are drawn for good."""
        tail = self._cutter.tail
        rows = list(self._done)
        if tail is None:
            return rows
        if rows and tail.apart:
            rows.append(EMPTY)
        return [*rows, *draw_block(tail.source, self._width)]

    def _begin(self) -> None:
        self._text, self._cutter = "", Cutter()
        self._blocks, self._done = [], []

    def _take(self, blocks: list[Block]) -> None:
        for block in blocks:
            if self._done and block.apart:
                self._done.append(EMPTY)
            self._done += draw_block(block.source, self._width)
        self._blocks += blocks


_RECOLOURED = 3_000
"""Characters of code that are coloured while they are still being written."""


def _joined(drawn: list[tuple[Block, list[Row]]]) -> list[Row]:
    rows: list[Row] = []
    for block, own in drawn:
        if rows and block.apart:
            rows.append(EMPTY)
        rows += own
    return rows
