"""Budgets as a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from prong.cost import Charge, Ledger
from prong.cost.budget import Bounds, Budget
from prong.entry import Usage
from prong.ids import AgentPath

pytestmark = pytest.mark.spec("T9")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("spawn", "spend", "close")),
        st.integers(0, 9),
        st.integers(1, 400),
    ),
    max_size=60,
)


def taken(budget: Budget | str) -> Budget:
    assert isinstance(budget, Budget), budget
    return budget


@given(st.integers(1, 1000), STEPS)
def test_a_tree_is_never_overdrawn_by_more_than_one_reply_of_each_agent(
    bound: int, steps: list[tuple[str, int, int]]
):
    """Whatever spawns, spends and ends: each budget is at most one reply per agent over."""
    root = Budget(Bounds(tokens=bound))
    budgets, spent, over = [root], 0, 0
    for what, which, amount in steps:
        budget = budgets[which % len(budgets)]
        if what == "spawn":
            asked = Bounds(tokens=amount) if amount % 2 else None
            child = budget.child("x", asked)
            if isinstance(child, Budget):
                budgets.append(child)
        elif what == "spend" and budget.spent() is None:
            budget.charge(amount, 0.0)
            spent, over = spent + amount, max(over, amount)
        elif what == "close" and budget is not root:
            budget.close()

    assert root.tokens == spent
    # Asked one after another, so only the last reply can have gone over.
    assert spent <= bound + over


@given(st.integers(1, 500), st.lists(st.integers(1, 500), min_size=1, max_size=8))
def test_promises_never_add_up_to_more_than_there_is(bound: int, asked: list[int]):
    """Children reserve what they may spend: together never more than the parent has."""
    root = Budget(Bounds(tokens=bound))
    middle = taken(root.child("middle"))
    made = [(root if each % 2 else middle).child("x", Bounds(tokens=each)) for each in asked]
    given_out = sum(p.bounds.tokens or 0 for p in made if isinstance(p, Budget))

    assert given_out <= bound
    assert root.left().tokens == bound - given_out


@given(st.integers(1, 300), st.integers(0, 400))
def test_what_was_not_spent_goes_back(reserved: int, used: int):
    """When a child ends its parent has everything but what was really spent."""
    root = Budget(Bounds(tokens=1000, usd=10.0, turns=50))
    child = taken(root.child("x", Bounds(tokens=reserved, usd=1.0, turns=5)))
    if used:
        child.charge(used, 0.5)
    child.close()
    child.close()

    left = root.left()
    assert left.tokens == 1000 - used
    assert left.usd == pytest.approx(9.5 if used else 10.0)
    assert left.turns == (49 if used else 50)


def test_usage_rolls_up_exactly_once():
    """A request counts once in every budget above the agent that sent it."""
    root = Budget()
    child = taken(root.child("a"))
    grandchild = taken(child.child("b", Bounds(tokens=100)))
    grandchild.charge(30, 0.25)
    child.charge(5, None, model="odd")

    assert (grandchild.tokens, child.tokens, root.tokens) == (30, 35, 35)
    assert (grandchild.turns, child.turns, root.turns) == (1, 2, 2)
    assert root.usd == 0.25


def test_a_child_without_bounds_is_held_by_those_above():
    """Bounds are inherited: a grandchild stops when its grandparent's budget is spent."""
    root = Budget(Bounds(tokens=50), name="the session")
    grandchild = taken(taken(root.child("a")).child("b"))
    grandchild.charge(50, 0.0)

    assert grandchild.spent() == "the budget of 50 tokens of the session is spent (50)"


def test_a_child_gets_what_is_left_and_no_child_when_nothing_is():
    """Where less is left than asked for the bounds say so; where nothing is, that is said."""
    root = Budget(Bounds(usd=1.0))
    first = taken(root.child("a", Bounds(usd=0.75)))
    second = taken(root.child("b", Bounds(usd=0.75)))

    assert first.bounds.usd == 0.75
    assert second.bounds.usd == 0.25
    assert isinstance(root.child("c", Bounds(usd=0.1)), str)


def test_time_is_bounded_and_inherited():
    """Seconds count from the start of each budget, and those above hold too."""
    now = [0.0]
    root = Budget(Bounds(seconds=10), clock=lambda: now[0])
    now[0] = 8.0
    child = taken(root.child("a", Bounds(seconds=5)))

    assert child.bounds.seconds == 2.0
    now[0] = 9.9
    assert child.spent() is None
    now[0] = 10.0
    assert child.spent() is not None


def test_an_unknown_price_stops_a_budget_of_money():
    """Money cannot be bounded where a price is unknown, and that is said with the remedy."""
    root = Budget(Bounds(usd=1.0))
    root.charge(1, None, model="mystery-1")

    assert "mystery-1" in (root.spent() or "")


@given(
    st.integers(1, 2000),
    st.lists(st.one_of(st.none(), st.integers(1, 500)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 300)), max_size=120),
)
def test_replies_under_way_are_all_that_a_bound_is_exceeded_by(
    bound: int, asked: list[int | None], steps: list[tuple[int, int]]
):
    """Agents ask and pay in any order: over the bound is at most one reply of each that ran."""
    root = Budget(Bounds(tokens=bound))
    made = (root.child("x", None if each is None else Bounds(tokens=each)) for each in asked)
    budgets = [root, *(budget for budget in made if isinstance(budget, Budget))]
    flying: dict[int, int] = {}
    late: dict[int, list[int]] = {}
    for which, amount in steps:
        at = which % len(budgets)
        if at in flying:
            budgets[at].charge(flying[at], 0.0)
            if root.tokens > bound:
                late.setdefault(at, []).append(flying[at])
            del flying[at]
        elif budgets[at].spent() is None:
            assert root.tokens < bound, "no request is sent once the bound is reached"
            flying[at] = amount

    assert all(len(replies) == 1 for replies in late.values())
    assert root.tokens - bound <= sum(replies[0] for replies in late.values())
    for budget in budgets[1:]:
        if budget.bounds.tokens is not None:
            assert budget.tokens - budget.bounds.tokens <= 300


@given(st.lists(st.sampled_from(("main", "main/a", "main/a/b", "main/ab", "other", "main/a/b/c"))))
def test_a_ledger_knows_the_rows_of_an_agent_and_of_all_below_it(agents: list[str]):
    """What is of an agent is what its path begins, in order, whether read back or entered."""
    rows = [
        Charge(agent=AgentPath(a), model="m", usage=Usage(output=n), cost=0.0)
        for n, a in enumerate(agents)
    ]
    half = len(rows) // 2
    ledger = Ledger(rows[:half])
    for row in rows[half:]:
        ledger.add(row)

    assert ledger.rows == rows
    for agent in ("main", "main/a", "main/a/b", "main/ab", "nobody"):
        assert list(ledger.of(agent)) == [r for r in rows if f"{r.agent}/".startswith(f"{agent}/")]


COUNTS = [name for name in Usage.__struct_fields__ if name != "silent"]


@given(*[st.lists(st.integers(0, 10**9), min_size=len(COUNTS), max_size=len(COUNTS))] * 2)
def test_usages_are_summed_field_by_field(one: list[int], other: list[int]):
    """Every count of a sum is the sum of that count, and what is silent makes the sum silent."""
    a, b = (convert(dict(zip(COUNTS, counts, strict=True)), Usage) for counts in (one, other))

    assert [getattr(a + b, name) for name in COUNTS] == [
        x + y for x, y in zip(one, other, strict=True)
    ]
    assert not (a + b).silent
    assert (a + Usage(silent=True)).silent
    assert (Usage(silent=True) + b).silent
