"""Types of agents given as values: beside the files, with functions of their own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import prong
from prong.config.type_option import read_types
from prong.errors import BadInput
from prong.event import ToolFinished
from prong.hook_call import HookResult, PreToolUseInput
from prong.session.member_start import MemberStart, plain_options
from prong.testing import Script, Worlds, call, inside, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B3")]

APIS = ["anthropic", "responses", "chat"]


@prong.tool(read_only=True)
def lookup(city: str) -> str:
    """Tell the weather of a city."""
    return f"rain in {city}"


@prong.tool
def keep(key: str) -> str:
    """Keep a word."""
    return f"kept {key}"


@prong.tool(read_only=True)
def peek(city: str) -> str:
    """Tell the name of a city."""
    return city


def kind(name: str, **more: Any) -> prong.AgentType:
    """Make a type."""
    given: dict[str, Any] = {"name": name, "description": f"Does {name}", "prompt": "Work."}
    return prong.AgentType(**given | more)


def start(name: str, brief: str = "BRIEF") -> Any:
    """Make the call that starts an agent of a type."""
    return call("Agent", {"subagent_type": name, "prompt": brief, "description": "x"})


def names(body: Any) -> list[str]:
    return [one.get("name") or one["function"]["name"] for one in body.get("tools", ())]


def child(w: Any) -> Any:
    """Give the first request of the child."""
    return next(
        b
        for b in w.bodies()
        if "BRIEF" in json.dumps(b) and "subagent" not in json.dumps(b["messages"])
    )


async def test_a_type_is_a_value(world: Worlds) -> None:
    """It is listed, chosen, and made with its prompt and its tools; a program can start it too."""
    given = kind("reviewer", prompt="YOU REVIEW", tools=["Read", "Grep"], max_turns=3)
    script = Script([start("reviewer"), say("ok")], routes={"BRIEF": [say("fine"), say("again")]})
    async with world(script, agents=[given], mode="dontAsk") as w:
        await w.session.run("Go")
        body = child(w)
        assert names(body) == ["Read", "Grep"]
        assert "YOU REVIEW" in json.dumps(body["system"])
        assert "- reviewer: Does reviewer" in json.dumps(w.bodies()[0]["tools"])
        assert (await w.session.agent("reviewer", "BRIEF")).text == "again"


@pytest.mark.parametrize("form", ["values", "mapping", "JSON"])
async def test_the_forms_mean_the_same(world: Worlds, form: str) -> None:
    """A value, a mapping and JSON give the same head, to the byte."""
    told = {"reviewer": {"description": "Reviews", "prompt": "Work.", "tools": ["Read"]}}
    value = prong.AgentType(name="reviewer", description="Reviews", prompt="Work.", tools=("Read",))
    forms: dict[str, Any] = {"values": [value], "mapping": told, "JSON": json.dumps(told)}
    async with world([say("a")], agents=forms[form]) as w:
        found = inside(w.session).place.types["reviewer"]
        assert msgspec.structs.replace(found, source="flag", path="") == msgspec.structs.replace(
            value, source="flag"
        )


@pytest.mark.parametrize("api", APIS)
async def test_types_are_in_the_head_in_one_order(world: Worlds, api: str) -> None:
    """In whatever order types, tools and functions are given, the head is the same to the byte."""
    heads: list[bytes] = []
    one, two = kind("beta", tools=[lookup, "Read"]), kind("alpha")
    async with world(opens=False, api=api) as w:
        for agents, tools in (([one, two], [keep, lookup]), ([two, one], [lookup, keep])):
            async with w.open(agents=agents, tools=tools) as session:
                data = session.records.snapshot.head.data
                heads.append(data.replace(session.id.encode(), b""))
    assert heads[0] == heads[1]
    assert 0 < heads[0].index(b"- alpha") < heads[0].index(b"- beta")


async def test_a_function_is_of_its_type_alone(world: Worlds) -> None:
    """The main agent, forks and other types do not have it; its type has it after Prong's own."""
    agents = [kind("beta", tools=[lookup, "Read", keep]), kind("alpha")]
    script = Script(
        [start("beta"), start("alpha", "OTHER"), say("ok")],
        routes={
            "BRIEF": [call("lookup", {"city": "Oslo"}), say("done")],
            "OTHER": [say("done")],
            "FORKED": [report()],
        },
    )
    async with world(script, agents=agents, tools=[keep], mode="dontAsk") as w:
        await w.session.run("Go")
        await w.session.fork(["FORKED"])
        assert [e.text for e in w.told(ToolFinished) if e.name == "lookup"] == ["rain in Oslo"]
        having = [names(body) for body in w.bodies() if "lookup" in names(body)]
        assert having == [["Read", "keep", "lookup"]] * 2


