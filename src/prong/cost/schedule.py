"""How N siblings start: with or without the dispatching reply, all at once or one ahead.

Pure arithmetic in input-token equivalents, from what is known before the first child sends. With N
siblings, r and w the prices of reading and writing, a base of `cached` and `fresh` tokens:

    at once   N * (r * cached + w * fresh)
    leader    N * r * cached + w * fresh + (N - 1) * r * fresh
    prewarm   as leader, and one more read of the base

and N * turns * r * (cached + fresh) for the later requests, which read the base again. Dispatch
`keep` puts the dispatching reply and its placeholders into the fresh part; with `drop` the parent
alone writes them, once. Directives cost the same whatever is chosen, so they are left out.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.cost.price import Price
from prong.wire import Ttl

Dispatch: TypeAlias = Literal["keep", "drop"]
"""Whether children see the reply that dispatched them."""

Schedule: TypeAlias = Literal["at_once", "leader", "prewarm"]
"""Who sends first: everybody, one child, or a request without output."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What reading and writing a cached token cost, in units of an uncached input token."""

    read: float = 0.1
    write: float = 1.25


_FREE = Rates(read=0.0, write=1.0)
"""Where tokens cost no money they cost the time to compute them, and what is read takes none."""


class FanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The choice, and the numbers it was made by."""

    dispatch: Dispatch
    schedule: Schedule
    reason: str
    """One sentence for the receipt."""
    size: int
    """Siblings."""
    cached: int
    """Tokens of the base that the provider should have cached when the first child sends."""
    fresh: int
    """Tokens of the base that it has not."""
    estimates: dict[str, float] = {}
    """Cost of the alternatives in input-token equivalents, such as `keep/at_once`."""


# Children that see why they were sent out work better, so a little more may be paid for that.
_KEEP_MARGIN = 0.005
# A live parent leaves its last reply uncached, seldom more than this of a conversation worth
# forking; N small writes cost less than everybody's wait for a leader's first event.
_SMALL_SHARE = 0.1
_SMALL = 1_024


def rates(price: Price | None, ttl: Ttl = "5m") -> Rates:
    """Give a model's prices relative to its input price; the usual ones if they are unknown.

    Of a model whose input is free the tokens to be computed are counted instead.
    """
    if price is None:
        return Rates()
    if price.input <= 0:
        return _FREE
    write: float = getattr(price, f"write_{ttl}")
    return Rates(read=price.read / price.input, write=write / price.input)


class _Fan(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a fan-out before it starts."""

    size: int
    cached: int
    stale: int
    """Tokens the parent sent that are cached no more."""
    tail: int
    dispatch: int
    turns: int
    rates: Rates
    minimum: int

    def fresh(self, dispatch: Dispatch) -> int:
        return self.stale + self.tail + (self.dispatch if dispatch == "keep" else 0)

    def cost(self, dispatch: Dispatch, schedule: Schedule) -> float:
        n, r, w = self.size, self.rates.read, self.rates.write
        fresh = self.fresh(dispatch)
        base = self.cached + fresh
        later = n * self.turns * r * base
        parent = w * self.dispatch if dispatch == "drop" else 0.0
        match schedule:
            case "at_once":
                first = n * (r * self.cached + w * fresh)
            case "leader" | "prewarm":
                first = n * r * self.cached + w * fresh + (n - 1) * r * fresh
                first += r * base if schedule == "prewarm" else 0.0
        return first + later + parent

    def schedule(self, dispatch: Dispatch) -> Schedule:
        fresh = self.fresh(dispatch)
        base = self.cached + fresh
        if self.size < 2 or base < self.minimum or fresh < max(_SMALL, _SMALL_SHARE * base):
            return "at_once"
        # The first of equals is taken: nobody waits for nothing.
        ways: tuple[Schedule, ...] = ("at_once", "leader", "prewarm")
        return min(ways, key=lambda schedule: self.cost(dispatch, schedule))


