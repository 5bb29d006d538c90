"""Whether a rule speaks of a command: what forbids matches loosely, what allows by the letter."""

from __future__ import annotations

import re
from typing import Literal

from prong.tools.commandline import Parsed, Simple
from prong.tools.harmless import has_safe_env
from prong.tools.rule import CommandPattern, Rule, command_pattern
from prong.tools.word import Word

Match = Literal["yes", "maybe", "no"]

EXACT = 1_000_000
"""All words of a command are spelled out."""


def match_line(rule: Rule, line: str, parsed: Parsed) -> Match:
    """Whether a forbidding rule matches any part of a command line."""
    if rule.specifier is None:
        return "yes"
    pattern = command_pattern(rule.specifier)
    if line == rule.specifier or (pattern.regex and pattern.regex.fullmatch(line)):
        return "yes"
    found = {_match_loosely(pattern, simple) for simple in parsed.commands}
    if "yes" in found:
        return "yes"
    if "maybe" in found or parsed.opaque:
        return "maybe"
    word = re.escape(pattern.words[0]) if pattern.words else ""
    spoken = any(re.search(rf"(?<![\w-]){word}(?![\w-])", code) for code in parsed.code)
    return "maybe" if spoken else "no"


def _match_loosely(pattern: CommandPattern, simple: Simple) -> Match:
    if not simple.words:
        return "no"
    text = " ".join([simple.name, *(word.text for word in simple.words[1:])])
    if pattern.regex is not None:
        texts = (text, " ".join(word.text for word in simple.words), simple.source)
        if any(pattern.regex.fullmatch(one) for one in texts):
            return "yes"
        return "maybe" if not all(word.sure for word in simple.words) else "no"
    if simple.source == " ".join(pattern.words):
        return "yes"
    first = Word(simple.name)
    wanted = tuple(word.rpartition("/")[2].lower() for word in pattern.words[:1])
    return _match_words(wanted + pattern.words[1:], (first, *simple.words[1:]), opened=pattern.open)


def _match_words(wanted: tuple[str, ...], given: tuple[Word, ...], *, opened: bool) -> Match:
    """Compare words; options may stand between, with or without a value of their own."""
    places, maybe = {0}, False
    for text in wanted:
        tried = _past_options(places, given)
        maybe = maybe or any(not given[at].sure or given[at].loose for at in tried)
        places = {at + 1 for at in tried if given[at].text == text and given[at].plain}
    if any(opened or at == len(given) for at in places):
        return "yes"
    if any(all(word.loose for word in given[at:]) for at in places):
        return "maybe"
    return "maybe" if maybe else "no"


def _past_options(places: set[int], given: tuple[Word, ...]) -> set[int]:
    """Return the places reached from these by passing over options and their values."""
    found: set[int] = set()
    waiting = list(places)
    while waiting:
        at = waiting.pop()
        if at >= len(given) or at in found:
            continue
        found.add(at)
        if given[at].text.startswith("-"):
            waiting += [at + 1, at + 2]
    return found


def match_strictly(pattern: CommandPattern, simple: Simple) -> int:
    """Return how many words an allowing pattern fixes in a command it matches, or 0."""
    env = () if has_safe_env(simple) else simple.env
    words = (*(Word(f"{n}={w.text}", sure=w.plain) for n, w in env), *simple.words)
    if pattern.regex is not None:
        clear = all(w.plain and not re.search(r"\s", w.text) for w in words)
        return int(clear and bool(pattern.regex.fullmatch(" ".join(w.text for w in words))))
    size = len(pattern.words)
    if not pattern.open and simple.source == " ".join(pattern.words) and len(words) > 0:
        return EXACT if all(w.plain for w in words) else 0
    fixed = words[:size]
    if len(fixed) < size or not size:
        return 0
    if any(not w.plain or w.text != p for w, p in zip(fixed, pattern.words, strict=True)):
        return 0
    if pattern.open:
        return size
    return EXACT if len(words) == size else 0
