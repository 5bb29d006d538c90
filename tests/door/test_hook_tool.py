"""Hooks that call a tool of an MCP server."""

from __future__ import annotations

from typing import Any

import pytest

from prong.config.hook import Hook
from prong.config.hook_way import HookTool
from prong.errors import ConfigError
from prong.event import ToolFinished
from prong.session.hook_tool import call_tool
from prong.session.mcp_servers import McpServers
from prong.testing import call, say, world
from shared.served import patient, server_config

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L5")]


def guarded(event: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    """Give settings by which a server judges commands."""
    hook = {
        "type": "mcp_tool",
        "server": "many",
        "tool": "guard",
        "input": {"command": "${tool_input.command}", "event": "${hook_event_name}"},
        **more,
    }
    return {**patient(), "hooks": {event: [{"matcher": "Bash", "hooks": [hook]}]}}


@pytest.mark.parametrize(
    ("command", "more", "why"),
    [
        ("echo hi > made", {}, ""),
        ("touch made", {}, "PreToolUse: nothing is made here"),
        ("touch made; echo break", {}, "failed"),
        ("echo hi > made", {"tool": "gone"}, "could not be asked"),
        ("echo hi > made", {"tool": "hang", "input": {}, "timeout": 0.3}, "did not answer"),
        ("echo hi > made", {"tool": "lookup", "input": {"word": "x"}}, ""),
    ],
)
async def test_a_servers_tool_guards(command: str, more: dict[str, Any], why: str) -> None:
    """It is told what the event holds; a no, and no answer, keep the call from running."""
    script = [call("Bash", {"command": command}), say("Done.")]
    config = server_config("guard")
    settings = guarded(**more)
    async with world(script, mcp_config=config, settings=settings, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "Done."
        [finished] = w.told(ToolFinished)

        assert (w.root / "made").exists() == (not why)
        assert finished.refused == bool(why)
        assert why in finished.text


async def test_a_server_that_is_not_configured_stops_the_start() -> None:
    """A guard that could never be asked is named at once; what only listens is warned of."""
    async with world(opens=False) as w:
        with pytest.raises(ConfigError, match="'other', which is not configured"):
            async with w.open(settings=guarded(server="other")):
                pass
        async with w.open(settings=guarded("PostToolUse", server="other")):
            assert any("'other', which is not configured" in one for one in w.warnings)


def test_parts_of_an_event_are_put_in() -> None:
    """Texts are put in as they are, other values as JSON, and what is not there as nothing."""
    given = HookTool("s", "t", '{"a": ["${x.y}", 1], "b": {"c": "<${x}> ${none} ${x.y.z}"}}')

    assert given.filled(b'{"x": {"y": "${x}"}}') == {
        "a": ["${x}", 1],
        "b": {"c": '<{"y":"${x}"}>  '},
    }


async def test_a_guard_whose_server_is_not_there_blocks() -> None:
    """Without any server, or without that one, nobody has said yes; what only listens is warned of."""
    way = HookTool("many", "guard")
    for servers in (None, McpServers()):
        guard = Hook("PreToolUse", "", "", 5.0, "f", way=way)
        verdict = await call_tool(servers, guard, way, b"{}")
        assert "there is no such server" in (verdict.block or "")
        listens = Hook("PostToolUse", "", "", 5.0, "f", way=way)
        verdict = await call_tool(servers, listens, way, b"{}")
        assert (verdict.block, len(verdict.warnings)) == (None, 1)
