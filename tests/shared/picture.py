"""Small pictures of every format."""

from __future__ import annotations

import struct
import zlib


def png(width: int, height: int) -> bytes:
    """Make a grey picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    pixels = zlib.compress((b"\0" + b"\x80" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


PNG = png(3, 2)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00"
    b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00pixels\xff\xd9"
)
GIF = b"GIF89a\x03\x00\x02\x00\x00\x00\x00,pixels;"
WEBP = b"RIFF\x14\x00\x00\x00WEBPVP8L\x08\x00\x00\x00\x2f\x02\x40\x00\x00abc"
