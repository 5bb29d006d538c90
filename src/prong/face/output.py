"""The one way out to the terminal for all but the screen.

Texts come from files, servers, models and other people's folders. What could take control of a
terminal, or pretend to be a line of ours, is taken away here and not where a text comes from, so
that nobody can forget it. Nothing else in this layer prints.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from contextlib import suppress

from prong.face.cell import cell
from prong.system.standard_stream import named

_MARKS = 4
"""How many marks a character may carry: more would reach into other rows."""
_JOINER = "\u200d"
_SELECTORS = "\ufe0e\ufe0f"
"""They choose between two forms of the character before them; terminals disagree on the widths."""
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Nothing to see, and yet counted among letters and marks."""
_HIDDEN = r"[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"


_DOUBTFUL = re.compile(r"[^\n\t -~]")


def printable(text: str) -> str:
    """Take away what could take control of the terminal; line breaks and tabs stay."""
    # Most texts are all of plain letters, of which none has to be looked at by itself.
    return _DOUBTFUL.sub(lambda one: one[0] if one[0].isprintable() else "·", text)


def drawable(text: str) -> str:
    """Make a text fit for a row of a screen: no control, and nothing that hides or overlaps.

    What would not be seen becomes a dot. Emoji come in the parts they are made of, since terminals
    do not agree on how wide the whole is.
    """
    if text.isascii():
        return printable(text).replace("\n", " ").replace("\t", " ")
    kept: list[str] = []
    marks = _MARKS
    for character in text:
        if character in "\n\t":
            kept.append(" ")
            marks = 0
        elif character in _BLANKS or _selects(character):
            if character not in _SELECTORS or marks >= _MARKS:
                kept.append("·")
            marks = _MARKS
        elif kept and _joins(kept[-1], character):
            marks = _MARKS
        elif not character.isprintable() or _is_tone(character):
            kept.append("·")
            marks = 0
        elif cell(character):
            kept.append(character)
            marks = 0
        else:
            kept.append(character if marks < _MARKS else "·")
            marks += 1
    return "".join(kept)


def _joins(before: str, character: str) -> bool:
    """Whether a character only makes one emoji of several, or gives one the colour of a skin."""
    if character == _JOINER:
        return cell(before) > 1
    return _is_tone(character) and unicodedata.category(before) == "So"


def _is_tone(character: str) -> bool:
    return "\U0001f3fb" <= character <= "\U0001f3ff"


def _selects(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def flat(text: str) -> str:
    """Give a text of somebody else on one line, so that it cannot pass for several."""
    return " ".join(printable(text).split())


def show(text: str = "") -> None:
    """Print to standard output."""
    _print(printable(text))


def answer(text: str) -> None:
    """Print the model's answer: as it came where a program reads it, else as a terminal may."""
    _print(printable(text) if sys.stdout.isatty() else text)


def tell(text: str, *, lead: str = "prong: ") -> None:
    """Print a sentence to standard error; further lines are set in, lest one look like ours."""
    _say(lead + printable(text).replace("\n", "\n  ") + "\n")


def confirm(question: str) -> bool:
    """Ask somebody at a terminal; anything but a yes is a no."""
    try:
        return input(f"{flat(question)} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def draw(bar: str) -> None:
    """Draw over the last line of standard error."""
    _say(f"\r\x1b[K{printable(bar)}")


def show_json(data: bytes) -> None:
    """Print JSON, the same value with what a terminal should not see as escapes."""
    _print(_escaped(data.decode()))


def send(data: bytes) -> None:
    """Print a line of JSON for a program, at once."""
    if sys.stdout.isatty():
        data = _escaped(data.decode()).encode()
    with named("standard output"):
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


def fit_for(sink: int, line: bytes) -> bytes:
    """Give a line of JSON as whoever reads it should: a terminal only what does it no harm."""
    return _escaped(line.decode()).encode() if os.isatty(sink) else line


def feed(sink: int, data: bytes) -> None:
    """Write a piece of a line to whoever reads a pipe, all of it."""
    while data:
        data = data[os.write(sink, data) :]


def flush() -> None:
    """Let go of what is still held back."""
    with named("standard output"):
        sys.stdout.flush()


def _print(text: str) -> None:
    with named("standard output"):
        print(text)


def _say(text: str) -> None:
    """Write to standard error; where that cannot be, it is lost, and no work is lost with it."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _escaped(text: str) -> str:
    import re

    # Outside of its strings JSON holds none of these, and inside an escape means the same.
    return re.sub(_HIDDEN, lambda found: f"\\u{ord(found[0]):04x}", text)


def control(code: str) -> None:
    """Send the terminal a code of our own; one that is gone hears nothing."""
    with suppress(OSError, ValueError):
        sys.stdout.write(code)
        sys.stdout.flush()
