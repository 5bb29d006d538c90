"""Which files a worker will change: sets of paths that can be compared before any work begins.

A set is written as paths, `*` and `?` inside a name, and `**` for any number of folders. A path
that ends in a plain name stands for itself and everything below it. Brackets mean themselves. The
law that the runtime leans on: if two sets cover one path, they overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

Segments: TypeAlias = tuple[str, ...]

MOST = 100
"""Patterns that one set may have."""


class FileSet(msgspec.Struct, frozen=True):
    """Paths that may be changed."""

    patterns: tuple[str, ...]
    """Absolute, without `.` and `..`; none at all means that nothing is changed."""

    def covers(self, path: str) -> bool:
        """Whether an absolute path belongs to the set."""
        return any(_covers(_whole(one), _split(path)) for one in self.patterns)

    def overlaps(self, other: FileSet) -> bool:
        """Whether there can be a path that belongs to both."""
        return any(
            _meet(_whole(one), _whole(two)) for one in self.patterns for two in other.patterns
        )


class BadSet(msgspec.Struct, frozen=True):
    """A list that is no set of files, and why."""

    why: str


def read_set(given: Sequence[str], *, root: str, resolve: Callable[[str], str]) -> FileSet | BadSet:
    """Read what a model wrote; `resolve` makes a path absolute and follows its links."""
    if len(given) > MOST:
        return BadSet(f"{len(given)} files are too many to name; name folders, {MOST} at most")
    found: list[str] = []
    for text in given:
        fixed, loose = _apart(text.strip())
        if why := _fault(text, loose):
            return BadSet(f"{text!r} cannot be one of the files: {why}")
        path = resolve(fixed or ".")
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            return BadSet(f"{text!r} cannot be one of the files: it is not in {root}")
        found.append("/".join([path.rstrip("/"), *loose]))
    return FileSet(tuple(dict.fromkeys(found)))


def _fault(text: str, loose: Segments) -> str:
    if not text.strip():
        return "it is empty"
    if "\0" in text:
        return "it holds a NUL character"
    if "{" in text and "," in text:
        return "braces are not understood, so name each path"
    return "'..' may not follow a wildcard" if ".." in loose else ""


def _apart(text: str) -> tuple[str, Segments]:
    """Split a pattern into the path before its first wildcard and what follows."""
    parts = text.split("/")
    for at, part in enumerate(parts):
        if "*" in part or "?" in part:
            head = "/".join(parts[:at]) or ("/" if at else "")
            return head, tuple(p for p in parts[at:] if p not in {"", "."})
    return text, ()


def _split(path: str) -> Segments:
    return tuple(part for part in path.split("/") if part)


def _whole(pattern: str) -> Segments:
    """Give a pattern's parts, and those of everything below it if it ends in a plain name."""
    parts = _split(pattern)
    plain = not parts or not ("*" in parts[-1] or "?" in parts[-1])
    return (*parts, "**") if plain else parts


def _covers(pattern: Segments, path: Segments) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return _covers(pattern[1:], path) or (bool(path) and _covers(pattern, path[1:]))
    if not path or not _regex(pattern[0]).fullmatch(path[0]):
        return False
    return _covers(pattern[1:], path[1:])


@lru_cache(maxsize=1024)
def _regex(name: str) -> re.Pattern[str]:
    marks = {"*": ".*", "?": "."}
    return re.compile("".join(marks.get(c) or re.escape(c) for c in name), re.DOTALL)


@lru_cache(maxsize=4096)
def _meet(one: Segments, two: Segments) -> bool:
    if not one or not two:
        return all(part == "**" for part in (*one, *two))
    if one[0] == "**":
        return _meet(one[1:], two) or _meet(one, two[1:])
    if two[0] == "**":
        return _meet(one, two[1:]) or _meet(one[1:], two)
    return _names_meet(one[0], two[0]) and _meet(one[1:], two[1:])


def _names_meet(one: str, two: str) -> bool:
    """Whether some name fits both; letters of either case count as the same, as on some disks."""
    # Row i says which j are such that one[i:] and two[j:] can end together.
    below = [all(c == "*" for c in two[j:]) for j in range(len(two) + 1)]
    for i in range(len(one) - 1, -1, -1):
        row = [False] * (len(two) + 1)
        row[-1] = one[i] == "*" and below[-1]
        for j in range(len(two) - 1, -1, -1):
            if one[i] == "*":
                row[j] = below[j] or row[j + 1]
            elif two[j] == "*":
                row[j] = row[j + 1] or below[j]
            else:
                same = "?" in {one[i], two[j]} or one[i].casefold() == two[j].casefold()
                row[j] = same and below[j + 1]
        below = row
    return below[0]
