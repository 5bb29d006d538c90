"""What giving up the cache costs, told before it is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost.loss import Move, Standing, foresee
from prong.cost.price import price

pytestmark = pytest.mark.spec("X2")

OLD = price(input=3.0, output=15.0, read=0.3, write=3.75)
NEW = price(input=5.0, output=25.0, read=0.5, write=6.25)


def standing(tokens: int = 100_000, *, idle: float = 10.0) -> Standing:
    return Standing(tokens=tokens, head=5_000, price=OLD, idle=idle)


def test_another_model_writes_everything() -> None:
    """It costs the new model's write price instead of the old one's read price."""
    loss = foresee("model", standing(), NEW)
    assert loss.tokens == 100_000
    assert loss.extra == pytest.approx((6.25 - 0.3) / 10)
    assert "100,000 tokens anew: about $0.5950 more" in loss.text


def test_a_cold_cache_is_no_loss() -> None:
    """What would have to be written anyway is not counted."""
    loss = foresee("effort", standing(idle=301.0))
    assert loss.extra == 0.0
    assert "no more than going on" in loss.text
    dearer = foresee("model", standing(idle=301.0), NEW)
    assert dearer.extra == pytest.approx((6.25 - 3.75) / 10)
    assert "cold" in dearer.text


def test_a_summary_costs_its_output_and_its_place() -> None:
    """And the sentence says what is saved afterwards."""
    loss = foresee("compact", standing())
    assert loss.extra == pytest.approx((2_000 * 15 + 2_000 * 3.75 + 5_000 * 0.3) / 1e6)
    assert "93,000 tokens fewer" in loss.text


def test_an_empty_conversation_costs_nothing_more() -> None:
    """The next request is smaller; what is lost is said."""
    loss = foresee("clear", standing())
    assert loss.extra == 0.0
    assert "100,000 tokens" in loss.text


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    """It is never taken for nothing."""
    unknown = Standing(tokens=10, head=1, price=None, idle=0.0)
    for move in ("model", "effort", "compact"):
        assert foresee(move, unknown, NEW).extra is None
    assert foresee("model", standing(), None).extra is None


@given(
    st.sampled_from(["model", "effort", "compact", "clear"]),
    st.integers(0, 10**7),
    st.floats(0, 10**5),
)
def test_no_loss_is_negative(move: Move, tokens: int, idle: float) -> None:
    """Whatever is done and whenever: giving up a cache is never sold as a gain."""
    loss = foresee(move, standing(tokens, idle=idle), NEW)
    assert loss.extra is not None
    assert loss.extra >= 0
