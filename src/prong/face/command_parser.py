"""Reads the words of a command; what is not known is named, with what may be meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any

from prong.errors import nearest


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no shortened options and says which one a mistyped one may be."""

    def __init__(self, **given: Any) -> None:
        """Take what a parser takes."""
        super().__init__(allow_abbrev=False, **given)

    def add_actions(self) -> Callable[..., argparse.ArgumentParser]:
        """Let a word say what to do; gives what makes the parser of such a word."""
        made = self.add_subparsers(
            dest="action", required=True, metavar="ACTION", parser_class=_ActionParser
        )
        return made.add_parser

    def parse_args(  # pyright: ignore[reportIncompatibleMethodOverride] # no namespace is ever given
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """Read the words; a wrong one ends the program, as everywhere in argparse."""
        read, extra = self.parse_known_args(args, namespace)
        if extra and self._subparsers is None:
            # A word that may be left out, behind an option that stands behind another word.
            read, extra = self.parse_known_intermixed_args(args, namespace)
        self.refuse(extra)
        return read

    def parse_mixed(self, words: Sequence[str]) -> argparse.Namespace:
        """Read words and options in any order."""
        read, extra = self.parse_known_intermixed_args(words)
        self.refuse(extra)
        return read

    def refuse(self, extra: Sequence[str]) -> None:
        """End the program if there are words that nobody has read."""
        if wrong := first_option(extra):
            self.error(f"there is no option {wrong}{hint(self, wrong)}")
        if extra:
            self.error(f"{extra[0]!r} is one word too many")


class _ActionParser(CommandParser):
    """Reads what follows such a word, and knows best which of its options was meant."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] # as argparse calls it
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read the words; a wrong one ends the program here, not where they came from."""
        read, extra = super().parse_known_args(args, namespace)
        self.refuse(extra)
        return read, extra


def first_option(words: Sequence[str]) -> str:
    """Give the first word that looks like an option, without its value."""
    return next(
        (word.partition("=")[0] for word in words if word.startswith("-") and word != "-"), ""
    )


def hint(parser: argparse.ArgumentParser, wrong: str) -> str:
    """Say which option may be meant."""
    known = re.findall(r"(?<!\S)--?\w[\w-]*", parser.format_help())
    close = nearest(wrong, known)
    return f"; did you mean {close}?" if close else "; --help lists them"
