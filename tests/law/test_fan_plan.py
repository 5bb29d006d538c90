"""How siblings start: the arithmetic, and the choices made by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost.price import Prices, price
from prong.cost.schedule import Dispatch, FanPlan, Rates, Schedule, plan_fan, rates

RATES = Rates()
DISPATCHES: tuple[Dispatch, ...] = ("keep", "drop")
SCHEDULES: tuple[Schedule, ...] = ("at_once", "leader", "prewarm")
tokens = st.integers(0, 200_000)
sizes = st.integers(1, 300)
some_rates = st.builds(
    Rates,
    read=st.sampled_from([0.025, 0.05, 0.1, 0.5]),
    write=st.sampled_from([1.0, 1.25, 2.0]),
)


def plan(size: int = 3, cached: int = 100_000, **given) -> FanPlan:
    facts: dict[str, Any] = {
        "dispatch_tokens": 700,
        "tail_tokens": 0,
        "rates": RATES,
        "warm": True,
    } | given
    return plan_fan(size=size, cached=cached, **facts)


class Provider:
    """Bills requests for segments of a prefix; an entry is readable once its response began."""

    def __init__(self, rates: Rates, cached: set[str]) -> None:
        self.rates = rates
        self.cached = cached
        self.begun: set[str] = set()
        self.paid = 0.0

    def send(self, prompt: dict[str, int]) -> None:
        for name, size in prompt.items():
            self.paid += size * (self.rates.read if name in self.cached else self.rates.write)
            self.begun.add(name)

    def begin(self) -> None:
        self.cached |= self.begun


def played(
    fan: dict[str, int], size: int, turns: int, rates: Rates, *, warm: bool, how: str
) -> float:
    """Play a fan-out request by request."""
    dispatch, schedule = how.split("/")
    prompt = {"sent": fan["cached"], "tail": fan["tail"]}
    if dispatch == "keep":
        prompt["dispatch"] = fan["dispatch"]
    provider = Provider(rates, {"sent"} if warm else set())
    if schedule == "prewarm":
        provider.send(prompt)
        provider.begin()
    for number in range(size):
        provider.send(prompt)
        if number == 0 and schedule == "leader":
            provider.begin()
    provider.begin()
    for _ in range(size * turns):
        provider.send(prompt)
    if dispatch == "drop":
        provider.send({"dispatch": fan["dispatch"]})
    return provider.paid


@pytest.mark.spec("F15", "F23")
@given(sizes, tokens, st.integers(1, 20_000), tokens, st.integers(0, 9), some_rates, st.booleans())
def test_estimates_are_what_a_provider_would_bill(
    size, cached, dispatch, tail, turns, ratios, warm
) -> None:
    """Every estimate of a plan equals the bill of the same fan-out played request by request."""
    found = plan_fan(
        size=size,
        cached=cached,
        dispatch_tokens=dispatch,
        tail_tokens=tail,
        turns=turns,
        rates=ratios,
        warm=warm,
    )

    fan = {"cached": cached, "tail": tail, "dispatch": dispatch}
    expected = {
        how: played(fan, size, turns, ratios, warm=warm, how=how)
        for how in (f"{d}/{s}" for d in DISPATCHES for s in SCHEDULES)
    }
    assert found.estimates == pytest.approx(expected)


@pytest.mark.spec("F15")
@given(sizes, st.integers(0, 500_000), st.integers(0, 50_000), st.integers(0, 20_000), some_rates)
def test_a_live_parent_makes_nobody_wait(size, cached, dispatch, tail, ratios) -> None:
    """While the parent's entry lives and its last reply is short, all start at once."""
    tail = min(tail, max(1_023, cached // 10))

    found = plan(size, cached, dispatch_tokens=dispatch, tail_tokens=tail, rates=ratios)

    if found.fresh <= tail:
        assert found.schedule == "at_once"


@pytest.mark.spec("F15")
@given(st.integers(2, 300), st.integers(1_024, 500_000), some_rates)
def test_a_cold_base_is_led(size, cached, ratios) -> None:
    """Of siblings on a base that is not cached one goes ahead, because that costs less."""
    found = plan(size, cached, dispatch_tokens=0, rates=ratios, warm=False)

    assert found.schedule == "leader"
    assert (found.cached, found.fresh) == (0, cached)
    assert found.estimates["keep/leader"] < found.estimates["keep/at_once"]
    assert f"0 of {cached:,} tokens" in found.reason


@pytest.mark.spec("F15")
def test_one_child_a_tiny_base_and_a_price_without_discount_wait_for_nobody() -> None:
    """A leader is of use only to others, on a base that is cached, where reading costs less."""
    assert plan(1, warm=False).schedule == "at_once"
    assert plan(8, 3_000, warm=False, minimum=4_096).schedule == "at_once"
    assert plan(8, 3_000, warm=False, minimum=2_048).schedule == "leader"
    assert plan(8, warm=False, rates=Rates(read=1.0, write=1.0)).schedule == "at_once"
    assert plan(8, warm=False, rates=Rates(read=1.3, write=1.25)).schedule == "at_once"


@pytest.mark.spec("F23")
@given(st.integers(2, 300), st.integers(1_000, 500_000), st.integers(1, 20_000), some_rates)
def test_the_dispatch_is_kept_while_it_costs_next_to_nothing(
    size, cached, dispatch, ratios
) -> None:
    """Children see the dispatching reply if that costs at most half a per cent more."""
    found = plan(size, cached, dispatch_tokens=dispatch, rates=ratios)

    kept = plan(size, cached, dispatch_tokens=dispatch, rates=ratios, dispatch="keep")
    dropped = plan(size, cached, dispatch_tokens=dispatch, rates=ratios, dispatch="drop")
    keep = kept.estimates[f"keep/{kept.schedule}"]
    drop = dropped.estimates[f"drop/{dropped.schedule}"]
    assert (found.dispatch == "keep") == (keep <= 1.005 * drop)
    assert f"{keep:,.0f} against {drop:,.0f}" in found.reason


@pytest.mark.spec("F23")
def test_both_choices_happen() -> None:
    """A short dispatch of a long history is kept, a long one in many children is dropped."""
    assert plan(2, 400_000, dispatch_tokens=60).dispatch == "keep"
    assert plan(64, 50_000, dispatch_tokens=4_000).dispatch == "drop"
    assert plan(1, 1_000, dispatch_tokens=4_000).dispatch == "keep"
    assert plan(9, 50_000, dispatch_tokens=0).dispatch == "keep"


@pytest.mark.spec("F15", "F23")
@given(sizes, tokens, st.sampled_from(DISPATCHES), st.sampled_from(SCHEDULES), st.booleans())
def test_what_is_asked_for_is_done(size, cached, dispatch, schedule, warm) -> None:
    """A setting overrides both choices, and the reason says that it was asked for."""
    found = plan(size, cached, dispatch=dispatch, schedule=schedule, warm=warm)

    assert (found.dispatch, found.schedule) == (dispatch, schedule)
    assert found.reason.count("as asked") == 2
    assert found.fresh == (0 if warm else cached) + (700 if dispatch == "keep" else 0)


@pytest.mark.spec("F8")
@given(sizes, st.integers(2_000, 500_000), st.integers(1, 20_000))
def test_a_model_that_drops_thinking_needs_the_dispatch(size, cached, dispatch) -> None:
    """The directive travels in a result, which only a kept dispatch has, whatever that costs."""
    found = plan(size, cached, dispatch_tokens=dispatch, carry=True)

    assert found.dispatch == "keep"
    assert found.cached == cached
    assert "drops earlier thinking" in found.reason


@pytest.mark.spec("F8")
@pytest.mark.parametrize("given", [{"dispatch": "drop"}, {"dispatch_tokens": 0}])
def test_where_thinking_is_lost_the_base_counts_as_a_miss(given) -> None:
    """If no result can carry the directive, the fork is priced as a miss and says so."""
    found = plan(8, 100_000, carry=True, **given)

    assert found.cached == 0
    assert found.fresh == 100_000
    assert found.schedule == "leader"
    assert "counts as a miss" in found.reason


def test_rates_come_from_the_price_list() -> None:
    """Reading and writing are priced in units of the input price; strangers get the usual."""
    prices = Prices()
    assert rates(None) == Rates(read=0.1, write=1.25)
    assert rates(prices.of("claude-opus-5-5")) == Rates(read=0.05, write=1.25)
    assert rates(prices.of("claude-opus-5-5"), "1h") == Rates(read=0.05, write=2.0)
    assert rates(prices.of("gpt-5.5")) == Rates(read=0.1, write=1.0)
    assert rates(price(input=0, output=0)) == Rates(read=0, write=1)
