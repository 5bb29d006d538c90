"""Python functions as tools of a session: under the gate, in the head, in forks."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import msgspec
import pytest

import prong
from prong.command import Interrupt
from prong.entry import Image
from prong.errors import BadInput
from prong.event import PromptMoved, ToolFinished, ToolOutput, ToolStarted
from prong.hook_call import HookResult, PreToolUseInput
from prong.testing import Script, Worlds, call, calls, report, say
from shared.picture import PNG
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B1")]

APIS = ["anthropic", "responses", "chat"]


@prong.tool(read_only=True)
def lookup(city: str) -> str:
    """Tell the weather of a city."""
    return f"rain in {city}"


@prong.tool
async def store(key: str, value: int = 0) -> dict[str, int]:
    """Keep a number."""
    await anyio.sleep(0)
    return {key: value}


def names(body: Any) -> list[str]:
    return [one.get("name") or one["function"]["name"] for one in body["tools"]]


@pytest.mark.parametrize("api", APIS)
async def test_a_function_is_called_and_told(world: Worlds, api: str) -> None:
    """A plain one and an async one run; the model sees what they gave, as text or JSON."""
    steps = [call("lookup", {"city": "Oslo"}), call("store", {"key": "a", "value": 3}), say("ok")]
    async with world(steps, api=api, tools=[store, lookup], allow=("store",)) as w:
        turn = await w.session.run("Go")
        assert turn.text == "ok"
        told = w.told(ToolFinished)
        assert [(e.name, e.text, e.failed) for e in told] == [
            ("lookup", "rain in Oslo", False),
            ("store", '{"a":3}', False),
        ]
        assert told[0].title == "lookup city='Oslo'"


async def test_functions_are_added_and_names_choose(world: Worlds) -> None:
    """Functions alone leave all of Prong's tools; names keep only those beside the functions."""
    async with world([say("a")], tools=[store, lookup]) as w:
        await w.session.run("Go")
        listed = names(w.bodies()[0])
        assert listed[-2:] == ["lookup", "store"]
        assert {"Read", "Bash", "Agent"} < set(listed)
    async with world([say("a")], tools=["Read", lookup], folder=w.folder / "2") as w:
        await w.session.run("Go")
        assert names(w.bodies()[0]) == ["Read", "lookup"]


async def test_a_plain_function_need_not_be_marked(world: Worlds) -> None:
    """A function given as it is becomes a tool; it is asked for, as nobody vouches for it."""

    def count(text: str) -> int:
        return len(text)

    async with world([call("count", {"text": "abc"}), say("ok")], tools=[count]) as w:
        await w.session.run("Go")
        (end,) = w.told(ToolFinished)
        assert end.refused
        assert "count needs permission" in end.text


@pytest.mark.parametrize(
    ("mode", "name", "runs"),
    [
        ("default", "lookup", True),
        ("plan", "lookup", True),
        ("dontAsk", "lookup", True),
        ("plan", "store", False),
        ("dontAsk", "store", False),
        ("default", "store", False),
        ("acceptEdits", "store", False),
        ("bypassPermissions", "store", True),
    ],
)
async def test_the_gate_knows_a_function(world: Worlds, mode: str, name: str, runs: bool) -> None:
    """One that only reads runs in every mode, another where a rule or the mode lets it."""
    given = {"city": "Oslo"} if name == "lookup" else {"key": "a"}
    async with world([call(name, given), say("ok")], tools=[lookup, store], mode=mode) as w:
        await w.session.run("Go")
        (end,) = w.told(ToolFinished)
        assert end.refused is not runs


async def test_rules_speak_of_a_function_by_its_name(world: Worlds) -> None:
    """Deny wins over `read_only`, ask is asked, and a name near one of Prong's is no slip."""

    @prong.tool(read_only=True)
    def reader(path: str) -> str:
        return path

    steps = [calls(("lookup", {"city": "a"}), ("reader", {"path": "b"})), say("ok")]
    settings = '{"permissions": {"ask": ["reader"]}}'
    given: dict[str, Any] = {"deny": ("lookup",), "settings": settings}

    async def respond(agent: str, asked: prong.PermissionAsked | prong.QuestionAsked) -> Any:
        assert isinstance(asked, prong.PermissionAsked)
        assert (agent, asked.tool) == ("main", "reader")
        return prong.Answer(asked.request_id, allow=True)

    async with world(steps, tools=[lookup, reader], respond=respond, **given) as w:
        await w.session.run("Go")
        assert {e.name: e.refused for e in w.told(ToolFinished)} == {
            "lookup": True,
            "reader": False,
        }
        assert not any("names no tool" in text for text in w.warnings)


