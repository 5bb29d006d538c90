"""Servers and tools that a type of agent names: its own for it alone, missing ones said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from prong.config.trust import needs_trust
from prong.testing import Script, World, Worlds, call, say
from shared.served import patient

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("S3", "L11")]

SERVER = str(Path(__file__).with_name("mcp_echo_server.py"))
OWN = (
    "---\nname: echoer\ndescription: Echoes\ntools: Read, WebFinder, mcp__own__say, mcp__gone__x\n"
    f"mcpServers:\n  - own:\n      command: {sys.executable}\n      args: [{SERVER}]\n---\nYou echo.\n"
)
ALONE = "---\nname: plain\ndescription: Plain\n---\nYou do.\n"


def start(kind: str) -> Any:
    return call("Agent", {"description": "d", "prompt": f"As {kind}.", "subagent_type": kind})


def tools(w: World, brief: str) -> list[str]:
    body = next(body for body in w.bodies() if brief in str(body["messages"][0]))
    return [tool["name"] for tool in body["tools"]]


async def test_a_server_of_a_type_is_for_that_type_alone(world: Worlds) -> None:
    """Its tools are offered to agents of the type, and neither to the main one nor to others."""
    routes = {"As echoer.": [say("e")], "As plain.": [say("p")]}
    script = Script([start("echoer"), start("plain"), say("end")], routes)
    files: dict[str, str | bytes] = {".claude/agents/e.md": OWN, ".claude/agents/p.md": ALONE}
    async with world(script, files=files, trusted=True, settings=patient()) as w:
        await w.session.run("Go")

        assert "mcp__own__say" in tools(w, "As echoer.")
        assert not any(name.startswith("mcp__") for name in tools(w, "As plain."))
        assert not any(name.startswith("mcp__") for name in w.parts.agent.kit.names)


async def test_a_type_that_names_tools_that_are_not_there_is_told_and_so_is_the_user(
    world: Worlds,
) -> None:
    """The agent reads it in its prompt, its parent in the result, the user once in a warning."""
    script = Script([start("echoer"), start("echoer"), say("end")], {"As echoer.": [say("e")] * 2})
    async with world(
        script, files={".claude/agents/e.md": OWN}, trusted=True, settings=patient()
    ) as w:
        await w.session.run("Go")
        told = [text for text in w.warnings if "tools that are not there" in text]
        body = next(body for body in w.bodies() if "As echoer." in str(body["messages"][0]))

        assert len(told) == 1
        assert "WebFinder, mcp__gone__x" in told[0]
        assert "These tools are not there" in str(body["system"])
        assert "tools that are not there" in str(w.bodies()[-1]["messages"])


def test_trust_names_the_servers_of_agents(tmp_path: Path) -> None:
    """Whoever is asked to trust a folder reads which servers its agents would run."""
    folder = tmp_path / "project/.claude/agents"
    folder.mkdir(parents=True)
    (folder / "e.md").write_text(OWN)
    wants = needs_trust(str(tmp_path), str(tmp_path / "project"))

    assert wants == [f"agent .claude/agents/e.md, whose server own runs {sys.executable} {SERVER}"]