@pytest.mark.spec("L5")
@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_a_function_of_a_type_is_under_the_gate(world: Worlds, backend: str) -> None:
    """Rules know it by its name, plan mode lets only readers through, wherever the agent runs."""
    agents = [
        kind("beta", tools=[lookup, keep]),
        kind("planner", tools=[peek, keep], permission_mode="plan"),
    ]
    script = Script(
        [start("beta"), start("planner", "PLAN"), say("ok")],
        routes={
            "BRIEF": [call("lookup", {"city": "a"}), call("keep", {"key": "b"}), say("done")],
            "PLAN": [say("done")],
        },
    )
    settings = {
        "permissions": {"deny": ["lookup"], "allow": ["keep"]},
        "agents": {"backend": backend},
    }
    async with world(script, agents=agents, settings=json.dumps(settings)) as w:
        await w.session.run("Go")
        ends = [(e.name, e.refused) for e in w.told(ToolFinished) if e.name != "Agent"]
        assert ends == [("lookup", True), ("keep", False)]
        planner = next(b for b in w.bodies() if "PLAN" in json.dumps(b["messages"][:1]))
        assert names(planner) == ["peek"]


async def test_a_type_has_hooks_of_its_own(world: Worlds) -> None:
    """Functions among the hooks of a type guard its agents, after the session's, and nobody else."""
    seen: list[str] = []

    def own(told: PreToolUseInput) -> HookResult:
        seen.append(f"own {told.tool_name}")
        return HookResult(context="OWN")

    def all_of_them(told: PreToolUseInput) -> HookResult:
        seen.append(f"all {told.tool_name}")
        return HookResult(context="ALL")

    script = Script(
        [start("beta"), say("ok")], routes={"BRIEF": [call("Glob", {"pattern": "*"}), say("done")]}
    )
    agents = [kind("beta", hooks=[own])]
    async with world(script, agents=agents, hooks=[all_of_them], mode="dontAsk") as w:
        await w.session.run("Go")
        told = json.dumps(w.bodies())
        assert 0 < told.index("ALL") < told.index("OWN")
    assert sorted(seen) == ["all Agent", "all Glob", "own Glob"]


async def test_a_value_goes_before_a_file(world: Worlds) -> None:
    """Of two types with one name the program's counts, and the other is named as hidden."""
    file = "---\ndescription: of the file\n---\nFILE"
    async with world(
        [say("a")], agents=[kind("beta")], files={"~/.prong/agents/beta.md": file}
    ) as w:
        assert inside(w.session).place.types["beta"].prompt == "Work."
        assert any("is hidden by program" in text for text in w.warnings)


