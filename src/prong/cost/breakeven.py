"""Fork, hire fresh agents with a brief, or go on alone: what each would cost.

Amounts are in input-token equivalents. A request reads what its lineage sent before at r, and
writes what it adds at w; output counts at the output price. So, per option:

    fork    N children on the parent's prefix: the start as planned, then every turn reads the whole
            prefix and the child's own growth; the parent reads its history to take the notices
    fresh   the parent writes N briefs as *output*; every child writes system, tools and brief for
            itself and needs further turns to find out what the parent knows already
    alone   the parent does all the turns itself, on a history that grows by all of them

The request in which the parent decides is common to all and left out.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.cost.mark import LIFETIME
from prong.cost.price import Price, Prices
from prong.cost.schedule import Dispatch, FanPlan, Rates, Schedule, plan_fan
from prong.cost.schedule import rates as rates_of
from prong.wire import Ttl

Way: TypeAlias = Literal["fork", "fresh", "alone"]

OUTPUT_RATE = 5.0
"""What an output token costs in input tokens where the price is unknown."""

_PER = 1_000_000
_MOST_TURNS = 200


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, in tokens and turns."""

    history: int
    """The parent's prompt as it was last sent."""
    children: int
    turns: int = 3
    """Requests of each child that the work itself takes."""
    growth: int = 1_000
    """What a turn adds to its prompt: reply and results."""
    directive: int = 100
    dispatch: int = 500
    """The parent's dispatching reply; 0 for forks made by hand."""
    placeholders: int = 200
    """The results of all its calls."""
    tail: int = 0
    """What stands after the history in every child anyway: for forks by hand the last reply."""
    reply: int = 150
    """Output of a turn."""
    report: int = 300
    """Output of a child's last turn, and input of the parent."""
    closing: int = 300
    """Output of the parent when it takes notices."""
    wakes: int = 1
    """In how many requests the parent takes the notices: one, or up to one per child.

    0 if the reports go to a program instead.
    """
    brief: int = 1_500
    """What a fresh agent must be told."""
    setup: int = 4_000
    """System text and tools of a fresh agent."""
    explore: int = 4
    """Turns a fresh agent needs to find out what the parent knows."""
    idle: float = 0.0
    """Seconds since the history was last sent."""
    ttl: Ttl = "5m"
    how: Dispatch | None = None
    """None lets the plan choose."""
    schedule: Schedule | None = None
    """None lets the plan choose."""

    @property
    def cold(self) -> bool:
        """Whether the history's cache entry has expired."""
        return self.idle >= LIFETIME[self.ttl]


class WayCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one way would cost."""

    way: Way
    first: float
    """Input of the first requests, and of what the dispatch adds to the parent."""
    input: float
    """All input, in input-token equivalents."""
    output: int
    """Output tokens."""
    requests: int
    equivalents: float
    """Input and output together."""
    cost: float | None
    """In dollars; None when the model's price is unknown."""
    children: float = 0.0
    """What the children themselves pay of that, in input-token equivalents."""
    children_cost: float | None = None
    """The same in dollars."""


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """The three options side by side."""

    scenario: Scenario
    rates: Rates
    output_rate: float
    plan: FanPlan
    """How the fork would start."""
    first_child: float
    """Input of the first child's first request."""
    each_other: float
    """Input of every other child's first request."""
    uncached: float
    """The children's first requests without any cache."""
    fork: WayCost
    fresh: WayCost
    alone: WayCost
    until_turns: int | None = None
    """Turns per child up to which a fork costs no more than fresh agents; None: for ever."""

    @property
    def options(self) -> tuple[WayCost, WayCost, WayCost]:
        """All three, the cheapest first."""
        a, b, c = sorted((self.fork, self.fresh, self.alone), key=lambda o: o.equivalents)
        return a, b, c

    @property
    def best(self) -> Way:
        """The cheapest way."""
        return self.options[0].way


def estimate(
    scenario: Scenario,
    *,
    model: str = "",
    price: Price | None = None,
    rates: Rates | None = None,
    output_rate: float | None = None,
) -> BreakEven:
    """Estimate the three ways at a model's price, at a price of your own, or at given rates.

    Rates and `output_rate` are in units of an input token, and go before what the price says.
    """
    price = price or (Prices().of(model) if model else None)
    ratios = rates or rates_of(price, scenario.ttl)
    if price is not None and output_rate is not None:
        price = msgspec.structs.replace(price, output=price.input * output_rate)
    told = _weigh(scenario, _plan(scenario, ratios), ratios, price, output_rate=output_rate)
    until = _until(scenario, ratios, told.output_rate)
    return msgspec.structs.replace(told, until_turns=until)


def weigh_dispatch(
    scenario: Scenario, price: Price | None, *, warm: bool, carry: bool, minimum: int
) -> BreakEven:
    """Plan a fan-out that is about to start, and estimate the other ways beside it.

    `warm`, `carry` and `minimum` are what `plan_fan` needs to know of the parent's cache; leaves
    `until_turns` out.
    """
    ratios, s = rates_of(price, scenario.ttl), scenario
    plan = plan_fan(
        size=s.children,
        cached=s.history,
        dispatch_tokens=s.dispatch + s.placeholders,
        tail_tokens=s.tail,
        turns=s.turns - 1,
        rates=ratios,
        warm=warm,
        dispatch=s.how,
        schedule=s.schedule,
        carry=carry,
        minimum=minimum,
    )
    return _weigh(scenario, plan, ratios, price)


