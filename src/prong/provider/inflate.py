"""Bodies that come compressed although nobody asked for it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_PIECE = 262_144
_AUTO = 47
_RAW = -15


class Inflate:
    """Decodes gzip, zlib and bare deflate, in bounded pieces."""

    __slots__ = ("_decoder", "_first", "_started")

    def __init__(self) -> None:
        """Start before the first byte."""
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

        """
        if not self._started:
            # It takes two bytes to tell the formats apart.
            self._first = data = self._first + data
            if len(data) < 2:
                return
        while data:
            yield self._step(data)
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
