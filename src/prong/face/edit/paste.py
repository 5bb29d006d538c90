"""What is pasted: made harmless, folded if it is long, recognised if it is a picture's path.

A folded piece stands in the text as a label such as `[pasted 120 lines #1]`. The label is one
character to the cursor, and what it stands for takes its place when the message is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from prong.entry import Image

FOLD_LINES = 10
"""A paste of more lines than this is folded."""
FOLD_CHARACTERS = 1_500
"""And so is one of more characters."""
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
"""The endings of files that are taken for pictures, with their types."""

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
)
_LABEL = re.compile(r"\[(pasted|image) ([^\[\]\n]*) #(\d{1,4})\]")


class Pasted(msgspec.Struct, frozen=True):
    """A long text."""

    text: str


class Attached(msgspec.Struct, frozen=True):
    """A picture with a name."""

    name: str
    part: Image


Folded: TypeAlias = Pasted | Attached


def clean(text: str) -> str:
    """Make line breaks those of a text and take out escapes and control characters; tabs stay."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in text if c in "\n\t" or c.isprintable() or c in "\u200d\ufe0f")


def is_long(text: str) -> bool:
    """Whether a paste is better folded."""
    return len(text) > FOLD_CHARACTERS or _lines(text) > FOLD_LINES


def _lines(text: str) -> int:
    """Count lines; the break at the end of the last one begins none."""
    return text.removesuffix("\n").count("\n") + 1


def label(folded: Folded, number: int) -> str:
    """Name a folded piece as it stands in the text."""
    if isinstance(folded, Attached):
        name = re.sub(r"[\[\]\s]", "_", folded.name) or "picture"
        return f"[image {name} #{number}]"
    lines = _lines(folded.text)
    much = f"{lines} lines" if lines > 1 else f"{len(folded.text)} characters"
    return f"[pasted {much} #{number}]"


def labels(text: str, folded: Sequence[Folded]) -> Iterator[tuple[int, int, Folded]]:
    """Find the labels that stand in a text, each with what it stands for."""
    if not folded:
        return
    for found in _LABEL.finditer(text):
        number = int(found[3])
        if 0 < number <= len(folded) and found[0] == label(folded[number - 1], number):
            yield found.start(), found.end(), folded[number - 1]


def missing(text: str, folded: Sequence[Folded]) -> tuple[str, ...]:
    """Name the pictures that a text speaks of and that are not there."""
    held = {start for start, _, _ in labels(text, folded)}
    found = (one for one in _LABEL.finditer(text) if one.start() not in held)
    return tuple(one[0] for one in found if one[1] == "image")


def unfold(text: str, folded: Sequence[Folded]) -> tuple[str, tuple[Image, ...]]:
    """Put texts in the place of their labels; pictures keep theirs and are given beside."""
    pieces: list[str] = []
    pictures: list[Image] = []
    at = 0
    for start, end, piece in labels(text, folded):
        pieces.append(text[at:start])
        if isinstance(piece, Pasted):
            pieces.append(piece.text)
        else:
            pieces.append(text[start:end])
            pictures.append(piece.part)
        at = end
    return "".join([*pieces, text[at:]]), tuple(pictures)


def refold(text: str, pictures: Sequence[Image]) -> tuple[Folded, ...]:
    """Find what the labels of pictures stood for in a message that was sent.

    Gives nothing if there are not as many labels as pictures, so that nobody can tell.
    """
    named = [one for one in _LABEL.finditer(text) if one[1] == "image" and int(one[3])]
    if not named or len(named) != len(pictures):
        return ()
    # The other numbers were pastes, which stand in the text by now.
    held: list[Folded] = [Pasted("")] * max(int(one[3]) for one in named)
    for found, picture in zip(named, pictures, strict=True):
        held[int(found[3]) - 1] = Attached(found[2], picture)
    return tuple(held)


def picture_path(text: str) -> str | None:
    """Give the path that a paste names, as terminals paste a file that is dropped on them."""
    word = text.strip()
    if "\n" in word or not word:
        return None
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    elif word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    else:
        if re.search(r"(?<!\\)\s", word):
            return None
        word = re.sub(r"\\(.)", r"\1", word)
    ending = re.search(r"\.\w+$", word.lower())
    absolute = word.startswith(("/", "~/", "./", "../"))
    return word if absolute and ending is not None and ending[0] in PICTURES else None
