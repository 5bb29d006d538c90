"""What the bytes of a file mean: text in some encoding, or something else by name."""

from __future__ import annotations

import codecs
from typing import Literal, TypeAlias

import msgspec

Encoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]

_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or universal program"),
    (b"\0asm", "a WebAssembly module"),
    (b"PK\x03\x04", "a zip archive (or a document in one)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0\0\1\0", "an icon"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"\x80\x04\x95", "a Python pickle"),
)

# What text has besides printable characters: tab, line feed, form feed, carriage return, escape.
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 27})


class TextFile(msgspec.Struct, frozen=True):
    """A text file: `encode(decode(data).text)` gives the bytes of data back."""

    text: str
    """Without a byte-order mark; line endings as they are."""
    encoding: Encoding

    def encode(self, text: str) -> bytes:
        """Turn a changed text into bytes as the file had them.

        Raises UnicodeEncodeError if the encoding cannot hold it.
        """
        mark = next((m for m, e in _MARKS if e == self.encoding), b"")
        plain = "utf-8" if self.encoding == "utf-8-sig" else self.encoding
        return mark + text.encode(plain)


class Binary(msgspec.Struct, frozen=True):
    """A file that is not text."""

    kind: str
    """What it is, with its article."""


def decode(data: bytes) -> TextFile | Binary:
    """Read bytes as text, if they are."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            plain = "utf-8" if encoding == "utf-8-sig" else encoding
            try:
                return TextFile(data[len(mark) :].decode(plain), encoding)
            except UnicodeDecodeError:
                break
    if b"\0" in data:
        return Binary(kind_of(data))
    try:
        return TextFile(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    head = data[:8192]
    odd = len(head) - len(head.translate(None, _CONTROL))
    if kind_of(data) != "binary data" or odd * 20 > len(head):
        return Binary(kind_of(data))
    return TextFile(data.decode("latin-1"), "latin-1")


def kind_of(data: bytes) -> str:
    """Name a binary format by its first bytes."""
    if data[257:262] == b"ustar":
        return "a tar archive"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "a WebP picture"
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data")
