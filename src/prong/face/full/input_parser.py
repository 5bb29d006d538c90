"""Bytes of a terminal as Textual's events: pastes as one each, and answers to others as none.

Textual looks for keys in a paste too: a colour that was copied along, a bell or a link would be
typed, and the Enter after it would send what had come so far. What is pasted is kept from it here:
it gets the two marks around a paste, and the text between them is given by us. Likewise it types
what a terminal answers to another program that had it before, an editor say, and has ended since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Paste
from textual.message import Message

_ANSWER = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, names, versions
    r"|\x1b\[[?>=][0-9;]*[cnu]"  # what it is, how it is, how it tells keys
    r"|\x1b\[(?!48;)[0-9;]+[nt]"  # how it is, and its size; by 48 Textual is told of another one
)
"""What a terminal says of itself; it comes in one piece, and no key looks like it."""


class InputParser(XTermParser):
    """Reads keys as Textual does, pastes as they are, and answers not at all."""

    _before: str = ""
    """The last characters, which may be the beginning of a mark."""
    _pasted: list[str] | None = None
    """What has come of a paste; None outside of one."""

    def feed(self, data: str) -> Iterable[Message]:
        """Take characters in; gives the events that are complete."""
        if not data:
            yield from super().feed(data)
        while data:
            mark = BRACKETED_PASTE_START if self._pasted is None else BRACKETED_PASTE_END
            seen = self._before + data
            found = seen.find(mark)
            end = len(data) if found < 0 else found + len(mark) - len(self._before)
            piece, data = data[:end], data[end:]
            self._before = seen[1 - len(mark) :] if found < 0 else ""
            if self._pasted is None:
                self._pasted = None if found < 0 else []
                if heard := _ANSWER.sub("", piece):
                    yield from super().feed(heard)
                continue
            self._pasted.append(piece)
            if found >= 0:
                text = "".join(self._pasted).removesuffix(mark)
                self._pasted = None
                # For Textual nothing was between the marks, and it says so.
                yield from (e for e in super().feed(mark) if not isinstance(e, Paste))
                yield Paste(text.replace("\0", ""))
