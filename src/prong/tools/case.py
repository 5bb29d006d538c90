"""A command line under judgement, and the paths that its words may name."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property

from msgspec import Struct

from prong.system.path_form import is_unclear_word
from prong.tools.access import Running
from prong.tools.commandline import Folders, Parsed, parse_command
from prong.tools.ground import Policy
from prong.tools.harmless import prove_read_only
from prong.tools.reach import landing
from prong.tools.shape import Shape, landings, read_shape
from prong.tools.word import Word

Resolve = Callable[[str], str]
"""Turns an absolute path with dots and links into the one it stands for."""

FREE = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/\d+)")
"""What everybody may use."""


class Case(Struct, frozen=True, dict=True):
    """A command line under judgement."""

    policy: Policy
    line: str
    parsed: Parsed
    resolve: Resolve
    shape: Shape
    cwd: str
    """Where the line begins."""

    @cached_property
    def paths(self) -> tuple[tuple[str, bool], ...]:
        """Every path that a word may name, and whether it may be written there."""
        return tuple(_paths_of(self))

    def settles(self, place: int, path: str) -> bool:
        """Whether a path is still what it was when a part of the line comes to use it."""
        free = path.removesuffix("/.") == self.policy.root or FREE.fullmatch(path) is not None
        return free or self.shape.settles(place, path, self.resolve)


def read_case(policy: Policy, run: Running, resolve: Resolve) -> Case:
    """Parse a command line for judgement; each path is followed once, for all who look at it."""
    resolve = cache(resolve)
    parsed = parse_command(run.command, run.cwd, policy.home)
    return Case(policy, run.command.strip(), parsed, resolve, read_shape(parsed, resolve), run.cwd)


def _paths_of(case: Case) -> Iterator[tuple[str, bool]]:
    for simple in case.parsed.commands:
        changes = prove_read_only(simple) is None
        for word in (*simple.words[1:], *landings(simple), *landing(simple)):
            for path in possible_paths(case, word, simple.folders):
                yield path, False
                if changes:
                    yield path, True
    for targets, writing in ((case.parsed.reads, False), (case.parsed.writes, True)):
        for target in targets:
            for path in possible_paths(case, target.word, target.folders):
                yield path, writing


def paths_named(policy: Policy, run: Running, resolve: Resolve) -> Iterator[tuple[str, bool]]:
    """Yield every path that a command line may name or work in, and whether it may write there."""
    case = read_case(policy, run, resolve)
    yield from case.paths
    for simple in case.parsed.commands:
        for folder in simple.folders or ():
            yield resolve(folder), prove_read_only(simple) is None


def path_words(case: Case) -> Iterator[tuple[Word, Folders, int]]:
    """Yield the words that may be paths, the folders they start from, and their place."""
    for simple in case.parsed.commands:
        proven = prove_read_only(simple)
        for word in simple.words[1:] if proven is None else proven:
            yield word, simple.folders, simple.place
    for target in (*case.parsed.reads, *case.parsed.writes):
        yield target.word, target.folders, target.place


def join_paths(case: Case, word: Word, folders: Folders) -> list[str]:
    """Give what a word is in each folder in which it may be looked for."""
    return [os.path.join(f, word.text) for f in folders or (case.policy.root,)]  # noqa: PTH118 - pure text


def possible_paths(case: Case, word: Word, folders: Folders) -> Iterator[str]:
    """Yield the paths that a word may stand for, also behind an option's name."""
    texts = [word.text]
    if word.text.startswith("-"):
        # Behind a letter that takes a value, wherever it stands among others.
        letters = re.match(r"-[A-Za-z0-9]{0,12}", word.text)
        texts = [word.text[at:] for at in range(2, len(letters[0]) + 1 if letters else 2)]
    if "=" in word.text:
        texts.append(word.text.partition("=")[2])
    if ":" in word.text:
        texts += word.text.split(":")
    for text in texts:
        if text:
            for folder in folders or (case.policy.root,):
                yield case.resolve(os.path.join(folder, text))  # noqa: PTH118 - pure text


def sure_paths(case: Case, word: Word, folders: Folders, place: int) -> tuple[str, ...] | None:
    """Return the absolute paths a word stands for at its place, or None if nobody knows."""
    if is_unclear_word(word.text):
        return None
    if not word.sure or (word.glob and re.search(r"(?:^|/)\.[^/]*[*?\[]", word.text)):
        return None
    if folders is None:
        return (case.resolve(word.text),) if word.text.startswith("/") else None
    joined = join_paths(case, word, folders)
    if not all(case.settles(place, path) for path in joined):
        return None
    return tuple(case.resolve(path) for path in joined)