def _weigh(
    scenario: Scenario,
    plan: FanPlan,
    ratios: Rates,
    price: Price | None,
    *,
    output_rate: float | None = None,
) -> BreakEven:
    """Estimate the three ways by a plan, which must count on all turns but the first."""
    if output_rate is None:
        output_rate = price.output / price.input if price and price.input > 0 else OUTPUT_RATE
    counts = _Counts(scenario, ratios, output_rate, price)
    r, w, s = ratios.read, ratios.write, scenario
    whole = plan.cached + plan.fresh
    written = r * plan.cached + w * plan.fresh
    found = r * whole
    own = w * s.directive
    return BreakEven(
        scenario=s,
        rates=ratios,
        output_rate=output_rate,
        plan=plan,
        first_child=(found if plan.schedule == "prewarm" else written) + own,
        each_other=(written if plan.schedule == "at_once" else found) + own,
        uncached=float(s.children * (whole + s.directive)),
        fork=counts.fork(plan),
        fresh=counts.fresh(),
        alone=counts.alone(),
    )


def _plan(s: Scenario, rates: Rates) -> FanPlan:
    return plan_fan(
        size=s.children,
        cached=s.history,
        dispatch_tokens=s.dispatch + s.placeholders if s.dispatch else 0,
        tail_tokens=s.tail,
        turns=s.turns - 1,
        rates=rates,
        warm=not s.cold,
        dispatch=s.how,
        schedule=s.schedule,
    )


def _until(scenario: Scenario, rates: Rates, output_rate: float) -> int | None:
    for turns in range(1, _MOST_TURNS + 1):
        longer = msgspec.structs.replace(scenario, turns=turns)
        counts = _Counts(longer, rates, output_rate, None)
        if counts.fork(_plan(longer, rates)).equivalents > counts.fresh().equivalents:
            return turns - 1
    return None


class _Counts(msgspec.Struct, frozen=True):
    """The arithmetic, for one scenario at one price."""

    s: Scenario
    rates: Rates
    output_rate: float
    price: Price | None

    def fork(self, plan: FanPlan) -> WayCost:
        s, r, w = self.s, self.rates.read, self.rates.write
        later = s.turns - 1
        # Without a dispatching reply there is nothing to drop.
        how = plan.dispatch if s.dispatch else "keep"
        start = plan.estimates[f"{how}/{plan.schedule}"] + s.children * w * s.directive
        again = s.children * later * r * (plan.cached + plan.fresh)
        known = s.history + s.tail + (s.dispatch + s.placeholders if s.dispatch else 0)
        wakes = self._wakes(known, read=known if plan.dispatch == "keep" else s.history + s.tail)
        grown = s.children * self._grown(s.directive, later)
        worked = s.children * (later * s.reply + s.report)
        dropped = w * (s.dispatch + s.placeholders) if how == "drop" else 0.0
        return self._option(
            "fork",
            (start - dropped + grown, worked),
            first=start - again,
            paid=start + grown + wakes,
            output=s.dispatch + worked + s.wakes * s.closing,
            requests=s.children * s.turns + s.wakes + (plan.schedule == "prewarm"),
        )

    def fresh(self) -> WayCost:
        s, r, w = self.s, self.rates.read, self.rates.write
        start, later = s.setup + s.brief, s.explore + s.turns - 1
        briefs = s.children * s.brief
        parent = (w if s.cold else r) * s.history + w * (s.tail + briefs + s.placeholders)
        known = s.history + s.tail + briefs + s.placeholders
        wakes = self._wakes(known, read=0) + (parent if s.wakes else 0.0)
        first = s.children * w * start
        worked = s.children * (later * s.reply + s.report)
        grown = s.children * self._grown(start, later)
        return self._option(
            "fresh",
            (first + grown, worked),
            first=first,
            paid=first + grown + wakes,
            output=briefs + worked + s.wakes * s.closing,
            requests=s.children * (later + 1) + s.wakes,
        )

    def alone(self) -> WayCost:
        s, r, w = self.s, self.rates.read, self.rates.write
        turns = s.children * s.turns
        first = (w if s.cold else r) * s.history + w * (s.tail + s.growth)
        rest = self._grown(s.history + s.tail + s.growth, turns - 1)
        return self._option(
            "alone",
            (0.0, 0),
            first=first,
            paid=first + rest,
            output=(turns - 1) * s.reply + s.closing,
            requests=turns,
        )

    def _grown(self, start: int, later: int) -> float:
        """Price what an agent reads and writes after its first request, from `start` tokens on."""
        read = later * start + self.s.growth * later * (later - 1) / 2
        return self.rates.read * read + self.rates.write * later * self.s.growth

    def _wakes(self, known: int, *, read: int) -> float:
        """Price the parent's requests that take notices; the first reads only `read` of `known`.

        What the first does not read is priced by the caller, who knows whether it was cached.
        """
        s, r, w = self.s, self.rates.read, self.rates.write
        if not s.wakes:
            return 0.0
        notices = s.children * s.report / s.wakes
        cost = r * read + w * notices
        size = known + notices
        for _ in range(s.wakes - 1):
            cost += r * size + w * (notices + s.closing)
            size += notices + s.closing
        return cost

    def _option(
        self,
        way: Way,
        children: tuple[float, int],
        *,
        first: float,
        paid: float,
        output: int,
        requests: int,
    ) -> WayCost:
        """Put an option together; `children` is what of input and output is the children's."""
        return WayCost(
            way=way,
            first=first,
            input=paid,
            output=output,
            requests=requests,
            equivalents=paid + output * self.output_rate,
            cost=self._dollars(paid, output),
            children=children[0] + children[1] * self.output_rate,
            children_cost=self._dollars(*children),
        )

    def _dollars(self, paid: float, output: int) -> float | None:
        price = self.price
        return None if price is None else (paid * price.input + output * price.output) / _PER
