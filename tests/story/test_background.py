"""Background commands: started, told of, waited for."""

from __future__ import annotations

import anyio
import pytest

from prong.event import TaskFinished, TurnFinished
from prong.testing import Worlds, call, calls, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L2", "L12")]

APIS = ["anthropic", "responses", "chat", "gemini"]


def background(command: str) -> dict[str, object]:
    return {"command": command, "run_in_background": True}


@pytest.mark.parametrize("api", APIS)
async def test_an_idle_agent_is_woken(world: Worlds, api: str) -> None:
    """A run ends only when no task runs and what the tasks reported has been worked on."""
    script = [
        call("Bash", background("until [ -e go ]; do sleep 0.02; done; echo it is built")),
        say("Started."),
        say("It is done."),
    ]
    async with world(script, api=api, mode="bypassPermissions") as w:

        async def let_go() -> None:
            while not w.told(TurnFinished):
                await anyio.sleep(0.01)
            (w.root / "go").touch()

        async with anyio.create_task_group() as group:
            group.start_soon(let_go)
            await w.session.run("Build it")
        turn = w.session.last
        assert turn is not None
        assert turn.text == "It is done."
        assert "it is built" in w.server.records[2].request.last_text
        assert [e.status for e in w.told(TaskFinished)] == ["completed"]
        assert [e.text for e in w.told(TurnFinished)] == ["Started.", "It is done."]


async def test_many_tasks_at_once(world: Worlds) -> None:
    """Each task is told of exactly once, however many end together."""
    many = [("Bash", background(f"echo result-{n}-end")) for n in range(8)]
    async with world(
        lambda request: calls(*many) if request.last_text == "Go" else say("Seen."),
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Go")
        last = w.server.records[-1].body.decode()
        for n in range(8):
            assert last.count(f"result-{n}-end\\n[output file") == 1


async def test_without_waiting(world: Worlds) -> None:
    """A caller may leave the tasks running; leaving the session ends them, and they are told."""
    script = [call("Bash", background("echo $$ > pid; exec sleep 600")), say("Started.")]
    async with world(script, mode="bypassPermissions") as w:
        turn = await w.session.run("Go", wait_tasks=False)
        assert turn.text == "Started."
        while not (w.root / "pid").exists() or not (w.root / "pid").read_text().strip():
            await anyio.sleep(0.01)
    pid = int((w.root / "pid").read_text())
    assert not _alive(pid)
    assert [e.status for e in w.told(TaskFinished)] == ["killed"]


async def test_a_lost_task_is_told_on_resume(world: Worlds) -> None:
    """After a resume the model learns of the task that ended with the old session."""
    script = [call("Bash", background("echo half; exec sleep 600")), say("Started."), say("I see.")]
    async with world(script, mode="bypassPermissions", opens=False) as w:
        async with w.open() as session:
            await session.run("Go", wait_tasks=False)
        async with w.open(continue_last=True) as session:
            await session.wait_settled()
            assert session.last is not None
            assert session.last.text == "I see."
            assert "was stopped" in w.server.records[2].request.last_text


def _alive(pid: int) -> bool:
    import os

    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
