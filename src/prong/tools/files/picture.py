"""Pictures, checked before they become part of a conversation.

A provider refuses a request that holds a broken picture, and what was appended once is sent for
ever: one bad file would end the session. So the container is walked here, without decoding pixels.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator

import msgspec

from prong.entry import Image

LARGEST = 5 << 20
"""Bytes of a picture that providers accept."""
SIDE = 8000
"""Pixels of a side that providers accept."""


class Picture(msgspec.Struct, frozen=True):
    """A picture that models can see."""

    media_type: str
    width: int
    height: int


def media_type_of(head: bytes) -> str | None:
    """Tell a picture by its first bytes."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def inspect(data: bytes) -> Picture | str:
    """Check a picture; a text says why it cannot be shown."""
    media_type = media_type_of(data)
    if media_type is None:
        return "it is no PNG, JPEG, GIF or WebP picture"
    if len(data) > LARGEST:
        return (
            f"it has {len(data):,} bytes and at most {LARGEST:,} can be shown; make a smaller copy"
        )
    size = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    try:
        found = size[media_type](data)
    except (struct.error, IndexError):
        found = None
    if found is None or min(found) < 1:
        return "it is damaged or incomplete"
    width, height = found
    if max(found) > SIDE:
        return (
            f"it has {width}x{height} pixels and at most {SIDE} a side can be shown; scale it down"
        )
    return Picture(media_type, width, height)


def check_image(image: Image) -> Image | str:
    """Give a picture with the type that it is of; a text says why it cannot be shown."""
    try:
        data = base64.b64decode(image.data, validate=True)
    except ValueError:
        return "it is not encoded as Base64"
    found = inspect(data)
    return found if isinstance(found, str) else Image(found.media_type, image.data)


def _png(data: bytes) -> tuple[int, int] | None:
    seen: list[bytes] = []
    at = 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(memoryview(data)[at + 4 : at + 8 + length]) != checksum:
            return None
        seen.append(kind)
        at += length + 12
        if kind == b"IEND":
            break
    if not (seen and seen[0] == b"IHDR" and b"IDAT" in seen and seen[-1] == b"IEND"):
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    size: tuple[int, int] | None = None
    for marker, at in _segments(data):
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = width, height
        if marker == 0xDA:
            return size if data.find(b"\xff\xd9", at) > 0 else None
    return None


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Give each marker before the pixels, with the place of its length."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        yield marker, at + 2
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])


def _gif(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<HH", data, 6)
    return (width, height) if data.rstrip(b"\0").endswith(b";") else None


def _webp(data: bytes) -> tuple[int, int] | None:
    (length,) = struct.unpack_from("<I", data, 4)
    if length + 8 > len(data):
        return None
    match data[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(data[i : i + 3], "little") + 1 for i in (24, 27))
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (v & 0x3FFF for v in struct.unpack_from("<HH", data, 26))
        case _:
            return None
    return width, height
