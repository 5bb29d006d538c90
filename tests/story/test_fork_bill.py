"""What a whole session's forks are billed, against what was estimated before they started."""

from __future__ import annotations

import time

import msgspec
import pytest

from prong.cost.breakeven import Scenario, estimate
from prong.cost.least import least_possible
from prong.cost.schedule import Rates
from prong.journal import store
from prong.journal.replay import read_journal
from prong.testing import Script, WallClock, Worlds, call, say

pytestmark = pytest.mark.anyio

REPORT = "Scope: a part\nResult: done\nKey files: a.py\nFiles changed: none\nIssues: none"
WORK = [call("Read", {"file_path": "a.py"}), call("Read", {"file_path": "b.py"}), say(REPORT)]
FILES = {name: f"{name} = 1  # a line of some length\n" * 60 for name in ("a.py", "b.py")}


def script(children: int) -> Script:
    # A child's first answer takes long enough for its siblings to be on their way.
    slow = msgspec.structs.replace(WORK[0], first_byte=0.3)
    routes = {f"part {n}.": [slow, *WORK[1:]] for n in range(children)}
    return Script([say("Understood. " * 30)], routes=routes)


@pytest.mark.spec("F19", "K3")
@pytest.mark.parametrize("cold", [False, True], ids=["live", "cold"])
async def test_forks_are_billed_as_estimated(world: Worlds, cold) -> None:
    """Forks of a live or an expired conversation cost what was estimated, within 5 %."""
    clock = WallClock()
    children = 4
    async with world(script(children), files=FILES, clock=clock, mode="dontAsk") as w:
        await w.session.run("Here is all that is known: " + "fact " * 24_000)
        before, history = w.server.paid(), w.server.records[-1].usage.input
        if cold:
            clock.advance(400)
            w.parts.agent.client.clock = lambda: time.time() + 400
        results = await w.session.fork([f"Do part {n}." for n in range(children)])

        paid = w.server.paid() - before
        sizes = [r.usage.input for r in w.server.lineages()["main/fork-1"]]
        requests = replayed(w)
        least = w.server.least_possible()

    receipt = results[0].receipt
    tail = receipt.tokens_shared - history
    found = estimate(
        Scenario(
            history=history,
            children=children,
            turns=3,
            growth=(sizes[2] - sizes[0]) // 2,
            directive=(receipt.bytes_first - receipt.bytes_shared) // 4,
            dispatch=0,
            tail=tail,
            wakes=0,
            idle=400.0 if cold else 0.0,
        ),
        rates=Rates(),
    )
    assert receipt.schedule == found.plan.schedule == ("leader" if cold else "at_once")
    assert found.fork.input == pytest.approx(paid, rel=0.05)
    assert least_possible(requests, Rates()) == pytest.approx(least, rel=0.01)


def replayed(w):
    path = store.location(w.root, w.session.id, w.store)
    replay = read_journal(path)
    return [(replay.known[paid.row.digest], paid.row) for paid in replay.requests]
