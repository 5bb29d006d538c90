"""Reading a file of lines on from a place, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import msgspec

from prong.mail.signed_line import LINE_LIMIT
from prong.system.descriptor import read_at

BATCH = 4 * LINE_LIMIT
"""Bytes after which a scan stops at the end of a line."""
_PIECE = 262_144
_CHECKED = 64


class Cursor(msgspec.Struct, frozen=True):
    """How far a box was read; to be stored together with what was read."""

    generation: int = 0
    offset: int = 0
    check: int = 0
    """Of the bytes before it."""


class LineScan:
    """The whole lines from a cursor on: offset, length and bytes of each, without its newline.

    Of a line that is longer than any may be only the first bytes are given.
    """

    def __init__(self, fd: int, cursor: Cursor, generation: int) -> None:
        """Read an open file, from a cursor that stands in it."""
        self.generation = generation
        self.more = False
        """Whether it stopped before the end."""
        self._fd = fd
        self._offset = cursor.offset

    @property
    def cursor(self) -> Cursor:
        """Where the last line ended."""
        return Cursor(self.generation, self._offset, checked(self._fd, self._offset))

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """Go on until the end, or for as long as a batch is."""
        until = self._offset + BATCH
        at, begun = self._offset, b""
        while piece := read_at(self._fd, _PIECE, at):
            here = 0
            while (end := piece.find(b"\n", here)) >= 0:
                line = begun + piece[here : end + 1][: LINE_LIMIT - len(begun)]
                offset, length = self._offset, at + end - self._offset
                here, begun, self._offset = end + 1, b"", at + end + 1
                yield offset, length, line.removesuffix(b"\n")
                if self._offset >= until:
                    self.more = True
                    return
            begun += piece[here:][: LINE_LIMIT - len(begun)]
            at += len(piece)


def stands(fd: int, cursor: Cursor) -> bool:
    """Whether what a cursor has seen before it is still there."""
    return cursor.offset == 0 or checked(fd, cursor.offset) == cursor.check


def checked(fd: int, offset: int) -> int:
    """Give a checksum of the bytes before a place, other than that of a place past the end."""
    start = max(0, offset - _CHECKED)
    data = read_at(fd, offset - start, start)
    return crc32(data) if len(data) == offset - start else -1
