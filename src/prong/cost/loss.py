"""What it costs to give up a cached conversation, before anybody does: pure arithmetic.

Going on reads the whole conversation from the cache, if that is still warm. Another model, another
effort or other tools make a new prompt, which has to be written as a whole; a summary has to be
written by the model and then into the cache; an empty conversation costs nothing more, but what was
cached is of no more use.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.cost.mark import LIFETIME
from prong.cost.price import Price
from prong.wire import Ttl

Move: TypeAlias = Literal["model", "effort", "tools", "compact", "clear"]
"""What somebody is about to do."""

_SUMMARY = 2_000
"""Tokens of a summary, as far as one can know beforehand."""
_PER = 1_000_000
_WHO = {
    "model": "another model",
    "effort": "another effort",
    "tools": "with other tools the model",
}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation has in the cache now."""

    tokens: int
    """That its next request would have."""
    head: int
    """Of those, what every conversation of this session begins with."""
    price: Price | None
    idle: float
    """Seconds since its last request."""
    ttl: Ttl = "5m"

    @property
    def warm(self) -> bool:
        """Whether the provider still holds it."""
        return self.idle < LIFETIME[self.ttl]


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What a move costs more than going on."""

    tokens: int
    """That have to be written anew."""
    extra: float | None
    """Dollars; None when a price is unknown."""
    text: str
    """In one sentence, for people."""


def foresee(move: Move, now: Standing, then: Price | None = None) -> Loss:
    """Say what a move costs more than going on; `then` is the price of another model."""
    match move:
        case "model" | "effort" | "tools":
            return _anew(move, now, then if move == "model" else now.price)
        case "compact":
            return _summary(now)
        case "clear":
            told = (
                f"the {now.tokens:,} tokens of this conversation are given up; the next request "
                "costs no more, but to come back to them means writing them anew"
            )
            return Loss(tokens=0, extra=0.0, text=told)


def _anew(move: Literal["model", "effort", "tools"], now: Standing, then: Price | None) -> Loss:
    told = f"{_WHO[move]} has to read all {now.tokens:,} tokens anew"
    if now.price is None or then is None:
        return Loss(tokens=now.tokens, extra=None, text=f"{told}; the price is unknown")
    paid = now.tokens * _write(then, now.ttl)
    extra = (paid - now.tokens * _going_on(now)) / _PER
    return Loss(tokens=now.tokens, extra=max(0.0, extra), text=f"{told}: {_more(extra, now)}")


def _summary(now: Standing) -> Loss:
    told = f"a summary of {now.tokens:,} tokens is written, and then kept in the cache"
    if now.price is None:
        return Loss(tokens=_SUMMARY, extra=None, text=f"{told}; the price is unknown")
    made = now.tokens * _going_on(now) + _SUMMARY * now.price.output
    following = now.head * now.price.read + _SUMMARY * _write(now.price, now.ttl)
    extra = (made + following - now.tokens * _going_on(now)) / _PER
    saved = max(0, now.tokens - now.head - _SUMMARY)
    after = f"; afterwards each request reads about {saved:,} tokens fewer" if saved else ""
    return Loss(tokens=_SUMMARY, extra=extra, text=f"{told}: {_more(extra, now)}{after}")


def _more(extra: float, now: Standing) -> str:
    if extra <= 0:
        return "that costs no more than going on"
    warm = "" if now.warm else " (the cache is cold already)"
    return f"about ${extra:.4f} more than going on{warm}"


def _going_on(now: Standing) -> float:
    """Give what a token of the next request costs if nothing is changed."""
    assert now.price is not None
    return now.price.read if now.warm else _write(now.price, now.ttl)


def _write(price: Price, ttl: Ttl) -> float:
    by_ttl = {"5m": price.write_5m, "1h": price.write_1h, "30m": price.write_30m}
    return by_ttl.get(ttl, price.write_12h)
