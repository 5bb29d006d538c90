"""What a child in a process of its own uses of the session's: its servers and its hooks."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from prong.event import ToolFinished
from prong.testing import Script, Worlds, call, report, say

pytestmark = pytest.mark.anyio

SERVER = str(Path(__file__).with_name("mcp_echo_server.py"))


@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_servers_are_the_sessions(world: Worlds, backend: str) -> None:
    """A tool of a server is used through the session's one connection."""
    servers = {"mcpServers": {"echo": {"command": sys.executable, "args": [SERVER]}}}
    script = Script(
        [say("hello")],
        {"ONE.": [call("mcp__echo__say", {"text": "over there"}), report("one")]},
        forever=say("ok"),
    )
    async with world(
        script,
        settings={"agents": {"backend": backend}, "mcp": {"wait": 60}},
        mcp_config=(msgspec.json.encode(servers).decode(),),
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Hi")
        await w.session.start_forks(["ONE."])
        await w.session.wait_settled()

        (finished,) = w.told(ToolFinished)
        assert (finished.name, finished.text) == ("mcp__echo__say", "echo: over there")
        (child,) = w.parts.supervisor.children
        assert (child.status, child.report.result) == ("completed", "one")


@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_hooks_are_the_sessions(world: Worlds, backend: str) -> None:
    """A hook changes, refuses and objects to calls of a child as to any other's."""
    quiet = 'printf \'{"hookSpecificOutput": {"updatedInput": {"command": "echo changed"}}}\''
    hooks = {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": quiet}]}],
        "PostToolUse": [
            {"hooks": [{"type": "command", "command": "echo 'mind this' >&2; exit 2"}]}
        ],
    }
    script = Script(
        [say("hello")],
        {"ONE.": [call("Bash", {"command": "echo original"}), report("one")]},
        forever=say("ok"),
    )
    settings = {"agents": {"backend": backend}, "hooks": hooks}
    async with world(
        script, settings=msgspec.json.encode(settings).decode(), mode="bypassPermissions"
    ) as w:
        await w.session.run("Hi")
        await w.session.start_forks(["ONE."])
        await w.session.wait_settled()

        (finished,) = w.told(ToolFinished)
        assert finished.text.startswith("changed")
        assert "A PreToolUse hook changed the input" in finished.text
        assert "A hook objects: mind this" in finished.text
