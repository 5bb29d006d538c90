"""How siblings start: nobody waits for a warm base, one leads on a cold one."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from prong.command import Stop
from prong.event import CacheMissed
from prong.question import Answer
from prong.team.result import ChildResult
from prong.testing import (
    Clock,
    Script,
    Step,
    World,
    Worlds,
    call,
    delay,
    fail,
    forks,
    report,
    say,
)
from shared.waiting import until

pytestmark = pytest.mark.anyio

LONG = "A line that says something about the project.\n" * 400
ECHO = call("Bash", {"command": "echo x"})
MISSING = fail(400, "invalid_request_error", "no")


LEAD = "Do what follows with care, as one part of several, and report: "


def parts(count: int) -> list[str]:
    return [f"Part {n}." for n in range(1, count + 1)]


def scripted(count: int, *steps: Step, **routes: Any) -> Script:
    del routes
    return Script(
        [say("Hello."), forks(*parts(count)), say("waiting"), say("done")],
        {part: [*steps, report()] for part in parts(count)},
    )


def settings(**fork: Any) -> str:
    return msgspec.json.encode({"fork": fork}).decode()


def firsts(w: World) -> list[Any]:
    """Give the first requests of forks in order of arrival."""
    found = [records[0] for name, records in w.server.lineages().items() if name != "main"]
    return sorted(found, key=lambda record: record.number)


async def expire(w: World) -> None:
    """Let the base's entry die between a turn and what forks it."""
    await w.session.run(f"Hi {LONG}")
    w.advance(301)


