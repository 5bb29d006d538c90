"""Limits on turns, money and tokens."""

from __future__ import annotations

import pytest

from prong.errors import UsageError
from prong.testing import Script, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1", "K2")]

AGAIN = Script(forever=call("Bash", {"command": "ls"}))


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


async def test_tokens(world: Worlds) -> None:
    """Tokens are counted over the whole session."""
    async with world(AGAIN, max_tokens=20_000) as w:
        turn = await w.session.run("Go")
        assert turn.why == "budget"
        assert "20000 tokens" in turn.detail


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