@pytest.mark.parametrize("api", APIS)
async def test_forks_share_functions_to_the_byte(world: Worlds, api: str) -> None:
    """Forks send the head of their parent, call at the same time, and each gets its answer."""
    both = threading.Barrier(2, timeout=60)

    @prong.tool(read_only=True)
    def meet(who: str) -> str:
        both.wait()
        return f"{who} was met"

    script = Script(
        [say("ready")],
        routes={
            f"DIRECTIVE-{who}.": [call("meet", {"who": who}), report(f"{who} done")] for who in "ab"
        },
    )
    async with world(script, api=api, tools=[meet], mode="dontAsk") as w:
        await w.session.run("Go")
        results = await w.session.fork(["DIRECTIVE-a.", "DIRECTIVE-b."])
        assert [one.status for one in results] == ["completed"] * 2
        assert sorted(e.text for e in w.told(ToolFinished)) == ["a was met", "b was met"]
        first, *others = (msgspec.json.encode(body["tools"]) for body in w.bodies())
        assert set(others) == {first}
        assert b"meet" in first
        shared = {one.receipt.bytes_shared for one in results}
        assert len(shared) == 1
        assert all(one.receipt.miss == "" for one in results)


async def test_what_a_function_raises_is_told_to_the_model(world: Worlds) -> None:
    """Whatever it is, the model reads it and may do otherwise; the turn goes on."""

    @prong.tool(read_only=True)
    def fail(how: str) -> str:
        raise {"stop": StopIteration, "exit": SystemExit, "cancel": asyncio.CancelledError}.get(
            how, KeyError
        )(how)

    @prong.tool(read_only=True)
    async def fail_async(how: str) -> str:
        await anyio.sleep(0)
        raise {"exit": SystemExit, "cancel": asyncio.CancelledError}.get(how, OSError)(how)

    hows = [("fail", how) for how in ("key", "stop", "exit", "cancel")]
    hows += [("fail_async", how) for how in ("os", "exit", "cancel")]
    steps = [calls(*((name, {"how": how}) for name, how in hows)), say("I see")]
    async with world(steps, tools=[fail, fail_async]) as w:
        turn = await w.session.run("Go")
        assert turn.text == "I see"
        texts = [e.text for e in w.told(ToolFinished)]
        assert all(e.failed and not e.interrupted for e in w.told(ToolFinished))
        assert "fail failed: KeyError: 'key'" in texts
        assert "fail failed: StopIteration: stop" in texts
        assert "fail_async failed: OSError: os" in texts
        assert "fail_async failed: CancelledError: cancel" in texts


async def test_wrong_arguments_can_be_repaired(world: Worlds) -> None:
    """The model is told what is wrong with its arguments, and the function is not called."""
    steps = [call("store", {"key": 3}), call("store", {"key": "a", "vlaue": 1}), say("ok")]
    async with world(steps, tools=[store], allow=("store",)) as w:
        await w.session.run("Go")
        one, two = (e.text for e in w.told(ToolFinished))
        assert "Expected `str`, got `int` - at `$.key`" in one
        assert "unknown field `vlaue`" in two


async def test_results_of_every_kind(world: Worlds) -> None:
    """Nothing, bytes, what JSON cannot say, far too much, a picture: each has its words."""

    @prong.tool(read_only=True, max_result=100)
    def give(what: str) -> Any:
        return {
            "none": None,
            "bytes": b"x",
            "object": object(),
            "long": "long " * 1000,
            "huge": "x" * 50_000_000 if what == "huge" else "",
            "picture": Image("image/jpeg", base64.b64encode(PNG).decode()),
            "nonsense": Image("image/png", "aGk="),
            "broken": "half \ud800",
        }[what]

    kinds = ["none", "bytes", "object", "long", "huge", "picture", "nonsense", "broken"]
    steps = [calls(*(("give", {"what": kind}) for kind in kinds)), say("ok")]
    async with world(steps, tools=[give]) as w:
        turn = await w.session.run("Go")
        assert turn.ok
        titles = {e.title: e.text for e in w.told(ToolFinished)}
        found = {kind: titles[f"give what='{kind}'"] for kind in kinds}
        assert found["none"] == "(no output)"
        assert "gave bytes, which no model can read" in found["bytes"]
        assert (
            "cannot be told to a model: JSON cannot say what is of type object" in found["object"]
        )
        assert "characters left out here" in found["long"]
        assert "gave 50,000,000 characters" in found["huge"]
        assert found["broken"] == "half ?"
        assert found["nonsense"].startswith("[a picture was left out: it is no PNG")
        assert '"media_type":"image/png"' in msgspec.json.encode(w.bodies()[1]).decode()


