"""The coordinator from outside: the command line and the plain terminal, as processes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from prong.provider.api import LINEAGE
from prong.testing import Request, Step, World, Worlds, call, calls, delay, say
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("C1", "C3")]


async def prong(program: Any, w: World, *words: str) -> tuple[int, str]:
    ran = await program.run(w, "--coordinator", *words)
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


async def test_headless(world: Worlds, program: Any) -> None:
    """`prong -p --coordinator` ends when its workers have; json names tools and agents."""
    async with world(model, opens=False) as w:
        code, out = await prong(
            program,
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


async def test_plain_face(world: Worlds, program: Any) -> None:
    """A worker's question is shown with its name, and the user's yes lets it go on."""
    async with world(model, opens=False) as w:
        process = await program.start(w, "--coordinator", "--plain")
        seen = b""
        waits, asks = b"[main/maker] asks, after this line", b"[main/maker] may it?"

        async def hear(*awaited: bytes) -> None:
            nonlocal seen
            while not any(one in seen for one in awaited):
                seen += await process.stdout.receive()

        async with process:
            await process.stdin.send(b"Make it\n")
            await hear(waits, asks)
            if waits in seen:
                # The question came while a line was awaited, and is put once that has come.
                await process.stdin.send(b"\n")
            # A yes that comes before the question is a message to the coordinator.
            await hear(asks)
            await process.stdin.send(b"y\n")
            await hear(b"A worker has made it.")
            assert (w.root / "made").exists()
            await process.stdin.aclose()
            assert await process.wait() == 0


@pytest.mark.spec("C4")
async def test_killed_and_resumed(world: Worlds, program: Any) -> None:
    """After kill -9 the workers go on where they were, and those of one file still take turns."""
    asked: list[str] = []
    hire = calls(
        ("Agent", {"description": "a", "prompt": "One.", "files": ["a.txt"], "name": "w1"}),
        ("Agent", {"description": "b", "prompt": "Two.", "files": ["a.txt"], "name": "w2"}),
    )

    def slow(request: Request) -> Step:
        path, text = request.headers[LINEAGE], request.last_text
        asked.append(path)
        if path == "main":
            return hire if text == "Go" else say("Noted.")
        if asked.count("main/w1") == 1:
            return delay(60.0)
        code = f"sleep 0.1; echo {path[-2:]} >> a.txt; echo wrote"
        return say("Did it.") if "wrote" in text else call("Bash", {"command": code})

    async with world(slow, opens=False, mode="bypassPermissions") as w:
        words = ("-p", "Go", "--permission-mode", "bypassPermissions", "--coordinator")
        process = await program.start(w, *words)
        await process.stdin.aclose()
        # Once the coordinator goes on, both are hired, and that is stored.
        await until(lambda: "main/w1" in asked and asked.count("main") == 2)
        process.kill()
        await process.aclose()
        async with w.open(continue_last=True) as session:
            await session.wait_settled()
        assert (w.root / "a.txt").read_text() == "w1\nw2\n"
