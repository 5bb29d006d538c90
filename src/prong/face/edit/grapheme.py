"""What a reader takes for one character.

A cluster is a base with what clings to it: combining marks, variation selectors, skin tones, what a
zero-width joiner ties on, the second half of a flag, the vowels of a Hangul syllable.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from prong.face.output import drawable

_JOINER = "\u200d"
_EMOJI = "\ufe0f"
_MARKS = {"Mn", "Me", "Mc"}


def clusters(text: str) -> Iterator[str]:
    """Cut a text into what a reader takes for single characters; joined they are the text."""
    start, flags = 0, 0
    for at in range(1, len(text)):
        before, now = text[at - 1], text[at]
        flags = flags + 1 if _is_flag(before) else 0
        if not _clings(before, now, flags):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def shown(text: str) -> str:
    """Give what stands for a line of text on the screen, cluster by cluster: a tab is blanks."""
    return "".join("    " if one == "\t" else drawable(one) for one in clusters(text))


def after(text: str, at: int) -> int:
    """Give the end of the cluster that begins at a place."""
    first = next(clusters(text[at : at + _REACH]), "")
    return at + len(first)


def before(text: str, at: int) -> int:
    """Give the beginning of the cluster that ends at a place."""
    pieces = [*clusters(text[max(0, at - _REACH) : at])]
    return at - len(pieces[-1]) if pieces else at


_REACH = 256
"""Characters that are looked at for one cluster; nobody types longer ones."""


def _clings(before: str, now: str, flags: int) -> bool:
    if now.isascii() or before in "\r\n":
        # The common case first: only a line feed clings to a carriage return.
        return before == "\r" and now == "\n"
    if now in {_JOINER, _EMOJI} or unicodedata.category(now) in _MARKS or _is_tone(now):
        return True
    if before == _JOINER:
        return unicodedata.category(now) == "So"
    if _is_flag(now):
        return flags % 2 == 1
    # Vowels and finals of a Hangul syllable that is written in parts.
    return "\u1160" <= now <= "\u11ff" and "\u1100" <= before <= "\u11ff"


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_tone(char: str) -> bool:
    return "\U0001f3fb" <= char <= "\U0001f3ff"
