"""When a session did what: a trace whose slices nest and whose arrows arrive."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from prong.event import Envelope
from prong.ids import AgentPath
from prong.testing import Script, Worlds, call, calls, forks, report, say
from prong.timeline import (
    Chronicle,
    SpanClosed,
    SpanOpened,
    Timeline,
    TimeSpan,
    chrome_trace,
    timeline,
)

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X6")]

MAIN = AgentPath("main")
PARTS = ("Part 1.", "Part 2.", "Part 3.")
SLEEP = {"command": "sleep 0.05"}
OUTLIVES_THE_TURN = {"command": "sleep 0.6", "run_in_background": True}


async def fan_out(world: Worlds) -> list[Envelope]:
    """Play a session with calls that overlap, three forks, and a command in the background."""
    steps = {part: [call("Bash", SLEEP), report("done")] for part in PARTS}
    together = calls(("Bash", SLEEP), ("Bash", OUTLIVES_THE_TURN))
    script = Script([together, forks(*PARTS), say("x")], steps, forever=say("ok"))
    async with world(script, opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        return list(session.events().drain())


def slices(trace: dict[str, Any]) -> dict[int, list[tuple[int, int, str]]]:
    """Give the slices of each lane by begin and end."""
    lanes: dict[int, list[tuple[int, int, str]]] = {}
    for one in trace["traceEvents"]:
        if one["ph"] == "X":
            lanes.setdefault(one["tid"], []).append(
                (one["ts"], one["ts"] + one["dur"], one["name"])
            )
    return lanes


def check_nesting(trace: dict[str, Any]) -> None:
    """Check that of two slices of a lane one lies in the other, or they do not touch."""
    for found in slices(trace).values():
        within: list[tuple[int, int, str]] = []
        for one in found:
            while within and within[-1][1] <= one[0]:
                within.pop()
            assert not within or one[1] <= within[-1][1], f"{one} leaves {within[-1]}"
            within.append(one)


async def test_slices_nest_and_arrows_arrive(world: Worlds) -> None:
    """Slices of a lane nest, and both ends of every arrow lie in a slice of their lane."""
    trace = chrome_trace(timeline(await fan_out(world)))
    check_nesting(trace)
    arrows = [one for one in trace["traceEvents"] if one["ph"] in "sf"]
    lanes = slices(trace)
    for end in arrows:
        assert any(a <= end["ts"] <= b for a, b, _ in lanes[end["tid"]]), end
    begun = {one["id"]: one["name"] for one in arrows if one["ph"] == "s"}
    agents = {
        one["tid"]: one["args"]["name"]
        for one in trace["traceEvents"]
        if one["name"] == "thread_name"
    }
    of_forks = [f"main/fork-{n}" for n in (1, 2, 3)]
    for name, phase in (("dispatch", "f"), ("notice", "s")):
        far = [agents[one["tid"]] for one in arrows if (one["name"], one["ph"]) == (name, phase)]
        assert sorted(far) == of_forks, f"{name} arrows are on the lanes of {far}"
    assert sorted(begun.values()) == ["dispatch"] * 3 + ["notice"] * 3
    assert begun == {one["id"]: one["name"] for one in arrows if one["ph"] == "f"}


async def test_a_lane_for_each_agent_and_two_parts_of_each_request(world: Worlds) -> None:
    """Every agent has its lane, every request waits and streams, figures are in the details."""
    trace = chrome_trace(timeline(await fan_out(world)))
    events = trace["traceEvents"]
    names = {one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert {"main", "main/fork-1", "main/fork-2", "main/fork-3"} <= names
    requests = [one for one in events if one["ph"] == "X" and one["cat"] == "request"]
    whole = [one for one in requests if one["args"]]
    parts = [one["name"] for one in requests if not one["args"]]
    assert parts.count("waiting") == parts.count("streaming") == len(whole)
    assert all(one["args"]["input_tokens"] > 0 for one in whole)
    forked = [one for one in events if one.get("cat") == "agent" and one["name"] == "fork"]
    assert all("saved" in one["args"]["receipt"] for one in forked)
    assert any(one["ph"] == "C" and one["args"]["so far"] > 0 for one in events)
    assert any(one.get("cat") == "task" for one in events)


async def test_the_wait_for_the_leading_fork_is_seen(world: Worlds) -> None:
    """Where nothing is cached yet, siblings wait for the first event of the one that leads."""
    script = Script([say("x")], {part: [report("done")] for part in PARTS}, forever=say("ok"))
    settings = '{"fork": {"schedule": "leader"}}'
    long = "word " * 6_000
    async with world(script, mode="bypassPermissions", settings=settings) as w:
        await w.session.run(long)
        w.parts.agent.client.clock = lambda: time.time() + 4_000
        await w.session.fork(PARTS)
        found = timeline(w.session.events().drain())
    held = {s.opened.agent: s for s in found.spans if s.opened.kind == "held"}
    assert set(held) == {f"main/fork-{n}" for n in (1, 2, 3)}
    asked = [s for s in found.spans if s.opened.kind == "request" and s.opened.agent in held]
    leader, *others = sorted(asked, key=lambda span: span.opened.at)
    assert held[leader.opened.agent].closed.at < leader.closed.first
    assert all(span.opened.at > leader.opened.at + 0.0001 for span in others)
    assert all(held[span.opened.agent].closed.at == span.opened.at for span in others)


def test_what_outlives_a_turn_is_beside_it() -> None:
    """A command begun while a turn does nothing else, and ending after it, is on another lane."""

    def span(kind: str, begin: float, end: float, parent: str = "") -> TimeSpan:
        opened: dict[str, Any] = {"key": kind, "kind": kind, "name": kind, "parent": parent}
        return TimeSpan(SpanOpened(**opened, agent=MAIN, at=begin), SpanClosed(key=kind, at=end))

    spans = (span("turn", 0, 10), span("task", 2, 20, "turn"), span("tool", 5, 6, "turn"))
    trace = chrome_trace(Timeline("s", (MAIN,), spans, (), (), ()))
    check_nesting(trace)
    assert sorted(map(len, slices(trace).values())) == [1, 2]


async def test_whatever_begins_ends_wherever_the_events_stop(world: Worlds) -> None:
    """A trace of any beginning of a session is whole: as after a kill, or while it runs."""
    told = await fan_out(world)
    for size in range(len(told)):
        found = timeline(told[:size])
        assert all(span.opened.at <= span.closed.at for span in found.spans)
        check_nesting(chrome_trace(found))
    # What a live reader sees is the same: a span is opened once, and closed once or not yet.
    chronicle = Chronicle()
    changes = [change for one in told for change in chronicle.take(one)]
    opened = [one.key for one in changes if isinstance(one, SpanOpened)]
    closed = [one.key for one in changes if isinstance(one, SpanClosed)]
    assert len(opened) == len(set(opened))
    assert sorted(opened) == sorted(closed)


async def test_parents_begin_before_their_children(world: Worlds) -> None:
    """A span's parent is known when it begins, and is the agent's, a turn's or a fan-out's."""
    found = timeline(await fan_out(world))
    kinds = {span.opened.key: span.opened.kind for span in found.spans}
    seen: set[str] = set()
    for span in found.spans:
        assert not span.opened.parent or span.opened.parent in seen, span
        seen.add(span.opened.key)
    parents = {s.opened.kind: {kinds.get(s.opened.parent)} for s in found.spans}
    assert parents["turn"] == {"agent"}
    assert parents["request"] == parents["held"] == {"turn"}
    forked = [s for s in found.spans if s.opened.agent.startswith("main/")]
    assert {kinds[s.opened.parent] for s in forked if s.opened.kind == "agent"} == {"fanout"}
    assert json.loads(json.dumps(chrome_trace(found)))
