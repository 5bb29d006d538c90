"""Where on the command line one can be, and what may stand there, as shells see it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from prong.face.command_grammar import parser_of
from prong.face.flag import make_parser

_FILES = frozenset({"FILE", "JSON|FILE", "A B", "session", "file"})
_FOLDERS = frozenset({"DIR", "SOURCE", "folder"})


class Flag(msgspec.Struct, frozen=True):
    """One flag as shells see it."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes: str
    """What follows: nothing, `files`, `folders`, or `words`."""


class CommandPlace(msgspec.Struct, frozen=True):
    """What stands behind a command, or behind it and a word that says what to do."""

    path: str
    """These words; empty before and without a command."""
    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    """One of which comes next."""
    takes: str
    """What comes next otherwise, as behind a flag."""


def places(commands: Mapping[str, str]) -> list[CommandPlace]:
    """Give all places, the one without a command first."""
    own = _flags(make_parser(commands))
    found = [CommandPlace("", own, tuple(commands), "files")]
    for name in commands:
        if name == "acp":
            found.append(CommandPlace(name, own, (), ""))
        else:
            found += _read(parser_of(name), name)
    return found


def _read(parser: argparse.ArgumentParser, path: str) -> Iterator[CommandPlace]:
    flags = _flags(parser)
    given = [action for action in _actions(parser) if not action.option_strings]
    choices = given[0].choices if given else None
    if choices is None:
        yield CommandPlace(path, flags, (), _takes(given[0]) if given else "")
        return
    words = tuple(map(str, choices))
    yield CommandPlace(path, flags, words, "")
    for word in words:
        if isinstance(choices, Mapping):
            parsers = cast("Mapping[str, argparse.ArgumentParser]", choices)
            yield from _read(parsers[word], f"{path} {word}")
        else:
            yield CommandPlace(f"{path} {word}", flags, (), _takes(given[1]) if given[1:] else "")


def _actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    return parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] # no other way to list them


def _flags(parser: argparse.ArgumentParser) -> tuple[Flag, ...]:
    return tuple(
        Flag(
            tuple(action.option_strings),
            " ".join((action.help or "").split()),
            tuple(map(str, action.choices or ())),
            "" if action.nargs == 0 else _takes(action),
        )
        for action in _actions(parser)
        if action.option_strings
    )


def _takes(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    if name in _FOLDERS:
        return "folders"
    return "files" if name in _FILES else "words"
