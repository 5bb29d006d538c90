"""What a person has said, over all sessions: one file in the user's own folder, a line each.

Lines are appended under a lock, so that sessions beside each other lose nothing. A line that cannot
be read is skipped. When the file has grown to twice its bound, the oldest lines go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from prong.foreign_json import NOT_JSON
from prong.host import make_private
from prong.system.descriptor import open_own, read_at
from prong.system.file_lock import wait_lock

KEPT = 2_000
"""Lines that are kept."""
LONGEST = 20_000
"""Characters of one that is; a longer one is not kept."""
_BYTES = 4 * 1024 * 1024


class _Uttered(msgspec.Struct, frozen=True):
    at: float
    cwd: str
    text: str


_READ = msgspec.json.Decoder(_Uttered)


class InputHistory(msgspec.Struct, frozen=True):
    """The file, and the project whose lines come first."""

    path: Path
    project: str
    mask: Callable[[str], str]
    """Hides keys in a text before it is stored."""

    def load(self) -> tuple[str, ...]:
        """Give what was said, the latest first; of this project before that of others."""
        lines = [*self._lines()]
        ours = [one.text for one in reversed(lines) if one.cwd == self.project]
        others = [one.text for one in reversed(lines) if one.cwd != self.project]
        return tuple(dict.fromkeys([*ours, *others]))

    def add(self, text: str) -> bool:
        """Store what was said; gives whether that was possible."""
        if not text.strip() or len(text) > LONGEST:
            return False
        said = _Uttered(round(time.time(), 3), self.project, self.mask(text))
        try:
            make_private(self.path.parent)
            with self._locked():
                self._append(msgspec.json.encode(said) + b"\n")
        except (OSError, UnicodeError):
            return False
        return True

    def _append(self, line: bytes) -> None:
        fd = open_own(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            # A line that a killed process has left half written must not spoil this one.
            torn = size > 0 and read_at(fd, 1, size - 1) != b"\n"
            os.write(fd, b"\n" + line if torn else line)
        finally:
            os.close(fd)
        if size > _BYTES or (size > 100 * KEPT and self._count() > 2 * KEPT):
            self._shorten()

    def _count(self) -> int:
        return self.path.read_bytes().count(b"\n")

    def _shorten(self) -> None:
        kept = [*self._lines()][-KEPT:]
        while len(kept) > 1 and sum(len(one.text) for one in kept) > _BYTES // 2:
            kept = kept[len(kept) // 2 :]
        fresh = self.path.with_suffix(".new")
        fd = open_own(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "wb") as file:
            file.writelines(msgspec.json.encode(one) + b"\n" for one in kept)
        fresh.replace(self.path)

    def _lines(self) -> Iterator[_Uttered]:
        try:
            data = self.path.read_bytes()[-2 * _BYTES :]
        except OSError:
            return
        for line in data.split(b"\n"):
            try:
                yield _READ.decode(line)
            except NOT_JSON:
                continue

    @contextmanager
    def _locked(self) -> Generator[None]:
        # Beside the file: that is replaced when it is shortened.
        path = self.path.with_suffix(".guard")
        fd = open_own(path, os.O_RDWR | os.O_CREAT)
        try:
            wait_lock(fd)
            yield
        finally:
            os.close(fd)
