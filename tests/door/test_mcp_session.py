"""Servers in a session: what the model is told of them, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from prong.command import Clear
from prong.event import PromptMoved, ToolFinished, ToolOutput
from prong.testing import World, call, say, world
from shared.served import patient, server_config

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L2")]


def told(w: World, *, at: int = -1) -> list[str]:
    return [tool["name"] for tool in w.bodies()[at]["tools"]]


def last(w: World) -> str:
    return str(w.bodies()[-1]["messages"][-1])


async def wait_for(condition: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.02)


async def test_instructions_are_the_servers_words_and_nobody_elses() -> None:
    """A server's instructions stand in the prompt, quoted, and cannot end their quotation."""
    async with world([say("Hi.")], mcp_config=server_config(), settings=patient()) as w:
        await w.session.run("Go")

        text = str(w.bodies()[0]["system"])
        assert '<server name="many">' in text
        assert "Say please." in text
        assert "Written by the servers" in text
        assert text.count("</server>") == 1


async def test_a_late_server_holds_up_nobody(tmp_path: Path) -> None:
    """A session starts without a late server; then its tools are found, and called, by search."""
    ready = tmp_path / "ready"
    script = [
        say("First."),
        call("McpSearch", {"query": "look a word up"}),
        call("McpCall", {"tool": "mcp__many__lookup", "arguments": {"word": "w"}}),
        say("Second."),
        say("Third."),
    ]
    async with world(
        script,
        mcp_config=server_config("late", str(ready)),
        settings={"mcp": {"wait": 0}},
        allow=["mcp__many"],
        moves_prefix="the session is cleared",
    ) as w:
        await w.session.run("One")
        assert told(w)[-2:] == ["McpSearch", "McpCall"]
        assert any("MCP server many is still starting" in one for one in w.warnings)
        ready.touch()
        await w.session.run("Two")
        first = w.bodies()[0]["tools"]
        assert all(one["tools"] == first for one in w.bodies())
        assert "found w" in last(w)
        assert [one.name for one in w.told(ToolFinished)] == ["McpSearch", "mcp__many__lookup"]
        await wait_for(lambda: any("McpSearch finds them now" in one for one in w.warnings))
        await w.session.send(Clear())
        await w.session.run("Three")
        assert "mcp__many__lookup" in told(w)
        assert "McpSearch" not in told(w)
        assert "Say please." in str(w.bodies()[-1]["system"])


async def test_before_the_first_message_a_late_server_costs_nothing(tmp_path: Path) -> None:
    """While nothing was sent, the prompt is begun anew with the tools of a late server."""
    ready = tmp_path / "ready"
    config = server_config("late", str(ready))
    async with world([say("Hi.")], mcp_config=config, settings={"mcp": {"wait": 0}}) as w:
        ready.touch()
        await wait_for(lambda: w.told(PromptMoved))
        await w.session.run("Go")
        assert "mcp__many__lookup" in told(w)
        assert "McpSearch" not in told(w)


async def test_a_resumed_session_calls_what_its_head_tells_of(tmp_path: Path) -> None:
    """Tools of a resumed head work though their server is late: the call waits for it."""
    ready = tmp_path / "ready"
    ready.touch()
    config = server_config("late", str(ready))
    script = [say("Hi."), call("mcp__many__lookup", {"word": "w"}), say("Done.")]
    async with world(
        script, settings=patient(), mcp_config=config, allow=["mcp__many"], opens=False
    ) as w:
        async with w.open() as session:
            await session.run("Go")
        ready.unlink()
        async with (
            w.open(resume=session.id, settings={"mcp": {"wait": 0}}) as session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(session.run, "Again")
            await wait_for(lambda: len(w.bodies()) > 1)
            ready.touch()
        assert "found w" in last(w)


async def test_a_changed_list_is_said_and_waits_for_a_new_prompt() -> None:
    """A server that gets another tool is told of in one line; the next new prompt has the tool."""
    async with world(
        [call("mcp__many__grow", {}), say("One."), say("Two.")],
        mcp_config=server_config(),
        settings=patient(),
        allow=["mcp__many"],
        moves_prefix="the session is cleared",
    ) as w:
        await w.session.run("Go")
        await wait_for(lambda: any("+mcp__many__grown" in one for one in w.warnings))
        assert "mcp__many__grown" not in told(w)
        await w.session.send(Clear())
        await w.session.run("Go on")
        assert "mcp__many__grown" in told(w)


async def test_progress_is_shown_while_a_call_runs() -> None:
    """What a server says of its progress is shown live, and the result is its own."""
    async with world(
        [call("mcp__many__work", {"steps": 3}), say("Done.")],
        mcp_config=server_config(),
        settings=patient(),
        allow=["mcp__many"],
    ) as w:
        await w.session.run("Go")
        shown = "".join(one.text for one in w.told(ToolOutput))
        assert "3/3 step 3" in shown
        assert "worked" in last(w)