@pytest.mark.spec("F15")
async def test_a_warm_base_makes_nobody_wait(world: Worlds) -> None:
    """All eight requests are there before the first of them is answered."""
    # A clock that stands still: nobody is answered before all of them are there.
    clock, script = Clock(), scripted(8)
    script.routes = {part: [delay(1, then=report())] for part in parts(8)}
    async with world(script, clock=clock, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.say("Go")
        await until(lambda: clock.sleepers == 8)
        clock.advance(1)
        await w.session.wait_settled()
        began = min(r.began for r in firsts(w))
        assert all(r.at < began for r in firsts(w))
        assert {r.schedule for r in w.session.receipts()} == {"at_once"}


@pytest.mark.spec("F15", "F17", "F21")
@pytest.mark.parametrize("api", ["anthropic", "responses"])
async def test_a_cold_base_is_led(world: Worlds, api: str) -> None:
    """After the entry's end one leads, and the others come when its reply has begun."""
    script = Script([say("Hello.")], {part: [delay(0.1, then=report())] for part in parts(8)})
    model = {"anthropic": "claude-sonnet-5-5", "responses": "gpt-6.1-sol"}[api]
    marks = msgspec.json.encode({"cacheMarks": True}).decode()
    options = {"api": api, "model": model, "settings": marks}
    async with world(script, mode="bypassPermissions", **options) as w:
        await w.session.run(f"Hi {LONG}")
        w.advance(3601)
        results = await w.session.fork(parts(8))
        leader, *others = firsts(w)
        assert all(r.at >= leader.began for r in others)
        assert leader.usage.read == 0
        assert all(r.usage.read > 4000 for r in others)
        receipts = [r.receipt for r in results]
        assert {r.schedule for r in receipts} == {"leader"}
        assert sorted(r.predicted_read > 0 for r in receipts) == [False] + [True] * 7
        assert all("leader first" in r.reason for r in receipts)
        assert not w.told(CacheMissed)


@pytest.mark.spec("F15")
async def test_an_entry_that_dies_during_an_approval(world: Worlds) -> None:
    """Approved after the entry's end, the forks are led, and one rewrite is all that is lost."""
    script = scripted(8, ECHO, ECHO)
    script.routes = {part: [delay(0.1, then=ECHO), ECHO, report()] for part in parts(8)}
    options: dict[str, Any] = {"ask": ("Agent",), "allow": ("Bash",), "attended": True}
    options["settings"] = settings(wake="all")
    async with world(script, **options) as w:
        await w.session.run(f"Hi {LONG * 4}")
        await w.session.say("Go")
        await until(lambda: len(w.parts.agent.questions.pending) == 8)
        w.advance(301)
        for _, asked in list(w.parts.agent.questions.pending.values()):
            await w.session.send(Answer(asked.request_id))
        await w.session.wait_settled()
        leader, *others = firsts(w)
        assert leader.usage.read == 0
        assert all(r.usage.read > 10000 for r in others)
        rewrite = 1.25 * leader.usage.written
        assert (w.server.paid() - rewrite) / w.server.least_possible() < 1.05
        assert not w.told(CacheMissed)


@pytest.mark.spec("F15")
async def test_siblings_start_together_once_all_are_decided(world: Worlds) -> None:
    """Whoever is approved first waits for the others, and the base is written once for all."""
    script = scripted(6)
    script.routes = {part: [delay(0.1, then=report())] for part in parts(6)}
    options = {"ask": ("Agent",), "attended": True, "settings": settings(wake="all")}
    async with world(script, **options) as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.say("Go")
        await until(lambda: len(w.parts.agent.questions.pending) == 6)
        early, *late = list(w.parts.agent.questions.pending)
        await w.session.send(Answer(early))
        await anyio.sleep(0.05)
        assert not w.parts.supervisor.children
        w.advance(301)
        for request_id in late:
            await w.session.send(Answer(request_id))
        await w.session.wait_settled()
        leader, *others = firsts(w)
        assert leader.usage.read == 0
        assert all(r.usage.read > 4000 for r in others)
        assert all(r.at >= leader.began for r in others)
        assert not w.told(CacheMissed)


@pytest.mark.spec("F15")
@pytest.mark.parametrize("failing", [1, 3])
async def test_if_the_leader_fails_another_leads(world: Worlds, failing: int) -> None:
    """Leaders that fail before their first event are replaced, and the rest still share."""
    count = 6
    seen: list[str] = []

    def play(request: Any) -> Step:
        text = request.last_text
        if "forked worker" not in text:
            return say("Hello.")
        seen.append(text)
        return MISSING if len(seen) <= failing else delay(0.05, then=report())

    async with world(play, mode="bypassPermissions") as w:
        await expire(w)
        results = await w.session.fork(parts(count))
        statuses = sorted(r.status for r in results)
        assert statuses == ["completed"] * (count - failing) + ["failed"] * failing
        answered = [r for r in firsts(w) if r.status == 200]
        assert [r.usage.read > 4000 for r in answered] == [False] + [True] * (len(answered) - 1)


@pytest.mark.spec("F15")
async def test_a_stopped_leader_is_replaced(world: Worlds) -> None:
    """A leader that is stopped while it waits for its first byte lets another lead."""
    seen: list[str] = []

    def play(request: Any) -> Step:
        text = request.last_text
        if "forked worker" not in text:
            return say("Hello.")
        seen.append(text)
        return delay(600 if len(seen) == 1 else 0.05, then=report())

    async with world(play, mode="bypassPermissions") as w:
        await expire(w)
        ids = await w.session.start_forks([LEAD + part for part in parts(4)])
        await until(lambda: seen)
        await w.session.send(Stop(ids[0]))
        await w.session.wait_settled()
        assert [c.status for c in w.parts.supervisor.children] == ["killed"] + ["completed"] * 3
        whole = [r for r in firsts(w) if r.outcome == "whole"]
        assert [r.usage.read > 4000 for r in whole] == [False, True, True]


@pytest.mark.spec("F15")
@pytest.mark.parametrize("api", ["anthropic", "responses"])
async def test_prewarm_on_request(world: Worlds, api: str) -> None:
    """Asked for, one request without output fills the cache and all children read it."""
    script = Script([say("Hello.")], {part: [delay(0.1, then=report())] for part in parts(4)})
    model = {"anthropic": "claude-sonnet-5-5", "responses": "gpt-6.1-sol"}[api]
    given = msgspec.json.encode({"cacheMarks": True, "fork": {"schedule": "prewarm"}}).decode()
    options = {"api": api, "model": model, "settings": given}
    async with world(script, mode="bypassPermissions", **options) as w:
        await w.session.run(f"Hi {LONG}")
        w.advance(3601)
        results = await w.session.fork(parts(4))
        assert {r.receipt.schedule for r in results} == {"prewarm"}
        assert all(r.receipt.read > 4000 for r in results)
        assert all(r.receipt.predicted_read > 4000 for r in results)
        (row,) = [row for row in w.parts.ledger.rows if row.sidecar == "prewarm"]
        assert row.usage.written > 4000
        assert not w.told(CacheMissed)


@pytest.mark.spec("F15")
async def test_a_prewarm_that_is_refused(world: Worlds) -> None:
    """If the endpoint refuses to pre-warm, a child leads instead and nobody fails."""
    script = Script([say("Hello.")], {part: [delay(0.1, then=report())] for part in parts(4)})
    options = {"settings": settings(schedule="prewarm"), "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await expire(w)
        w.server.inject(MISSING)
        results = await w.session.fork(parts(4))
        assert {r.status for r in results} == {"completed"}
        assert sorted(r.receipt.read > 4000 for r in results) == [False, True, True, True]


@pytest.mark.spec("F15", "F17")
async def test_at_once_as_asked_on_a_cold_base(world: Worlds) -> None:
    """Forced to start at once, siblings write the base each, and the event says why."""
    script = Script([say("Hello.")], {part: [delay(1, then=report())] for part in parts(3)})
    options = {"settings": settings(schedule="at_once"), "mode": "bypassPermissions"}
    clock, results = Clock(), list[ChildResult]()
    async with world(script, clock=clock, **options) as w:
        await expire(w)

        async def fork() -> None:
            results.extend(await w.session.fork(parts(3)))

        async with anyio.create_task_group() as group:
            group.start_soon(fork)
            # No reply begins before all of them have asked.
            await until(lambda: clock.sleepers == 3)
            clock.advance(1)
        assert all("at once as asked" in r.receipt.reason for r in results)
        assert all(r.receipt.read == 0 for r in results)
        assert len(w.told(CacheMissed)) == 2
        assert all("no sibling's reply had begun yet" in e.why for e in w.told(CacheMissed))


@pytest.mark.spec("F15")
async def test_leader_as_asked_on_a_warm_base(world: Worlds) -> None:
    """A forced leader goes first although nothing demands it."""
    script = Script([say("Hello.")], {part: [delay(0.1, then=report())] for part in parts(3)})
    options = {"settings": settings(schedule="leader"), "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.fork(parts(3))
        leader, *others = firsts(w)
        assert all(r.at >= leader.began for r in others)


@pytest.mark.spec("F17")
async def test_an_entry_that_is_gone_without_reason(world: Worlds) -> None:
    """The provider forgot the entry: the event names what was predicted and what was read."""
    script = Script([say("Hello.")], {"Part 1.": [report()]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        w.server.clock.advance(301)
        (result,) = await w.session.fork(["Part 1."])
        (missed,) = w.told(CacheMissed)
        assert (missed.predicted, missed.read) == (result.receipt.predicted_read, 0)
        assert "did not find the entry" in missed.why
        assert result.receipt.miss == missed.why


@pytest.mark.spec("F17", "F22")
async def test_a_fork_woken_after_the_entrys_end(world: Worlds) -> None:
    """A message long after costs a rewrite, and the event says that the entry's time was over."""
    script = Script([say("Hello."), say("done")], {"Part 1.": [report(), report("more")]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        (task,) = await w.session.start_forks([f"{LEAD}Part 1."])
        await w.session.wait_settled()
        w.advance(400)
        w.server.push(say("done again"))
        await w.session.say("And now?", to=task)
        await w.session.wait_settled()
        missed, parents = w.told(CacheMissed)
        assert "lives 300 s and was last used" in missed.why
        # The notice wakes the parent, whose entry has ended too.
        assert "lives 300 s and was last used" in parents.why
        assert [e.agent for e in w.envelopes if isinstance(e.event, CacheMissed)][1] == "main"


@pytest.mark.spec("F17")
async def test_the_providers_diagnostics_are_asked_for(world: Worlds) -> None:
    """A fork's first request names its parent's last message, and the answer is on the receipt."""
    script = Script([say("Hello.")], {"Part 1.": [ECHO, report()]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.fork(["Part 1."])
        parent, first, second = w.server.records
        named = [r.json["diagnostics"]["previous_message_id"] for r in (first, second)]
        assert named == [parent.message_id, first.message_id]


@pytest.mark.spec("F17")
async def test_diagnostics_can_be_turned_off(world: Worlds) -> None:
    """The setting cacheDiagnostics turns them off."""
    script = Script([say("Hello.")], {"Part 1.": [report()]})
    async with world(script, mode="bypassPermissions", settings='{"cacheDiagnostics": false}') as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.fork(["Part 1."])
        assert not any("diagnostics" in r.json for r in w.server.records)
