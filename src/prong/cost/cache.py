"""How a provider keeps what an agent sends: what a plan may count on, and a reply is held to."""

from __future__ import annotations

import math

import msgspec

from prong.cost.fact import fact
from prong.cost.mark import LIFETIME, takes_marks, ttl_of
from prong.prompt import Head
from prong.provider import Trait
from prong.wire import Ttl

_MARGIN = 20.0
"""Seconds before an entry's end at which it no longer counts as cached."""

_STEP = 128
"""Tokens in whose multiples a provider counts that caches by itself."""


class CacheRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a provider's cache for one head."""

    ttl: Ttl
    """How long an entry lives after its last use."""
    lasting: bool
    """Whether entries stay until their room is needed, and not for a time."""
    marked: bool
    """Whether entries are written where they are asked for, and counted."""
    minimum: int
    """The shortest prefix that is cached, in tokens."""
    keeps_thinking: bool
    """Whether earlier thinking stays when plain user text arrives."""
    rounds_to: int
    """Tokens that a reader may miss at the end of an entry."""

    @property
    def lives(self) -> float:
        """Seconds for which an entry may be counted on after its last use."""
        return math.inf if self.lasting else LIFETIME[self.ttl] - _MARGIN


def cache_rule(head: Head, trait: Trait, ttl: Ttl | None) -> CacheRule:
    """Say by which rules prompts with a head are cached; `ttl` is what the user has set."""
    known, marked = fact(head.model), takes_marks(head)
    step = 0 if marked else _STEP
    return CacheRule(
        ttl=ttl_of(head, ttl),
        lasting=trait.lasting,
        marked=marked,
        minimum=known.min_prefix,
        keeps_thinking=known.keeps_thinking,
        rounds_to=step if trait.slack is None else trait.slack,
    )