async def test_a_generator_shows_its_pieces(world: Worlds) -> None:
    """What it yields is told while it runs, and all of it is the result."""

    @prong.tool(read_only=True)
    def build() -> Iterator[str]:
        yield "one "
        yield "two"

    @prong.tool(read_only=True)
    async def watch() -> AsyncIterator[str]:
        yield "three "
        await anyio.sleep(0)
        yield "four"

    async with world([call("build"), call("watch"), say("ok")], tools=[build, watch]) as w:
        await w.session.run("Go")
        assert [e.text for e in w.told(ToolOutput)] == ["one ", "two", "three ", "four"]
        assert [e.text for e in w.told(ToolFinished)] == ["one two", "three four"]


async def test_a_generator_without_end_is_ended(world: Worlds) -> None:
    """What yields for ever is closed once nobody could keep what it gave, and others go on."""
    closed: list[str] = []

    @prong.tool(read_only=True)
    def build() -> Iterator[str]:
        try:
            while True:
                yield "x" * 1_000_000
        finally:
            closed.append("build")

    @prong.tool(read_only=True)
    async def watch() -> AsyncIterator[str]:
        try:
            while True:
                yield "x" * 100_000
        finally:
            closed.append("watch")

    async with world([calls(("build", {}), ("watch", {})), say("ok")], tools=[build, watch]) as w:
        assert (await w.session.run("Go")).text == "ok"
        assert all("can be kept: ask it for less" in e.text for e in w.told(ToolFinished))
    assert sorted(closed) == ["build", "watch"]


@pytest.mark.parametrize(
    ("updated", "text"),
    [({"key": "b", "value": 2}, '{"b":2}'), ({"key": 3}, "Expected `str`, got `int`")],
)
async def test_a_hook_changes_what_a_function_gets(
    world: Worlds, updated: dict[str, Any], text: str
) -> None:
    """The changed input is checked by the function's types, and decided on by its name."""

    def change(told: PreToolUseInput) -> HookResult:
        assert told.tool_input == {"key": "a"}
        return HookResult(decision="allow", updated_input=updated)

    steps = [call("store", {"key": "a"}), say("ok")]
    async with world(steps, tools=[store], hooks=[change]) as w:
        await w.session.run("Go")
        assert text in w.told(ToolFinished)[0].text


async def test_bounds_hold_for_calls_of_functions(world: Worlds) -> None:
    """A turn whose bound is reached ends after the call; a model that repeats one is stopped."""
    again = call("lookup", {"city": "Oslo"})
    async with world([again, say("no")], tools=[lookup], max_turns=1) as w:
        assert (await w.session.run("Go")).why == "limit"
        assert [e.text for e in w.told(ToolFinished)] == ["rain in Oslo"]
    async with world([again] * 30, tools=[lookup], folder=w.folder / "2") as w:
        assert (await w.session.run("Go")).why == "loop"


async def test_a_call_can_be_interrupted(world: Worlds) -> None:
    """An interrupt ends the turn at once, whether the function waits in a thread or not."""
    began, free = threading.Event(), threading.Event()

    @prong.tool(read_only=True)
    def hang() -> str:
        began.set()
        free.wait(20)
        return "late"

    @prong.tool(read_only=True)
    async def sleep() -> str:
        began.set()
        await anyio.sleep_forever()
        return "never"

    async with world([calls(("hang", {}), ("sleep", {}))], tools=[hang, sleep]) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await anyio.to_thread.run_sync(began.wait)
            await until(lambda: len(w.told(ToolStarted)) == 2)
            await w.session.send(Interrupt())
        assert w.session.last is not None
        assert w.session.last.why == "interrupted"
        assert [e.interrupted for e in w.told(ToolFinished)] == [True, True]
        free.set()


