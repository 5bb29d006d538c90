"""Limits on turns, money and tokens."""

from __future__ import annotations

import json

import pytest

from prong.command import Aside, Compact, Refused, Rename, Suggest
from prong.errors import BudgetSpent, UsageError
from prong.event import ToolFinished
from prong.testing import Request, Script, Step, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1", "K2")]


def AGAIN(request: Request) -> Step:  # noqa: N802 - stands where a script does
    """Go on and on, with another call each time."""
    return call("Bash", {"command": f"ls # {len(request.blocks)}"})


async def test_turns(world: Worlds) -> None:
    """The limit of turns ends the work; the next turn has its own."""
    async with world(AGAIN, max_turns=3) as w:
        for requests in (3, 6):
            turn = await w.session.run("Go")
            assert (turn.why, turn.turns) == ("limit", 3)
            assert len(w.server.records) == requests


async def test_money(world: Worlds) -> None:
    """Money is counted over the whole session; once it is spent no request is sent."""
    async with world(AGAIN, max_usd=0.05) as w:
        turn = await w.session.run("Go")
        assert turn.why == "budget"
        assert w.session.cost is not None
        assert w.session.cost >= 0.05
        sent = len(w.server.records)
        assert (await w.session.run("More")).why == "budget"
        assert len(w.server.records) == sent


async def test_nothing_is_asked_beside_a_spent_budget(world: Worlds) -> None:
    """What has no turn to end with is refused: a question aside, a title, a compaction by hand."""
    async with world(AGAIN, max_tokens=20_000) as w:
        assert (await w.session.run("Go")).why == "budget"
        sent = len(w.server.records)
        with pytest.raises(BudgetSpent, match="20000 tokens"):
            await w.session.aside("Why?")
        for command in (Aside("Why?"), Rename(), Suggest(), Compact()):
            outcome = await w.session.send(command)
            assert isinstance(outcome, Refused)
            assert "20000 tokens" in outcome.why
        assert len(w.server.records) == sent


@pytest.mark.spec("L5")
async def test_a_guard_that_may_not_be_paid_for_blocks(world: Worlds) -> None:
    """The model of a hook is not asked beside a spent budget, and what it guards does not run."""
    hook = {"type": "prompt", "prompt": "May it?"}
    given = json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}})
    script = [call("Bash", {"command": "touch made"}), say('{"ok": true}')]
    async with world(script, settings=given, max_tokens=1, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).why == "budget"

        assert len(w.server.records) == 1
        assert not (w.root / "made").exists()
        assert "nothing more is asked of the model" in w.told(ToolFinished)[0].text


async def test_tokens(world: Worlds) -> None:
    """Tokens are counted over the whole session."""
    async with world(AGAIN, max_tokens=20_000) as w:
        turn = await w.session.run("Go")
        assert turn.why == "budget"
        assert "20000 tokens" in turn.detail


@pytest.mark.spec("T9")
@pytest.mark.parametrize(
    ("bound", "said", "requests"),
    [
        ('"turns": 3', "the budget of 3 turns of the session is spent", 3),
        ('"tokens": 6000', "the budget of 6000 tokens of the session is spent", 2),
        ('"usd": 0.01', "the budget of $0.01 of the session is spent", None),
        ('"seconds": 0.000001', "1e-06 seconds allowed to the session are over", 0),
    ],
)
async def test_a_budget_of_the_whole_tree(
    world: Worlds, bound: str, said: str, requests: int | None
) -> None:
    """What all agents spend counts together, and ends them all before the next request."""
    brief = {"description": "a part", "prompt": "BRIEF", "subagent_type": "worker"}
    script = Script([call("Agent", brief)], forever=call("Glob", {"pattern": "*"}))
    given = f'{{"sessionBudget": {{{bound}}}, "fork": {{"enabled": false}}}}'
    async with world(script, settings=given, opens=False) as w:
        async with w.open() as session:
            turn = await session.run("Go")
            sent = len(w.server.records)

        assert (turn.why, said in turn.detail) == ("budget", True), turn.detail
        assert requests in {None, sent}
        async with w.open(resume=session.id) as session:
            again = await session.run("More")
        assert (again.why, len(w.server.records)) == ("budget", sent)


async def test_a_budget_needs_a_price(world: Worlds) -> None:
    """A budget in dollars is refused, before anything is sent, for a model nobody prices."""
    async with world([], api="chat", model="home-made-1", opens=False) as w:
        with pytest.raises(UsageError, match="price of home-made-1 is unknown"):
            async with w.open(max_usd=1.0):
                pass
        w.write("~/.prong/prices.json", '{"home-made-1": {"input": 1, "output": 1, "read": 0}}')
        w.server.push(say("Hi."))
        async with w.open(max_usd=1.0) as session:
            assert (await session.run("Hi")).ok


@pytest.mark.spec("T9")
async def test_a_child_without_a_price_sends_nothing_under_a_budget(world: Worlds) -> None:
    """A budget in dollars holds for children too: one whose model nobody prices ends at once."""
    brief = {"description": "a part", "prompt": "BRIEF", "subagent_type": "worker"}
    script = [call("Agent", {**brief, "model": "gpt-5.4-nobody"}), say("It could not start.")]
    given = '{"fork": {"enabled": false}}'
    async with world(script, settings=given, max_usd=1.0) as w:
        turn = await w.session.run("Go")

        assert turn.text == "It could not start."
        assert [record.lineage for record in w.server.records] == ["main", "main"]
        assert b"price of gpt-5.4-nobody is unknown" in w.server.records[-1].body


async def test_a_dear_model_is_not_billed_as_its_cheap_neighbour(world: Worlds) -> None:
    """Two cents do not last for a second request to a model of $30 a million tokens."""
    async with world(AGAIN, api="responses", model="gpt-5.4-pro", max_usd=0.02) as w:
        turn = await w.session.run("Go")

        assert (turn.why, len(w.server.records)) == ("budget", 1)
        usage = w.server.records[0].usage
        assert turn.cost == pytest.approx((usage.input * 30 + usage.output * 180) / 1_000_000)
