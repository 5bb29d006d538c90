"""What typed children may spend, and the receipts of it."""

from __future__ import annotations

import pytest

from prong.cost.receipt import describe, line
from prong.testing import Script, call, calls, say, world
from shared.typed import agent, of, result

pytestmark = pytest.mark.anyio


@pytest.mark.spec("T9")
async def test_a_spent_budget_ends_a_child_and_says_so():
    """A child stops before the request that its budget does not cover; its work so far is kept."""
    script = Script(
        [agent("BRIEF", "worker"), say("Done.")],
        {"BRIEF": [say("Half done.", then=call("Glob", {"pattern": "*"})), say("Never.")]},
    )
    async with world(script, settings='{"taskBudget": {"turns": 1}}') as w:
        await w.session.run("Go")

        assert "the budget of 1 turns" in result(w)
        assert "Half done." in result(w)
        assert len(of(w, "BRIEF")) == 1


@pytest.mark.spec("T9")
async def test_the_sessions_budget_holds_for_children():
    """Tokens of a child count for the session: both stop when they are spent, by one reply."""
    script = Script(
        [agent("BRIEF", "worker"), say("Never.")],
        {"BRIEF": [call("Glob", {"pattern": "*"}), say("Never.")]},
    )
    async with world(script, max_tokens=4000) as w:
        turn = await w.session.run("Go")

        assert turn.why == "budget"
        budget = w.parts.agent.client.billing.budget
        assert budget.tokens == w.session.usage.input + w.session.usage.output
        assert budget.turns == len(w.parts.ledger.rows)


async def test_the_receipt_of_a_typed_child_claims_no_fork():
    """It is of kind typed, and says nothing of a base or a dispatch."""
    script = Script([agent("BRIEF", "Explore"), say("Done.")], {"BRIEF": [say("Found.")]})
    async with world(script) as w:
        await w.session.run("Go")
        (receipt,) = w.session.receipts()

        assert (receipt.kind, receipt.base, receipt.dispatch, receipt.schedule) == (
            "typed",
            "",
            "",
            "",
        )
        assert receipt.requests == 1
        assert "shared" not in describe(receipt) + line(receipt)
        assert "keep" not in describe(receipt)


@pytest.mark.spec("T9")
@pytest.mark.parametrize("bound", [9_000, 30_000, 70_000])
async def test_many_children_overdraw_a_budget_by_one_reply_each_at_most(bound: int):
    """Thirty children spend one budget at once: whoever is late was on its way already."""
    each = [
        ("Agent", {"description": "a part", "prompt": f"BRIEF {n}", "subagent_type": "worker"})
        for n in range(30)
    ]
    again = say("More.", then=call("Glob", {"pattern": "*"}))
    script = Script(
        [calls(*each)], {f"BRIEF {n}": [again] * 40 for n in range(30)}, forever=say("Heard.")
    )
    async with world(script, max_tokens=bound) as w:
        await w.session.run("Go")
        total, late = 0, list[str]()
        for row in w.parts.ledger.rows:
            late += [row.agent] if total >= bound else []
            total += row.usage.input + row.usage.output
        most = max(row.usage.input + row.usage.output for row in w.parts.ledger.rows)

        assert total == w.parts.agent.client.billing.budget.tokens
        assert total >= bound, "the budget was used up"
        assert len(set(late)) == len(late), "nobody began a request after the bound was reached"
        assert total - bound <= most * (len(late) + 1)
        assert w.parts.tasks.running() == 0
