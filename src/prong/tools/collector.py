"""What a program prints, made fit for a model: clean text, and not too much of it.

`Cleaner` works line by line, so what comes out does not depend on where the pipe happened to cut
the bytes; only a line longer than `LONGEST_LINE` is let go in pieces. `Collector` keeps the two
ends of a text and, once something in the middle has to go, the whole of it in a file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from prong.host import Sink, Storage

LONGEST_LINE = 8192
"""Characters of an unfinished line that are held back."""

# Patterns are texts: they are compiled when they are first used, which many sessions never do.
_ESCAPE = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x9b[0-?]*[ -/]*[@-~]"  # the same with the one-character introducer
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=\n)|\Z)"  # titles, links
    r"|\x1b[ -/]*[0-~]"  # character sets and the like
)
_CARRIAGE_END = r"\r+(?=\n|\Z)"
_OVERWRITTEN = r"(?m)^[^\n]*\r"
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"


def clean(text: str) -> str:
    """Remove terminal escapes and control characters; keep the last state of a rewritten line."""
    if "\x1b" in text or "\x9b" in text:
        text = re.sub(_ESCAPE, "", text)
    if "\r" in text:
        text = re.sub(_OVERWRITTEN, "", re.sub(_CARRIAGE_END, "", text))
    return re.sub(_CONTROL, "", text)


class Cleaner:
    """Turns the bytes of a program into clean lines as they arrive."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    @property
    def held(self) -> str:
        """The line that has not ended yet, as it stands."""
        return clean(self._held)

    def feed(self, data: bytes) -> str:
        """Take more bytes; gives the lines that are complete."""
        text = self._held + self._decoder.decode(data)
        end = text.rfind("\n") + 1
        if len(text) - end > LONGEST_LINE:
            end, text = self._shorten(text, end)
        self._held = text[end:]
        return clean(text[:end])

    def finish(self) -> str:
        """Give what is left when nothing more will come."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return clean(text)

    @staticmethod
    def _shorten(text: str, end: int) -> tuple[int, str]:
        rewritten = text.rstrip("\r").rfind("\r")
        if rewritten > end:
            text = text[:end] + text[rewritten:]
        if len(text) - end <= LONGEST_LINE:
            return end, text
        # An escape that has only half arrived must not be torn.
        escape = text.rfind("\x1b", len(text) - 256)
        return (escape if escape > end else len(text)), text


class Collector:
    """Keeps the first and the last part of a text, and all of it in a file when that is not all."""

    def __init__(
        self, *, head: int, tail: int, storage: Storage | None = None, name: str = "output-"
    ) -> None:
        """Keep so many characters; without a storage nothing is written to a file."""
        self._head_limit, self._tail_limit = head, tail
        self._head, self._tail = "", ""
        self._storage, self._name = storage, name
        self._file: Sink | None = None
        self.path = ""
        """The file with the whole text; empty while nothing has been left out."""
        self.dropped = 0
        """Characters that are in neither part."""

    def add(self, text: str) -> None:
        """Take more text."""
        whole = self._head + self._tail if not self.dropped else ""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
        rest = text[room:] if room > 0 else text
        tail = self._tail + rest
        excess = max(0, len(tail) - self._tail_limit)
        self._tail = tail[excess:]
        if excess and not self.dropped and self._storage is not None:
            self._open(self._storage, whole)
        self.dropped += excess
        if self._file is None:
            # Whatever file there was does not hold this.
            self.path = ""
        self._write(text)

    def text(self) -> str:
        """Give both parts, with a word about what is missing between them."""
        if not self.dropped:
            return self._head + self._tail
        where = f"; all of it is in {self.path}" if self.path else ""
        return f"{self._head}\n[{self.dropped} characters left out here{where}]\n{self._tail}"

    def close(self) -> None:
        """Close the file; the text stays."""
        if self._file is not None:
            self._guarded(self._file.close)
            self._file = None

    def _open(self, storage: Storage, before: str) -> None:
        try:
            self._file = storage.create(self._name)
        except OSError:
            return  # The two parts are still worth having.
        self.path = self._file.path
        self._write(before)

    def _write(self, text: str) -> None:
        file = self._file
        if file is not None:
            self._guarded(lambda: file.write(text.encode()))

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError:
            self._file, self.path = None, ""
