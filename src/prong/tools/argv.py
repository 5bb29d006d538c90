"""Options as getopt reads them: glued, clustered and shortened.

`cp -vt/etc f` has the option `-t` with a value, and `env --s=CMD` is `--split-string`. A program's
table lists all options that it is known to have; one that is not in it, or that could be several,
makes the whole reading unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from prong.tools.word import Word

Arity = Literal["alone", "valued", "glued"]
"""Whether an option takes a value: never, always (glued or the next word), or only a glued one."""


class KnownOptions(Struct, frozen=True):
    """All options that a program is known to have."""

    short: dict[str, Arity] = {}
    long: dict[str, Arity] = {}
    numeric: bool = False
    """Whether a number may stand for an option, as in `nice -5`."""


class ParsedOption(Struct, frozen=True):
    """One option that was given."""

    name: str
    """Its letter, or its whole long name."""
    value: Word | None = None


class ParsedArguments(Struct, frozen=True):
    """The options and operands of a command."""

    options: tuple[ParsedOption, ...]
    operands: tuple[Word, ...]
    at: int
    """Where the first operand stands, if options end there."""
    known: bool
    """Whether every option is in the table, and none can turn out to be another word."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the options."""
        return frozenset(option.name for option in self.options)


def options(short: str = "", long: str = "", *, numeric: bool = False) -> KnownOptions:
    """Write a table as getopt has it: `a` alone, `b:` valued, `c::` glued; `x`, `x=`, `x=?`."""
    letters: dict[str, Arity] = {
        letter: _ARITIES[colons] for letter, colons in re.findall(r"(\w)(:*)", short)
    }
    words: dict[str, Arity] = {
        name: "glued" if end == "=?" else "valued" if end else "alone"
        for name, end in re.findall(r"([\w-]+)(=\??|)", long)
    }
    return KnownOptions(letters, words, numeric)


_ARITIES: dict[str, Arity] = {"": "alone", ":": "valued", "::": "glued"}


def read_options(
    table: KnownOptions, words: Sequence[Word], start: int = 1, *, mixed: bool = False
) -> ParsedArguments:
    """Read the options of a command from `start` on; `mixed`, also those behind operands."""
    found: list[ParsedOption] = []
    operands: list[Word] = []
    at, known, ended = start, True, False
    while at < len(words):
        word = words[at]
        known = known and (ended or not word.loose)
        if ended or (word.sure and (word.text == "-" or not word.text.startswith("-"))):
            if not mixed:
                break
            operands.append(word)
        elif word.text == "--" and word.sure:
            ended = True
        elif not word.sure:
            break
        else:
            sure, given, wants = _split(table, word.text)
            known = known and sure
            if wants:
                at += 1
                given[-1] = ParsedOption(given[-1].name, words[at] if at < len(words) else None)
            found += given
        at += 1
    return ParsedArguments(tuple(found), tuple(operands), at, known)


def _split(table: KnownOptions, text: str) -> tuple[bool, list[ParsedOption], bool]:
    """Take one word of options apart: whether all are known, them, and if a value is to come."""
    if table.numeric and re.fullmatch(r"-[-+]?\d+", text):
        return True, [ParsedOption("number")], False
    if text.startswith("--"):
        return _split_long(table, text[2:])
    found: list[ParsedOption] = []
    known = True
    for place, letter in enumerate(text[1:], 2):
        arity = table.short.get(letter)
        known = known and arity is not None
        rest = text[place:]
        if arity in {"valued", "glued"}:
            found.append(ParsedOption(letter, Word(rest) if rest else None))
            return known, found, arity == "valued" and not rest
        found.append(ParsedOption(letter))
    return known, found, False


def _split_long(table: KnownOptions, text: str) -> tuple[bool, list[ParsedOption], bool]:
    name, equals, value = text.partition("=")
    fitting = [name] if name in table.long else matching(name, table.long)
    given = [ParsedOption(one, Word(value) if equals else None) for one in fitting or [name]]
    if len(fitting) != 1:
        return False, given, False
    arity = table.long[fitting[0]]
    return not (equals and arity == "alone"), given, arity == "valued" and not equals


def matching(name: str, names: Iterable[str]) -> list[str]:
    """Return the long names that a name may be short for."""
    return [one for one in names if one.startswith(name)]
