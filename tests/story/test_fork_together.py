"""A parent and its forks share one base also when it has expired, and are woken together."""

from __future__ import annotations

import time

import pytest

from prong.command import Fork
from prong.event import PermissionAsked
from prong.question import Answer
from prong.testing import Script, WallClock, Worlds, calls, delay, fail, forks, report, say
from prong.testing.script import Step

pytestmark = pytest.mark.anyio

REPORT = "Scope: a part\nResult: done\nKey files: a.py\nFiles changed: none\nIssues: none"
FACTS = "Here is all that is known: " + "fact " * 24_000


def script(children: int, first: Step) -> Script:
    sent = [("Agent", {"description": "a part", "prompt": f"PART-{n}."}) for n in range(children)]
    routes = {f"PART-{n}.": [first, say(REPORT)] for n in range(children)}
    return Script([say("Understood."), calls(*sent), say("I wait."), say("All done.")], routes)


@pytest.mark.spec("F15")
@pytest.mark.parametrize("fails", [False, True], ids=["leader", "leader fails"])
async def test_an_expired_base_is_written_once(world: Worlds, fails) -> None:
    """If the base expires while leave is asked for, one child writes it; the parent reads it."""
    clock, late = WallClock(), False

    async def respond(path: str, asked: object) -> Answer:
        nonlocal late
        assert isinstance(asked, PermissionAsked)
        if not late:
            late = True
            clock.advance(400)
            w.parts.agent.client.clock = lambda: time.time() + 400
        return Answer(request_id=asked.request_id, allow=True)

    steps = script(4, delay(0.2, then=say(REPORT)))
    if fails:
        # Before the answer has begun, so nothing is cached yet and all go on waiting.
        busy = delay(0.1, then=fail(529, "overloaded_error", "Overloaded"))
        steps.routes["PART-0."].insert(0, busy)
    async with world(steps, clock=clock, respond=respond, ask=("Agent",)) as w:
        await w.session.run(FACTS)
        turn = await w.session.run("Split it.")

        after = [r.usage for r in w.server.records[2:] if r.outcome == "whole"]
        base = w.server.records[0].usage.input

    assert turn.text == "All done."
    assert len(after) == 6
    assert sum(usage.written >= base for usage in after) == 1
    assert sum(usage.read >= base for usage in after) == 5


@pytest.mark.spec("T4")
async def test_a_wide_fan_out_wakes_its_parent_once(world: Worlds) -> None:
    """Finished forks are let go of one by one, yet their notices wait for the last of them."""
    steps = script(80, say(REPORT))
    for number in range(80):
        steps.routes[f"PART-{number}."] = [delay(0.3 + number / 50, then=say(REPORT))]
    async with world(steps, mode="bypassPermissions") as w:
        await w.session.run(FACTS)
        turn = await w.session.run("Split it.")

        asked = w.server.lineages()["main"]

    assert turn.text == "All done."
    assert len(asked) == 4
    assert asked[-1].body.count(b"<status>completed</status>") == 80


@pytest.mark.spec("B5")
async def test_a_receipt_says_how_many_were_sent_out(world: Worlds) -> None:
    """Of each of several forks it is known how many there are, whoever ends first."""
    parts = ("Part A.", "Part B.", "Part C.")
    sent = Script(
        [forks(*parts), say("Sent.")], {part: [report()] for part in parts}, forever=say("ok")
    )
    async with world(sent, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        await w.session.send(Fork(("Part D.",)))
        await w.session.wait_settled()

        assert [one.siblings for one in w.session.receipts()] == [3, 3, 3, 1]