async def test_a_function_that_blocks_is_named(world: Worlds) -> None:
    """An async function that keeps the event loop from all agents is told to whoever wrote it."""

    @prong.tool(read_only=True)
    async def block() -> str:
        time.sleep(1.05)
        return "done"

    async with world([call("block"), say("ok")], tools=[block]) as w:
        await w.session.run("Go")
        (warning,) = [text for text in w.warnings if "kept the event loop" in text]
        assert "make it a plain function" in warning


async def test_a_function_that_was_changed_is_not_called(world: Worlds) -> None:
    """The model knows the parameters that stood in the head; others are refused."""

    def shift(by: int) -> int:
        return by

    made = prong.tool(read_only=True)(shift)
    async with world([call("shift", {"by": 1}), say("ok")], tools=[made]) as w:
        shift.__annotations__["by"] = str
        await w.session.run("Go")
        (end,) = w.told(ToolFinished)
        assert end.failed
        assert "was changed since it was made a tool" in end.text


@pytest.mark.moves_prefix("the tool has another schema")
async def test_another_schema_on_resume_starts_a_new_prompt(world: Worlds) -> None:
    """A resumed session shows the model the function as it is now, and says that it moved."""

    def first(town: str) -> str:
        return town

    def second(city: str, days: int) -> str:
        return f"{city} {days}"

    steps = [say("a"), call("find", {"city": "Oslo", "days": 2}), say("b")]
    async with world(steps, opens=False) as w:
        async with w.open(tools=[prong.tool(name="find")(first)]) as session:
            await session.run("Hi")
        now = prong.tool(name="find", read_only=True)(second)
        async with w.open(tools=[now], resume=session.id) as session:
            await session.run("Go")
        assert [e.text for e in w.told(ToolFinished)] == ["Oslo 2"]
        assert [e.reason for e in w.told(PromptMoved)] == ["tools"]


async def test_a_typed_agent_has_functions(world: Worlds) -> None:
    """A type without a list has them, in the background too; one in plan mode those that read."""
    agents = msgspec.json.encode(
        {
            "any": {"description": "x", "prompt": "Work.", "background": True},
            "planner": {"description": "x", "prompt": "Work.", "permissionMode": "plan"},
            "listed": {"description": "x", "prompt": "Work.", "tools": ["Read", "store"]},
        }
    ).decode()
    kinds = ["any", "planner", "listed"]
    starts = [
        call("Agent", {"subagent_type": kind, "prompt": f"BRIEF {kind}", "description": "x"})
        for kind in kinds
    ]
    script = Script(
        [*starts, say("ok"), say("ok")], routes={f"BRIEF {k}": [say("done")] for k in kinds}
    )
    async with world(script, tools=[lookup, store], agents=agents, mode="dontAsk") as w:
        await w.session.run("Go")
        found = {}
        for body in w.bodies():
            said = msgspec.json.encode(body["messages"]).decode()
            for kind in kinds:
                if f"BRIEF {kind}" in said and "Agent" not in said:
                    found[kind] = {"lookup", "store"} & set(names(body))
        assert found == {"any": {"lookup", "store"}, "planner": {"lookup"}, "listed": {"store"}}


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ("Read", "must be a list of functions and names"),
        ([3], "must be a function or the name of a tool"),
        ([lookup, prong.tool(name="look_up")(lambda: "x")], "two functions are called 'look_up'"),
        ([lambda: "x"], "a tool cannot be called '<lambda>'"),
        ([lookup, "Nope"], "there is no tool Nope"),
    ],
)
async def test_a_wrong_list_is_refused_before_anything_is_made(
    world: Worlds, tools: Any, why: str
) -> None:
    """The error says what is wrong, and no journal is left behind."""
    async with world(opens=False) as w:
        with pytest.raises(prong.UsageError) as caught:
            async with w.open(tools=tools):
                pass
        assert why in str(caught.value)
        assert [*w.store.rglob("*.jsonl")] == []


async def test_hooks_see_a_function(world: Worlds) -> None:
    """A hook that is told of calls by name can refuse one."""
    hook = {"matcher": "lookup", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}
    settings = msgspec.json.encode({"hooks": {"PreToolUse": [hook]}}).decode()
    async with world(
        [call("lookup", {"city": "Oslo"}), say("ok")], tools=[lookup], settings=settings
    ) as w:
        await w.session.run("Go")
        (end,) = w.told(ToolFinished)
        assert (end.refused, end.text) == (True, "no")


async def test_a_tool_can_be_made_only_well() -> None:
    """A limit below one is refused."""
    with pytest.raises(BadInput, match="max_result is 0"):
        prong.tool(max_result=0)
