"""What a word can become: commands, what belongs to them, and files of the project; pure.

`complete(buffer, sources)` looks at the word before the cursor. A message that begins with a slash
names a command, whose table says what its arguments are; an `@` anywhere begins the path of a file
or the address of a server's resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from prong.face.edit.buffer import Buffer

SHOWN = 12
"""Candidates that are given at most."""
_RANKED = 2_000
"""Matches that are compared; of more, only those that came first are."""
_AT = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@([^\s\"'`]*)$")


class Proposal(msgspec.Struct, frozen=True):
    """One thing that a word can become."""

    text: str
    help: str = ""


class Completion(msgspec.Struct, frozen=True):
    """What can stand in the place of a part of the text."""

    start: int
    end: int
    candidates: tuple[Proposal, ...] = ()
    more: int = 0
    """How many further ones there are."""

    @property
    def common(self) -> str:
        """What all candidates begin with."""
        texts = [one.text for one in self.candidates]
        if not texts:
            return ""
        low, high = min(texts), max(texts)
        same = next((at for at, c in enumerate(low) if high[at : at + 1] != c), len(low))
        return low[:same]


class Sources(msgspec.Struct, frozen=True):
    """What there is to choose from."""

    commands: Mapping[str, str] = {}
    """Names of commands and skills, each with a line of help."""
    arguments: Mapping[str, str] = {}
    """What the argument of a command is: a name in `values`."""
    values: Mapping[str, Sequence[Proposal]] = {}
    """What an argument can be, by its kind."""
    files: Sequence[str] = ()
    """Paths below the project's folder."""
    resources: Sequence[Proposal] = ()
    """What MCP servers have, as `server:uri`."""


def complete(buffer: Buffer, sources: Sources) -> Completion:
    """Say what the word before the cursor can become."""
    before = buffer.text[: buffer.cursor]
    if found := _AT.search(before):
        start = found.start(1)
        paths = [Proposal(path) for path in find_files(found[1], sources.files)]
        served = _ranked(found[1], sources.resources)
        # Whoever has typed a colon, or the beginning of a server's name, means a resource.
        first = served and found[1] and served[0].text.lower().startswith(found[1].lower())
        both = (*served, *paths) if first else (*paths, *served)
        return _completion(start, buffer.cursor, both)
    if not before.startswith("/") or "\n" in before:
        return Completion(buffer.cursor, buffer.cursor)
    name, blank, rest = before[1:].partition(" ")
    if not blank:
        known = [Proposal(one, told) for one, told in sources.commands.items()]
        return _completion(1, buffer.cursor, _ranked(name, known))
    word = rest.lstrip()
    if " " in word:
        return Completion(buffer.cursor, buffer.cursor)
    values = sources.values.get(sources.arguments.get(name, ""), ())
    return _completion(buffer.cursor - len(word), buffer.cursor, _ranked(word, values))


def _completion(start: int, end: int, found: tuple[Proposal, ...]) -> Completion:
    return Completion(start, end, found[:SHOWN], max(0, len(found) - SHOWN))


def accept(buffer: Buffer, completion: Completion, candidate: Proposal | None = None) -> Buffer:
    """Put a candidate into the text; without one, what all candidates have in common."""
    chosen = candidate or (completion.candidates[0] if len(completion.candidates) == 1 else None)
    text = completion.common if chosen is None else chosen.text
    if chosen is None and not _extends(buffer, completion, text):
        return buffer
    blank = chosen is not None and not text.endswith("/")
    follows = buffer.text[completion.end : completion.end + 1]
    text += " " if blank and follows != " " else ""
    selecting = buffer.place(completion.start).place(completion.end, select=True)
    return selecting.insert(text)


def _extends(buffer: Buffer, completion: Completion, text: str) -> bool:
    written = buffer.text[completion.start : completion.end]
    return len(text) > len(written) and text.lower().startswith(written.lower())


def _ranked(word: str, candidates: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Give those whose text begins with a word; only where none does, those that hold it."""
    low = word.lower()
    first = [one for one in candidates if one.text.lower().startswith(low)]
    return tuple(first or (one for one in candidates if low in one.text.lower()))


def find_files(wanted: str, files: Sequence[str]) -> list[str]:
    """Find paths that hold all letters of a word in order, those that fit best first.

    One pass of a compiled pattern over each path, so that a hundred thousand are no burden; only
    the first few thousand matches are compared.
    """
    if not wanted:
        return sorted(files[:_RANKED], key=lambda path: (path.count("/"), path))[:SHOWN]
    letters = re.compile(".*?".join(map(re.escape, wanted)), re.IGNORECASE | re.DOTALL)
    whole = re.compile(re.escape(wanted), re.IGNORECASE)
    found = _first(path for path in files if whole.search(path))
    # Single letters are only looked for where nothing holds the word as it is.
    found = found or _first(path for path in files if letters.search(path))
    return sorted(found, key=lambda path: _rank(path, wanted.lower()))[:SHOWN]


def _first(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        found.append(path)
        if len(found) >= _RANKED:
            break
    return found


def _rank(path: str, wanted: str) -> tuple[int, int, str]:
    low = path.lower()
    name = low.rstrip("/").rpartition("/")[2]
    tests = (
        low == wanted,
        name == wanted,
        low.startswith(wanted),
        name.startswith(wanted),
        wanted in name,
        wanted in low,
    )
    fit = next((at for at, holds in enumerate(tests) if holds), len(tests))
    return fit, len(path), path