def other(city: str) -> str:
    """Tell nothing."""
    return city


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        (kind("x"), "must be a list of AgentType"),
        (["x"], "each item of the option agents must be an AgentType"),
        ([kind("a b")], "may have letters, digits"),
        ([kind("fork")], "the name 'fork' is taken"),
        ([kind("x"), kind("x")], "two types are called 'x'"),
        ([kind("x", prompt="")], "x: Expected `str` of length >= 1 - at `$.prompt`"),
        ([kind("x", permission_mode="yolo")], "x: Invalid enum value 'yolo'"),
        ([kind("x", max_turns=0)], "x: Expected `int` >= 1"),
        ([kind("x", tools=["Read", 3])], "x: Expected `str`, got `int`"),
        ([kind("x", tools=["Re ad"])], "is not the name of a tool"),
        ([kind("x", tools=[lambda: "x"])], "a tool cannot be called '<lambda>'"),
        (
            [kind("x", tools=[prong.tool(name="look_up")(other), lookup])],
            "two functions are called",
        ),
        ([kind("x", disallowed_tools=["bash(rm:*)"])], "x: "),
        ([kind("x", hooks=[3])], "each item of the hooks of the type x must be"),
        ({"x": {"description": "x"}}, "agents: x: Object missing required field `prompt`"),
        ({3: {}}, "the name 3 is not a text"),
    ],
)
async def test_a_wrong_type_is_refused_before_anything_is_made(
    world: Worlds, agents: Any, why: str
) -> None:
    """The error names the type and what is wrong, and no journal is left behind."""
    async with world(opens=False) as w:
        with pytest.raises(prong.UsageError) as caught:
            async with w.open(agents=agents):
                pass
        assert why in str(caught.value)
        assert [*w.store.rglob("*.jsonl")] == []


async def test_one_function_may_be_of_several(world: Worlds) -> None:
    """A function of the session and of types is one tool; another of its name is refused."""
    agents = [kind("x", tools=[other]), kind("y", tools=[other, keep])]
    async with world([say("a")], agents=agents, tools=[other, keep]) as w:
        types = inside(w.session).place.types
        assert types["x"].functions[0] is types["y"].functions[0]
    async with world(opens=False, folder=w.folder / "2") as w:
        with pytest.raises(BadInput, match="two functions are called"):
            async with w.open(agents=agents, tools=[prong.tool(name="other")(len_of)]):
                pass


def len_of(text: str) -> int:
    """Count."""
    return len(text)


def test_types_go_to_another_process_unless_they_hold_functions() -> None:
    """A member in a pane gets the types that its leader was given, or is not started at all."""
    given = plain_options(prong.Options(agents=[kind("x", tools=("Read",))]))
    data = msgspec.json.encode(given)
    back = MemberStart(spec=None, given=msgspec.json.decode(data)).options  # pyright: ignore[reportArgumentType] # not looked at
    assert back.agents is not None
    assert msgspec.json.encode(plain_options(back)) == data
    for more in (
        {"tools": [lookup]},
        {"hooks": [test_types_go_to_another_process_unless_they_hold_functions]},
    ):
        with pytest.raises(prong.UsageError, match="cannot go to another process"):
            plain_options(prong.Options(agents=[kind("x", **more)]))


def look(told: PreToolUseInput) -> None:
    """Look on."""
    del told


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "given",
    [
        {"tools": [lookup]},
        {"hooks": [look]},
        {"agents": [kind("x", tools=[lookup])]},
        {"agents": [kind("x", hooks=[look])]},
    ],
    ids=["tool", "hook", "tool of a type", "hook of a type"],
)
async def test_a_member_elsewhere_is_refused_where_there_are_functions(
    world: Worlds, given: dict[str, Any]
) -> None:
    """A session of its own could not call them, so a member that is to have a pane is refused."""
    spawn = {"name": "alice", "description": "x", "prompt": "PART", "backend": "tmux"}
    steps = [call("TeamCreate", {"name": "crew"}), call("TeamSpawn", spawn), say("I see.")]
    async with world(steps, team=True, mode="bypassPermissions", **given) as w:
        await w.session.run("Go")
        (end,) = [one for one in w.told(ToolFinished) if one.name == "TeamSpawn"]
        assert end.failed
        assert "functions that are tools or hooks cannot go to another process" in end.text


@pytest.mark.spec("S3", "L11")
def test_servers_of_a_type_may_be_given_as_values() -> None:
    """As a field of the value, or written out in the mapping, as in a file."""
    run = {"own": {"command": "run"}}
    value = prong.AgentType(name="a", description="d", prompt="p", servers=run, mcp_servers=("x",))
    mapping = {"b": {"description": "d", "prompt": "p", "mcpServers": run}}
    (one,), (two,) = read_types([value]), read_types(mapping)

    assert (one.servers, one.mcp_servers) == (run, ("x", "own"))
    assert (two.servers, two.mcp_servers) == (run, ("own",))
