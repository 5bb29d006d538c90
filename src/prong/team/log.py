"""The output file of a task."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import BinaryIO, NamedTuple

from prong.host import make_private
from prong.tools.collector import Cleaner, Collector

RESULT = 2_000
"""Characters of output in a notice."""

ANSWER = 20_000
"""Characters of output in one answer of TaskOutput."""

_NAME = re.compile(r"task-([0-9]{1,9})\.log")


class Log:
    """Whole clean lines as they arrive, up to a limit of bytes."""

    def __init__(self, path: Path, *, limit: int) -> None:
        """Name the file; it is made by `open`, or when there is something to write."""
        self.path = str(path)
        self._limit = self._left = limit
        self._cleaner = Cleaner()
        self._tail = Collector(head=0, tail=RESULT)
        self._file: BinaryIO | None = None
        self._ended = False
        self.lost = False
        """Whether something that came is not in the file."""

    @property
    def held(self) -> str:
        """The line that has not ended yet."""
        return self._cleaner.held

    @property
    def tail(self) -> str:
        """The end of everything that came, whether or not the file could hold it."""
        return self._tail.text()

    def open(self) -> None:
        """Make the file.

        Raises OSError.
        """
        path = Path(self.path)
        try:
            self._file = path.open("ab", buffering=0)
        except FileNotFoundError:
            make_private(path.parent)
            self._file = path.open("ab", buffering=0)

    @property
    def size(self) -> int:
        """How many bytes of output the file has been given."""
        return self._limit - self._left

    def take_up(self, text: str, cleaner: Cleaner) -> None:
        """Begin with lines that were read before, by somebody whose cleaner reads on here."""
        self._cleaner = cleaner
        self._add(text)

    def take(self, data: bytes) -> None:
        """Write what has become whole lines."""
        self._add(self._cleaner.feed(data))

    def flush(self) -> None:
        """Write the line that has not ended, since nothing more will come."""
        self._add(self._cleaner.finish())

    def close(self) -> None:
        """Write the rest and close the file, which is there from now on, even if empty."""
        self.flush()
        self._write(b"")
        self._drop()

    def _add(self, text: str) -> None:
        if not text:
            return
        self._tail.add(text)
        data = text.encode()
        if len(data) <= self._left:
            self._left -= len(data)
            self._write(data)
        elif not self._ended:
            self._write(data[: self._left])
            self._left = 0
            self._write(f"\n[output past {self._limit} bytes is not kept]\n".encode())
            self.lost = True
            self._drop()

    def _write(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            if self._file is None:
                self.open()
            assert self._file is not None
            self._file.write(data)
        except OSError:
            self.lost = True
            self._drop()  # A full disk must not end the task; its tail is still kept.

    def _drop(self) -> None:
        self._ended = True
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


class Fresh(NamedTuple):
    """What is new in a log."""

    text: str
    offset: int
    """Where to go on the next time."""
    whole: bool
    """Whether nothing was left out."""


def read_fresh(path: str, offset: int) -> Fresh:
    """Read what was written since an offset, or the end of it if that is much."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # Four bytes a character at most, so this is enough and never much.
            start = max(offset, size - 4 * ANSWER)
            file.seek(start)
            text = file.read(size - start).decode("utf-8", "replace")
    except OSError as error:
        return Fresh(f"[the output file cannot be read: {error}]", offset, whole=False)
    if start > offset or len(text) > ANSWER:
        told = f"[the beginning was left out; see the file]\n{text[-ANSWER:]}"
        return Fresh(told, size, whole=False)
    return Fresh(text, size, whole=True)


def read_tail(path: str) -> str:
    """Read the end of a log, or nothing if there is none."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - RESULT))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def numbers(folder: Path) -> list[int]:
    """Give the numbers of the commands that have a log, so that a resumed session repeats none."""
    try:
        names = [p.name for p in folder.iterdir()]
    except OSError:
        names = []
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
