"""What the cache has to know about a model, told from its name."""

from __future__ import annotations

import re

import msgspec


class Model(msgspec.Struct, frozen=True):
    """The cache-relevant traits of a model."""

    minimum: int = 1024
    """The least number of tokens that is cached."""
    keeps_thinking: bool = True
    """Whether thinking of earlier turns stays in the prompt when plain user text arrives."""
    binds_thinking: bool = False
    """Whether thinking is refused when the model or what stands before it has changed."""
    exact: bool = True
    """At OpenAI: whether entries are written at breakpoints and paid for."""
    long_lived: bool = False
    """Whether a model that caches by itself keeps entries for a day."""


_CLAUDE = re.compile(r"claude-([a-z]+)-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")

_MINIMA: dict[str, int] = {
    "opus-5": 512,
    "opus-5.5": 512,
    "sonnet-5.5": 512,
    "haiku-5.5": 512,
    "fable-5": 512,
    "fable-5.1": 512,
    "fable-5.2": 512,
    "mythos-5": 512,
    "mythos-5.1": 512,
    "mythos-5.2": 512,
    "opus-4.8": 1024,
    "sonnet-5": 1024,
    "sonnet-4.6": 1024,
    "sonnet-4.5": 1024,
    "opus-4.7": 2048,
    "opus-4.6": 4096,
    "opus-4.5": 4096,
    "haiku-4.5": 4096,
}
_KEEPS_FROM: dict[str, tuple[int, int]] = {
    "opus": (4, 5),
    "sonnet": (4, 6),
    "haiku": (4, 6),
}
_BINDS_FROM: dict[str, tuple[int, int]] = {
    "opus": (5, 5),
    "sonnet": (5, 5),
    "fable": (5, 1),
}


def is_claude(name: str) -> bool:
    """Say whether a model is Anthropic's, by whatever API it is asked."""
    return "claude-" in name


def known(name: str) -> Model:
    """Tell a model's traits from its name; a stranger gets the defaults."""
    found = _CLAUDE.search(name)
    if found:
        family, major, minor = found[1], int(found[2]), int(found[3] or 0)
        short = f"{family}-{major}.{minor}" if minor else f"{family}-{major}"
        version = (major, minor)
        return Model(
            minimum=_MINIMA.get(short, 1024),
            keeps_thinking=version >= _KEEPS_FROM.get(family, (0, 0)),
            binds_thinking=family in _BINDS_FROM and version >= _BINDS_FROM[family],
        )
    if name.startswith("claude-mythos-preview"):
        return Model(minimum=2048)
    if name.startswith("claude-3"):
        return Model(minimum=2048 if "haiku" in name else 1024, keeps_thinking=False)
    found = _GPT.search(name)
    if not found:
        return Model(exact=False)
    version = (int(found[1]), int(found[2] or 0))
    return Model(exact=version >= (5, 6), long_lived=version == (5, 5))
