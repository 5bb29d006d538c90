"""Many tools of servers: found by search, called under their own names, judged like all others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from prong.config.slip import check_rule
from prong.entry import Call, CallId
from prong.event import MAIN, PermissionAsked, QuestionAsked, ToolFinished
from prong.question import Answer
from prong.testing import Script, Step, call, say, world
from prong.tools.mcp_search import meant
from prong.tools.rule import Effect
from shared.served import patient, server_config
from shared.typed import agent, of

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L2", "L13")]

TOOL = "mcp__many__tool_7"


def through(tool: str = TOOL, **arguments: Any) -> Step:
    return call("McpCall", {"tool": tool, "arguments": arguments})


async def test_many_tools_stand_in_no_request() -> None:
    """Above the set size the request has two tools for all, and a search gives the schema."""
    script = [
        call("McpSearch", {"query": "thing number 7", "limit": 3}),
        through(word="w"),
        say(""),
    ]
    async with world(
        script, mcp_config=server_config("many", "300"), settings=patient(), allow=["mcp__many"]
    ) as w:
        await w.session.run("Go")
        first = w.bodies()[0]
        names = [tool["name"] for tool in first["tools"]]
        assert names[-2:] == ["McpSearch", "McpCall"]
        assert len(msgspec.json.encode(first["tools"][-2:])) < 3_000
        assert "many (30" in first["tools"][-2]["description"]
        assert TOOL in str(w.bodies()[1]["messages"][-1])
        assert "found w" in str(w.bodies()[2]["messages"][-1])
        assert [one.name for one in w.told(ToolFinished)] == ["McpSearch", TOOL]


@pytest.mark.parametrize("rule", ["mcp__many", TOOL, "mcp__many__*"])
async def test_rules_hold_for_what_is_meant(rule: str) -> None:
    """A deny rule on a server's tool holds for a call through McpCall."""
    async with world(
        [through(word="w"), say("")],
        mcp_config=server_config("many", "300"),
        settings=patient(),
        mode="bypassPermissions",
        deny=[rule],
    ) as w:
        await w.session.run("Go")
        (ended,) = w.told(ToolFinished)
        assert ended.refused
        assert "is forbidden by" in ended.text


async def test_the_user_is_asked_about_what_is_meant() -> None:
    """The question names the server's tool, and a yes for the session is a rule about it alone."""
    asked: list[PermissionAsked | QuestionAsked] = []

    def respond(path: str, question: PermissionAsked | QuestionAsked) -> Answer:
        asked.append(question)
        assert path == MAIN
        return Answer(question.request_id, remember="session")

    async with world(
        [through(word="a"), through(word="b"), say("")],
        mcp_config=server_config("many", "300"),
        settings=patient(),
        respond=respond,
    ) as w:
        await w.session.run("Go")
        (one,) = asked
        assert isinstance(one, PermissionAsked)
        assert (one.tool, one.suggestion) == (TOOL, (TOOL,))


async def test_hooks_hold_for_what_is_meant() -> None:
    """A hook with a matcher for a server's tools blocks a call through McpCall."""
    hook = {"type": "command", "command": "echo no >&2; exit 2"}
    hooks = {"PreToolUse": [{"matcher": "mcp__many__.*", "hooks": [hook]}]}
    async with world(
        [through(word="w"), say("")],
        mcp_config=server_config("many", "300"),
        settings={**patient(), "hooks": hooks},
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Go")
        (ended,) = w.told(ToolFinished)
        assert (ended.name, ended.refused) == (TOOL, True)


@pytest.mark.parametrize("effect", ["deny", "ask", "allow"])
def test_a_rule_about_the_way_is_refused(effect: Effect) -> None:
    """A rule about McpCall itself would hold for nothing, so no session starts with one."""
    wrong = check_rule("McpCall", effect, foreign=False)
    assert wrong is not None
    assert not wrong.harmless
    assert "name that: mcp__server__tool" in wrong.why


async def test_children_find_what_their_type_lets_them_have() -> None:
    """A child searches among the tools of its own, and calls no other."""
    types = {
        "one": {"description": "d", "prompt": "p", "tools": ["Read", TOOL]},
        "none": {"description": "d", "prompt": "p", "disallowedTools": ["McpSearch"]},
    }
    steps = [through(word="w"), through("mcp__many__tool_8", word="w"), say("Tried.")]
    script = Script(
        [agent("FIRST", "one"), agent("SECOND", "none"), say("W."), say("D."), say("D.")],
        {"FIRST": steps, "SECOND": [through(word="w"), say("Tried.")]},
    )
    async with world(
        script,
        mcp_config=server_config("many", "300"),
        settings=patient(),
        mode="bypassPermissions",
        agents=msgspec.json.encode(types).decode(),
    ) as w:
        await w.session.run("Go")
        first, second = of(w, "FIRST"), of(w, "SECOND")
        assert [tool["name"] for tool in first[0]["tools"]] == ["Read", "McpSearch", "McpCall"]
        assert "found w" in str(first[1]["messages"][-1])
        assert "there is no tool 'mcp__many__tool_8'" in str(first[2]["messages"][-1])
        assert "McpSearch" not in {tool["name"] for tool in second[0]["tools"]}
        assert "there is no tool" in str(second[1]["messages"][-1])


async def test_a_worker_process_calls_what_is_meant() -> None:
    """An agent in a process of its own calls deferred tools as one in the session does."""
    script = Script(
        [agent("BRIEF", "general-purpose"), say("W."), say("D.")],
        {"BRIEF": [through(word="w"), say("Tried.")]},
    )
    async with world(
        script,
        mcp_config=server_config("many", "300"),
        settings={**patient(), "agents": {"backend": "process"}},
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Go")
        assert "found w" in str(of(w, "BRIEF")[1]["messages"][-1])


@pytest.mark.parametrize(
    ("arguments", "name", "inner"),
    [
        ('{"tool": "mcp__a__b", "arguments": {"x": 1}}', "mcp__a__b", '{"x":1}'),
        ('{"tool": "mcp__a__b"}', "mcp__a__b", "{}"),
        ('{"tool": "mcp__a__b", "arguments": "{\\"x\\": 1}"}', "mcp__a__b", '{"x": 1}'),
        ('{"tool": "Bash", "arguments": {"command": "ls"}}', "McpCall", None),
        ('{"tool": "mcp__a__*"}', "McpCall", None),
        ('{"tool": "mcp__a__b", "more": 1}', "McpCall", None),
        ('{"tool": 3}', "McpCall", None),
        ("[]", "McpCall", None),
        ("{", "McpCall", None),
    ],
)
def test_only_tools_of_servers_are_meant(arguments: str, name: str, inner: str | None) -> None:
    """A call through McpCall means a server's tool; anything else stays what it is, and fails."""
    made = meant(Call(CallId("1"), "McpCall", arguments))
    assert (made.name, made.arguments) == (name, arguments if inner is None else inner)


async def test_what_is_no_servers_tool_does_not_run() -> None:
    """McpCall with another tool's name runs nothing, in every mode."""
    async with world(
        [through("Bash", command="touch made"), say("")],
        mcp_config=server_config("many", "300"),
        settings=patient(),
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Go")
        (ended,) = w.told(ToolFinished)
        assert ended.failed
        assert not (w.root / "made").exists()
