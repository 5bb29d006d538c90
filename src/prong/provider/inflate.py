"""Bodies that come compressed although nobody asked for it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_PIECE = 262_144
_FREE = 1 << 20
"""Bytes that may come out whatever went in: short texts of one letter shrink to nearly nothing."""
_AUTO = 47
_RAW = -15


class Bomb(Exception):
    """What came out is out of all proportion to what went in."""


class Inflate:
    """Decodes gzip, zlib and bare deflate, in bounded pieces."""

    __slots__ = ("_came", "_decoder", "_first", "_gave", "_ratio", "_started")

    def __init__(self, ratio: int) -> None:
        """Start before the first byte; no more than `ratio` bytes may come out of one."""
        self._ratio = ratio
        self._came = self._gave = 0
        self._decoder = zlib.decompressobj(_AUTO)
        self._first = b""
        self._started = False

    @property
    def done(self) -> bool:
        """Whether the compressed stream has come to its end."""
        return self._decoder.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decode more bytes.

        Raises:
            zlib.error: they are not what the header said.
            Bomb: too much came out.

        """
        self._came += len(data)
        if not self._started:
            # It takes two bytes to tell the formats apart.
            self._first = data = self._first + data
            if len(data) < 2:
                return
        while data:
            piece = self._step(data)
            self._gave += len(piece)
            used = self._came - len(self._decoder.unconsumed_tail)
            if self._gave > max(_FREE, used * self._ratio):
                raise Bomb(f"it unpacks to more than {self._ratio} times its size")
            yield piece
            data = self._decoder.unconsumed_tail

    def _step(self, data: bytes) -> bytes:
        try:
            piece = self._decoder.decompress(data, _PIECE)
        except zlib.error:
            # What is called deflate has the zlib header from some servers and none from others.
            if self._started:
                raise
            self._decoder = zlib.decompressobj(_RAW)
            piece = self._decoder.decompress(data, _PIECE)
        self._started = True
        return piece