def plan_fan(  # noqa: PLR0913 - one keyword for each thing that decides
    *,
    size: int,
    cached: int,
    dispatch_tokens: int,
    tail_tokens: int,
    turns: int = 3,
    rates: Rates,
    warm: bool,
    dispatch: Dispatch | None = None,
    schedule: Schedule | None = None,
    carry: bool = False,
    minimum: int = _SMALL,
) -> FanPlan:
    """Choose how siblings start; what is given as `dispatch` or `schedule` is not chosen.

    `cached` are the tokens of the parent's prompt as it was last sent and `warm` says whether their
    entry still lives; `tail_tokens` stand after them in every child anyway, and `dispatch_tokens`
    are the dispatching reply with its placeholders. `turns` are the requests of a child after its
    first, `minimum` the shortest prefix the model caches. With `carry` the model drops earlier
    thinking when plain user text arrives: the directive must travel inside a result of the
    dispatching reply, and where it cannot, the base counts as not cached.
    """
    lost = carry and (dispatch == "drop" or not dispatch_tokens)
    live = warm and not lost
    fan = _Fan(
        size=size,
        cached=cached if live else 0,
        stale=0 if live else cached,
        tail=tail_tokens,
        dispatch=dispatch_tokens,
        turns=turns,
        rates=rates,
        minimum=minimum,
    )
    kept, dispatch_reason = _dispatch(fan, dispatch, schedule, carry=carry, lost=lost)
    chosen = schedule or fan.schedule(kept)
    schedule_reason = _schedule_reason(fan, kept, chosen, asked=schedule is not None)
    return FanPlan(
        dispatch=kept,
        schedule=chosen,
        reason=f"{dispatch_reason}; {schedule_reason}",
        size=size,
        cached=fan.cached,
        fresh=fan.fresh(kept),
        estimates=_estimates(fan),
    )


def _estimates(fan: _Fan) -> dict[str, float]:
    dispatches: tuple[Dispatch, ...] = ("keep", "drop") if fan.dispatch else ("keep",)
    schedules: tuple[Schedule, ...] = ("at_once", "leader", "prewarm")
    return {f"{d}/{s}": fan.cost(d, s) for d in dispatches for s in schedules}


def _dispatch(
    fan: _Fan, asked: Dispatch | None, schedule: Schedule | None, *, carry: bool, lost: bool
) -> tuple[Dispatch, str]:
    if lost:
        why = "the model drops earlier thinking at a plain directive, so the base counts as a miss"
        return asked or "keep", why
    if carry:
        why = "the model drops earlier thinking at plain text, so the directive is in a result"
        return "keep", f"keep, since {why}"
    if asked is not None:
        return asked, f"{asked} as asked"
    if not fan.dispatch:
        return "keep", "there is no dispatching reply"
    if fan.size == 1:
        return "keep", f"keep, since one child writes the {fan.dispatch:,} tokens as the parent had"
    keep = fan.cost("keep", schedule or fan.schedule("keep"))
    drop = fan.cost("drop", schedule or fan.schedule("drop"))
    more = keep / drop - 1 if drop else 0.0
    chosen: Dispatch = "keep" if more <= _KEEP_MARGIN else "drop"
    rule = "at most" if chosen == "keep" else "more than"
    return chosen, (
        f"{chosen}, since the {fan.dispatch:,} tokens of the dispatch in {fan.size} children cost "
        f"{more:+.2%} ({keep:,.0f} against {drop:,.0f}), {rule} {_KEEP_MARGIN:.1%}"
    )


def _schedule_reason(fan: _Fan, dispatch: Dispatch, schedule: Schedule, *, asked: bool) -> str:
    fresh = fan.fresh(dispatch)
    base = fan.cached + fresh
    at_once, chosen = fan.cost(dispatch, "at_once"), fan.cost(dispatch, schedule)
    share = f"{fan.cached:,} of {base:,} tokens are cached"
    if schedule == "at_once":
        ahead = fan.cost(dispatch, "leader")
        told = f"{chosen:,.0f} against {ahead:,.0f} with a leader"
    else:
        told = f"{chosen:,.0f} against {at_once:,.0f} at once"
    words = {"at_once": "at once", "leader": "leader first", "prewarm": "pre-warmed"}
    why = " as asked" if asked else ", one child" if fan.size == 1 else ""
    return f"{words[schedule]}{why}, {share} ({told})"
