"""The coordinator from outside: the command line and the plain terminal, as processes."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import msgspec
import pytest

from prong.agent.request import LINEAGE
from prong.testing import Request, Step, World, Worlds, call, calls, say

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("C1", "C3")]


async def prong(w: World, *words: str, stdin: str = "") -> tuple[int, str]:
    command = [sys.executable, "-m", "prong", "-C", str(w.root), "--base-url", w.server.url]
    ran = await anyio.run_process(
        [*command, "--model", "claude-sonnet-5-5", "--api", "anthropic", "--coordinator", *words],
        input=stdin.encode(),
        check=False,
        env={
            "HOME": str(w.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "ANTHROPIC_API_KEY": "x",
        },
    )
    return ran.returncode, ran.stdout.decode()


def model(request: Request) -> Step:
    """Give one piece of work away and tell how it went."""
    text = request.last_text
    if request.headers[LINEAGE] != "main":
        return say("It is made.") if "Wrote" in text or "exit" in text else MAKE
    if "<task-notification>" in text:
        return say("A worker has made it.")
    return say("One is at it.") if "works in the background" in text else HIRE


MAKE = call("Bash", {"command": "touch made; echo Wrote"})
HIRE = calls(
    ("Agent", {"description": "make it", "prompt": "Make it.", "files": ["made"], "name": "maker"})
)


async def test_headless(world: Worlds) -> None:
    """`prong -p --coordinator` ends when its workers have; json names tools and agents."""
    async with world(model, opens=False) as w:
        code, out = await prong(
            w,
            *("-p", "Make it", "--permission-mode", "bypassPermissions"),
            *("--worker-tools", "simple", "--output-format", "stream-json"),
        )
        assert code == 0
        lines: list[dict[str, Any]] = [msgspec.json.decode(line) for line in out.splitlines()]
        assert lines[0]["event"]["tools"] == ["Agent", "SendMessage", "TaskStop"]
        assert lines[-1]["text"] == "A worker has made it."
        assert "main/maker" in {line.get("agent") for line in lines}
        assert (w.root / "made").exists()


async def test_plain_face(world: Worlds) -> None:
    """A worker's question is shown with its name, and the user's yes lets it go on."""
    async with world(model, opens=False) as w:
        code, out = await prong(w, "--plain", stdin="Make it\ny\n")
        assert code == 0
        assert "[main/maker] may it?" in out
