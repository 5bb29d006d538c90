"""What was found in a box and is no mail."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from prong.errors import JournalFull, NotPossibleNow
from prong.foreign_json import NOT_JSON
from prong.mail.locked_file import append, locked, open_file
from prong.system.descriptor import open_unlinked
from prong.wire.raw import dump

LIMIT = 1_048_576
"""Bytes past which nothing more is kept; it is told nevertheless, and stands in the box."""
_KEPT = 4_096
"""Bytes of each piece that are kept."""


class SetAside(msgspec.Struct, frozen=True):
    """A piece of a box that is no mail, and why."""

    generation: int
    offset: int
    length: int
    check: int
    """Of its bytes."""
    why: str

    @classmethod
    def of(cls, generation: int, offset: int, length: int, data: bytes, why: str) -> SetAside:
        """Describe a piece."""
        return cls(generation, offset, length, crc32(data), why)

    @property
    def id(self) -> str:
        """The same whenever this piece is found, so that it can be told once."""
        return f"aside.{self.generation}.{self.offset}.{self.check:08x}"


class _AsideRecord(msgspec.Struct, frozen=True, kw_only=True):
    what: SetAside
    data: str


class AsideFile:
    """Where the pieces of one box are kept, each once."""

    def __init__(self, path: Path) -> None:
        """Name the file; it is made when something is set aside."""
        self.path = path

    def add(self, damaged: Iterable[tuple[SetAside, bytes]]) -> None:
        """Keep pieces with their first bytes, those that are not kept already."""
        # What cannot be kept here still stands in the box, and is told.
        with suppress(OSError, JournalFull, NotPossibleNow):
            os.close(open_unlinked(self.path, os.O_CREAT | os.O_WRONLY))
            with locked(self.path) as fd:
                there = self._ids()
                for what, data in damaged:
                    if what.id not in there and os.fstat(fd).st_size < LIMIT:
                        text = data[:_KEPT].decode("utf-8", "backslashreplace")
                        append(fd, self.path, dump(_AsideRecord(what=what, data=text)) + b"\n")

    def _ids(self) -> set[str]:
        found = set[str]()
        with os.fdopen(open_file(self.path, os.O_RDONLY), "rb") as file:
            for line in file:
                with suppress(*NOT_JSON):
                    found.add(msgspec.json.decode(line, type=_AsideRecord).what.id)
        return found
