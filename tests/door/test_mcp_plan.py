"""Which agents are offered the tools of servers, where only reading is possible."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from prong.testing import Script, call, say, world
from shared.typed import agent, of

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("S7")]

SCRIPT = str(Path(__file__).with_name("mcp_echo_server.py"))
SERVERS = msgspec.json.encode(
    {"mcpServers": {"tiny": {"command": sys.executable, "args": [SCRIPT]}}}
).decode()
SAY = "mcp__tiny__say"
TYPES = (
    '{"planner": {"description": "d", "prompt": "p", "permissionMode": "plan"},'
    ' "free": {"description": "d", "prompt": "p"}}'
)


def script(kind: str) -> Script:
    use = call(SAY, {"text": "hello there"})
    return Script(
        [agent("BRIEF", kind), say("Waiting."), say("Done.")], {"BRIEF": [use, say("Tried.")]}
    )


@pytest.mark.parametrize("kind", ["Explore", "Plan", "planner", "free"])
@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
@pytest.mark.parametrize("allow", [(), ("mcp__tiny",), (SAY,)])
async def test_what_is_offered_can_be_used(kind: str, mode: str, allow: tuple[str, ...]) -> None:
    """A server's tool is offered to who only reads if a rule allows it, and then it runs."""
    async with world(
        script(kind),
        mcp_config=(SERVERS,),
        agents=TYPES,
        mode=mode,
        allow=allow,
        settings={"mcp": {"wait": 60}},
    ) as w:
        await w.session.run("Go")

        first, last = of(w, "BRIEF")[0], of(w, "BRIEF")[-1]
        offered = {tool["name"] for tool in first["tools"]}
        reads = kind != "free" or mode == "plan"
        assert (SAY in offered) == (bool(allow) or not reads)
        assert ("hello there" in str(last["messages"][-1])) == bool(allow)
        assert ("mcp__tiny__crash" in offered) == (allow == ("mcp__tiny",) or not reads)


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_nobody_is_shown_an_exit_that_is_closed(mode: str) -> None:
    """A type in plan mode has no ExitPlanMode: only the main agent ends plan mode."""
    steps = Script([agent("BRIEF", "planner"), say("W."), say("D.")], {"BRIEF": [say("ok")]})
    async with world(steps, agents=TYPES, mode=mode) as w:
        await w.session.run("Go")

        names = {tool["name"] for tool in of(w, "BRIEF")[0]["tools"]}
        assert names & {"ExitPlanMode", "EnterPlanMode"} == set()


async def test_a_type_names_servers_as_they_are_configured() -> None:
    """`mcpServers` of a type means a server by its own name, whatever its tools are called."""
    config = msgspec.json.encode(
        {"mcpServers": {"tiny.one": {"command": sys.executable, "args": [SCRIPT]}}}
    ).decode()
    types = '{"t": {"description": "d", "prompt": "p", "mcpServers": ["tiny.one"]}}'
    steps = Script([agent("BRIEF", "t"), say("W."), say("D.")], {"BRIEF": [say("ok")]})
    async with world(
        steps, agents=types, mcp_config=(config,), settings={"mcp": {"wait": 60}}
    ) as w:
        await w.session.run("Go")

        names = {tool["name"] for tool in of(w, "BRIEF")[0]["tools"]}
        assert "mcp__tiny_one__say" in names
