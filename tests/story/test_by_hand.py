"""Agents and fan-outs that a program starts itself: typed, bounded, in order, failures as values."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from prong.command import Fork, Refused, SetMode, Stop, Tell
from prong.errors import BadInput, NoAnswer, NotPossibleNow, SessionEnded, UnknownName
from prong.event import AgentFinished, AgentStarted
from prong.testing import Request, Script, Step, Worlds, call, fail, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B5")]

APIS = ["anthropic", "responses", "chat", "gemini"]


class Count(msgspec.Struct):
    words: int


def agents(**more: Any) -> str:
    kind = {"description": "Counts.", "prompt": "You count.", "tools": ["Read"], **more}
    return msgspec.json.encode({"counter": kind}).decode()


@pytest.mark.parametrize("background", [False, True])
async def test_an_agent_of_a_type_is_waited_for(world: Worlds, background: bool) -> None:
    """It knows its brief and not the conversation, and the conversation does not know of it."""
    script = Script(
        [say("Hi.")],
        routes={"Count a.txt": [call("Read", {"file_path": "a.txt"}), say('{"words": 3}')]},
    )
    given = agents(background=background)
    async with world(script, agents=given, files={"a.txt": "one two three"}) as w:
        await w.session.run("Hello")
        before = w.session.records.snapshot.digest
        result = await w.session.agent("counter", "Count a.txt", returns=Count)
        assert (result.status, result.value) == ("completed", Count(3))
        assert result.receipt.requests == 2
        assert w.parts.agent.conversation.prompt.digest == before
        assert [tool["name"] for tool in w.bodies()[1]["tools"]] == ["Read"]
        assert "Hello" not in str(w.bodies()[1]["messages"])


async def test_an_agent_without_a_type_of_answer_gives_its_text(world: Worlds) -> None:
    """Its last reply is there, whole."""
    async with world(Script(routes={"Count": [say("Three.")]}), agents=agents()) as w:
        result = await w.session.agent("counter", "Count")
        assert (result.text, result.report.result) == ("Three.", "Three.")


async def test_agents_that_cannot_be_are_refused(world: Worlds) -> None:
    """An unknown type, a fork, an empty brief, a worktree in plan mode, a closed session."""
    async with world(opens=False) as w:
        async with w.open(agents=agents()) as session:
            with pytest.raises(UnknownName, match="there is no agent type 'nobody'"):
                await session.agent("nobody", "Count")
            with pytest.raises(BadInput, match=r"session\.fork makes one"):
                await session.agent("fork", "Count")
            with pytest.raises(BadInput, match="must be a text"):
                await session.agent("counter", " ")
            await session.send(SetMode("plan"))
            with pytest.raises(NotPossibleNow, match="plan mode only reads"):
                await session.agent("counter", "Count", isolation="worktree")
        with pytest.raises(SessionEnded):
            await session.agent("counter", "Count")
        assert not w.bodies()


async def test_a_wrong_name_is_answered_with_those_there_are(world: Worlds) -> None:
    """To stop or to tell nobody is refused, with what runs and how the others stand."""
    waits = call("Bash", {"command": "sleep 600"})
    script = Script([say("ready")], routes={"ONE": [waits], "TWO": [report()]}, forever=say("ok"))
    async with world(script, mode="bypassPermissions") as w:
        for command, told in (
            (Stop("x"), "There is no task 'x' of yours that can be asked. Nothing of yours runs."),
            (Tell("x", "Hi"), "there is no agent 'x' of yours; you have started none"),
        ):
            assert await w.session.send(command) == Refused(told)
        await w.session.run("Go")
        await w.session.send(Fork(("TWO",)))
        await w.session.wait_settled()
        await w.session.send(Fork(("ONE",)))

        stop = await w.session.send(Stop("x"))
        assert isinstance(stop, Refused)
        assert stop.why.endswith("of yours that can be asked. What runs: fork-2.")
        tell = await w.session.send(Tell("x", "Hi"))
        assert isinstance(tell, Refused)
        assert tell.why.endswith("of yours; yours are: fork-2 (running), fork-1 (completed)")
        assert not isinstance(await w.session.send(Stop("fork-2")), Refused)


@pytest.mark.parametrize("api", APIS)
async def test_a_map_forks_for_each_item(world: Worlds, api: str) -> None:
    """Results come in the order of the items, from one base, whoever was ready first."""
    script = Script(
        [say("ready")], routes={f"ITEM-{n}.": [say(f'{{"words": {n}}}')] for n in range(7)}
    )
    async with world(script, api=api, mode="dontAsk") as w:
        await w.session.run("Go")
        results = await w.session.map(range(7), "ITEM-{}.", returns=Count, limit=3)
        assert [one.value.words for one in results] == list(range(7))
        assert len({one.receipt.bytes_shared for one in results}) == 1
        assert [one.receipt.miss for one in results] == [""] * 7
        assert w.parts.agent.conversation.prompt.depth == 2


async def test_a_map_starts_agents_of_a_type(world: Worlds) -> None:
    """With a type each item has an agent of it; a function makes the brief."""
    script = Script(routes={f"Count {n}!": [say(f"{n} words")] for n in "abc"})
    async with world(script, agents=agents()) as w:
        results = await w.session.map("abc", lambda item: f"Count {item}!", agent="counter")
        assert [one.text for one in results] == ["a words", "b words", "c words"]
        assert {e.kind for e in w.told(AgentStarted)} == {"main", "typed"}


async def test_no_more_work_at_once_than_the_limit(world: Worlds) -> None:
    """A further child starts when one has ended."""
    async with world(Script([say("ready")], forever=report("done")), mode="dontAsk") as w:
        await w.session.run("Go")
        await w.session.map(range(9), "Item {}", limit=2)
        running = most = 0
        for event in w.events:
            if isinstance(event, AgentStarted) and event.kind == "fork":
                running += 1
                most = max(most, running)
            elif isinstance(event, AgentFinished):
                running -= 1
        assert most == 2


async def test_one_that_fails_is_a_result_among_others(world: Worlds) -> None:
    """Whoever fails says why, and nobody else is stopped."""
    script = Script(
        [say("ready")],
        routes={
            "ITEM-a.": [say('{"words": 1}')],
            "ITEM-b.": [fail(400, "invalid_request_error", "too odd")],
            "ITEM-c.": [say("none")] * 3,
            "ITEM-d.": [say('{"words": 4}')],
        },
    )
    async with world(script, mode="dontAsk") as w:
        await w.session.run("Go")
        a, b, c, d = await w.session.map("abcd", "ITEM-{}.", returns=Count, limit=2)
        assert (a.value.words, d.value.words) == (1, 4)
        assert [one.status for one in (a, b, c, d)] == [
            "completed",
            "failed",
            "failed",
            "completed",
        ]
        with pytest.raises(NoAnswer, match="too odd"):
            _ = b.value
        with pytest.raises(NoAnswer, match="no Count in 3 replies"):
            _ = c.value


@pytest.mark.parametrize(
    ("items", "brief", "more", "why"),
    [
        ("ab", "Count.", {}, "write {} where the item goes"),
        ("ab", lambda _: 3, {}, "must be a text; of one it is 3"),
        ("ab", "Count {}.", {"limit": 0}, "limit is 0"),
        ("ab", "Count {}.", {"model": "claude-opus-5-5"}, "forks run on their parent's model"),
    ],
)
async def test_a_wrong_map_is_refused_before_anything_starts(
    world: Worlds, items: Any, brief: Any, more: dict[str, Any], why: str
) -> None:
    """What is wrong is said, and nothing was sent."""
    async with world(mode="dontAsk") as w:
        with pytest.raises(BadInput) as caught:
            await w.session.map(items, brief, **more)
        assert why in str(caught.value)
        assert not w.parts.supervisor.children


async def test_a_function_that_fails_starts_nothing(world: Worlds) -> None:
    """What the caller's own function raises is the caller's, before anything is started."""

    def brief(item: int) -> str:
        return f"Count {1 // item}"

    async with world(mode="dontAsk") as w:
        with pytest.raises(ZeroDivisionError):
            await w.session.map([1, 0], brief)
        assert not w.parts.supervisor.children
        assert await w.session.map([], "Count {}") == []


@pytest.mark.parametrize("how", ["fork", "map", "agent"])
async def test_whoever_gives_up_waiting_stops_them(world: Worlds, how: str) -> None:
    """Children that only their caller knows of end with the wait for them."""
    reached = anyio.Event()

    def script(request: Request) -> Step:
        if "STALL" not in str(request.body):
            return say("ready")
        reached.set()
        return Step(first_byte=60.0)

    async with world(script, mode="dontAsk", agents=agents()) as w:
        await w.session.run("Go")
        work = {
            "fork": lambda: w.session.fork(["STALL", "STALL too"]),
            "map": lambda: w.session.map("ab", "STALL {}", limit=1),
            "agent": lambda: w.session.agent("counter", "STALL"),
        }[how]
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await reached.wait()
            group.cancel_scope.cancel()
        assert not w.parts.tasks.busy()
        assert {child.status for child in w.parts.supervisor.children} == {"killed"}
