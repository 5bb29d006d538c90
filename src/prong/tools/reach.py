"""Commands that go through whole folders: what they touch is more than what they name.

A rule about a file is held against the words of a command line. That is not enough where a program
walks down from a folder: `grep -r x .` reads every file below. Such a command reaches as far as the
folders it names, and further if it follows the links that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from prong.tools.commandline import Simple
from prong.tools.harmless import is_option, prove_read_only
from prong.tools.word import Word, names


class Reach(Struct, frozen=True):
    """How far a command goes."""

    words: tuple[Word, ...]
    """The files and folders from which it goes down."""
    reads: bool = True
    """Whether it reads what the files hold, or only their names."""
    follows: bool = False
    """Whether it follows links on its way, which may lead anywhere."""


class _Walker(Struct, frozen=True):
    """A program that goes through folders, always or by an option."""

    deep: str = ""
    """Letters of the options by which it does; `always` if it needs none."""
    deep_long: frozenset[str] = frozenset()
    always: bool = False
    reads: bool = True
    follow: str = ""
    """Letters of the options by which it follows links."""
    follow_long: frozenset[str] = frozenset()


_ALWAYS = _Walker(always=True)
_GREP = _Walker(
    "rRd",
    names("recursive dereference-recursive directories"),
    follow="R",
    follow_long=names("dereference-recursive"),
)
_LIST = _Walker(always=True, reads=False, follow="L", follow_long=names("follow dereference"))
_WALKERS: dict[str, _Walker] = {
    **dict.fromkeys(names("grep egrep fgrep zgrep bzgrep xzgrep"), _GREP),
    **dict.fromkeys(names("rgrep ag ack ugrep ug tar bsdtar zip 7z cpio"), _ALWAYS),
    "rg": _Walker(always=True, follow="L", follow_long=names("follow")),
    # Two folders are compared file by file, at the first level without any option.
    "diff": _ALWAYS,
    **dict.fromkeys(names("cp scp rsync"), _Walker("rRa", names("recursive archive"))),
    **dict.fromkeys(names("fd fdfind du"), _LIST),
    "tree": _Walker(always=True, reads=False, follow="l"),
    "find": _Walker(always=True, reads=False),
}


def find_reach(simple: Simple) -> Reach | None:
    """Say how far a command goes, or None if it touches no more than it names."""
    if not simple.words:
        return None
    walker, rest = _WALKERS.get(simple.name), simple.words[1:]
    if simple.name == "git" and _searches(rest):
        walker = _ALWAYS
    if walker is None:
        return None
    unsure = any(word.loose for word in rest)
    if not (walker.always or unsure or _given(rest, walker.deep, walker.deep_long)):
        return None
    return Reach(_starts(simple), reads=walker.reads, follows=_follows(simple.name, walker, rest))


def _searches(words: Sequence[Word]) -> bool:
    """Whether git looks into files of the working tree, or compares folders outside of it."""
    return any(word.text == "grep" for word in words) or _given(words, "", names("no-index"))


def _follows(name: str, walker: _Walker, words: Sequence[Word]) -> bool:
    if name == "diff":
        down = _given(words, "r", names("recursive"))
        return down and not any(word.text == "--no-dereference" for word in words)
    if name == "find":
        return any(word.text in {"-L", "-follow"} for word in words)
    return _given(words, walker.follow, walker.follow_long)


def _given(words: Sequence[Word], letters: str, long: frozenset[str]) -> bool:
    return any(w.text[:1] == "-" and is_option(w.text, letters, long) for w in words)


def _starts(simple: Simple) -> tuple[Word, ...]:
    words = prove_read_only(simple)
    if words is None:
        words = tuple(word for word in simple.words[1:] if word.text[:1] != "-")
    # Without any, it starts in the folder it runs in.
    return words or (Word("."),)


_PLACING = names("rsync scp")


def landing(simple: Simple) -> list[Word]:
    """Give the names under which files may come to lie where a remote copy puts them.

    Of other copying commands `shape` knows the options.
    """
    if simple.name not in _PLACING:
        return []
    words = simple.words[1:]
    # The folder is the last word, or what an option such as -t names.
    places = [
        w for w, before in zip(words, (Word(""), *words), strict=False) if _may_hold(w, before)
    ]
    places += words[-1:]
    found = [
        (place, word.text.rstrip("/").rpartition("/")[2]) for place in places for word in words
    ]
    return [Word(f"{place.text}/{name}") for place, name in found if name not in {"", ".", ".."}]


def _may_hold(word: Word, before: Word) -> bool:
    return word.text.startswith("-") or before.text.startswith("-")
