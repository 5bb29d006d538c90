"""What is known of models besides their prices: data with a date, matched by name.

No list of models is closed here: an unknown name gets safe defaults, and settings override them.
Facts as of 2026-11-15. How much a model reads stands in the catalogue; what stands here is for
names that the catalogue does not know, such as those of gateways.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from prong.cost.catalog import listed
from prong.provider import is_local


class Fact(msgspec.Struct, frozen=True):
    """What the runtime needs to know of a model."""

    context: int = 128_000
    """Tokens the model can read at most, if the catalogue does not say; see `window`."""
    min_prefix: int = 1_024
    """Prefixes shorter than this are not cached."""
    keeps_thinking: bool = True
    """Whether thinking of earlier turns stays in the prompt when user text arrives."""
    max_output: int | None = None
    """Tokens to allow for one reply; None leaves it to the provider."""


_MILLION = 1_000_000
LONG = _MILLION
"""Tokens of the window that `[1m]` behind a name asks for."""
LONG_BETA = "context-1m-2025-08-07"
"""What a request for that window must name, where it is not the usual one."""
_RULES: tuple[tuple[str, Fact], ...] = (
    (r"^local(:|$)", Fact(8_192, 1, max_output=1_024)),
    (
        r"claude-(opus|sonnet|haiku)-5-5|claude-opus-5|claude-(fable|mythos)-",
        Fact(_MILLION, 512, max_output=64_000),
    ),
    (
        r"claude-opus-4-8|claude-sonnet-5|claude-sonnet-4-6",
        Fact(_MILLION, 1_024, max_output=64_000),
    ),
    (r"claude-opus-4-7", Fact(_MILLION, 2_048, max_output=64_000)),
    (r"claude-opus-4-6", Fact(_MILLION, 4_096, max_output=64_000)),
    (r"claude-opus-4-5", Fact(200_000, 4_096, max_output=64_000)),
    (r"claude-haiku-4-5", Fact(200_000, 4_096, keeps_thinking=False, max_output=64_000)),
    (r"claude-(3-5-)?haiku", Fact(200_000, 2_048, keeps_thinking=False, max_output=8_000)),
    (r"claude-(opus|sonnet)-4", Fact(200_000, 1_024, keeps_thinking=False, max_output=32_000)),
    (r"claude-", Fact(200_000, 1_024, max_output=32_000)),
    (r"gemini-2\.5", Fact(1_048_576, 2_048)),
    (r"gemini-[3-9]", Fact(1_048_576, 4_096)),
    (r"gpt-4\.1", Fact(_MILLION)),
    (r"gpt-4o", Fact(128_000)),
    (r"gpt-[5-9]", Fact(400_000)),
)


@lru_cache(maxsize=64)
def fact(model: str) -> Fact:
    """Look a model up by name."""
    for pattern, known in _RULES:
        if re.search(pattern, model):
            return known
    return Fact()


@lru_cache(maxsize=64)
def window(model: str, *, long: bool = False) -> int:
    """Say how many tokens a model can read at most, `long` if it is asked for its longest window.

    A model has a longer window than the usual one if requests that fit only there have a price.
    """
    known = None if is_local(model) else listed(model)
    usual = (known.context if known else None) or fact(model).context
    if long and known and any(grade.above >= usual for grade in known.grades):
        return LONG
    return usual
