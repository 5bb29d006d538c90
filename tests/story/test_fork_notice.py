"""Each task notifies exactly once, whatever else happens at that time."""

from __future__ import annotations

import re
from typing import Any

import anyio
import msgspec
import pytest

from prong.command import Interrupt, Stop
from prong.event import TaskFinished, TextDelta, ToolStarted, TurnFinished
from prong.testing import Script, World, Worlds, call, forks, report, say, stall

pytestmark = pytest.mark.anyio

ECHO = call("Bash", {"command": "echo x"})
LEAD = "Do what follows with care, as one part of several, and report: "


def parts(count: int) -> list[str]:
    return [f"Part {n}." for n in range(1, count + 1)]


def settings(**fork: Any) -> str:
    return msgspec.json.encode({"fork": fork}).decode()


def titles(w: World) -> list[str]:
    """Name the calls that have begun."""
    return [event.title for event in w.told(ToolStarted)]


def told(w: World) -> list[str]:
    """Name the tasks that the main agent was told of, as its conversation has them."""
    text = "\n".join(
        block.get("text", "")
        for message in w.server.lineages()["main"][-1].json["messages"]
        for block in message["content"]
    )
    return re.findall(r"(?m)^<task-id>(.*)</task-id>$", text)


@pytest.mark.spec("T3", "T4")
@pytest.mark.parametrize("wake", ["all", "each"])
async def test_sixty_four_at_once(world: Worlds, wake: str) -> None:
    """However many end together, the parent is told of each of them once."""
    names = parts(64)
    script = Script(
        [forks(*names), say("waiting")],
        {name: [report()] for name in names},
        forever=say("done"),
    )
    async with world(script, mode="bypassPermissions", settings=settings(wake=wake)) as w:
        await w.session.run("Go")
        ids = [c.spec.task_id for c in w.parts.supervisor.children]
        assert sorted(told(w)) == sorted(ids)
        assert len(w.told(TaskFinished)) == 64
        turns = [e for e in w.envelopes if isinstance(e.event, TurnFinished) and e.agent == "main"]
        if wake == "all":
            assert len(w.server.lineages()["main"]) == 3
            assert len(turns) <= 2


@pytest.mark.spec("T3")
async def test_each_wakes_the_parent(world: Worlds) -> None:
    """With wake `each` a fork's notice does not wait for its siblings."""
    script = Script(
        [forks(*parts(2)), say("waiting"), call("Bash", {"command": "touch go"})],
        {
            "Part 1.": [report()],
            "Part 2.": [
                call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"}),
                report(),
            ],
        },
        forever=say("done"),
    )
    async with world(script, mode="bypassPermissions", settings=settings(wake="each")) as w:
        with anyio.fail_after(40):
            await w.session.run("Go")
        assert len(told(w)) == 2


@pytest.mark.spec("T3", "T4")
async def test_a_busy_parent_is_told_at_its_next_boundary(world: Worlds) -> None:
    """Forks that end while the parent works on join at its next request, once."""
    wait = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    script = Script([forks(*parts(3)), wait, say("done")], {name: [report()] for name in parts(3)})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while len(w.told(TaskFinished)) < 3:
                await anyio.sleep(0.01)
        w.write("go", "")
        await w.session.wait_settled()
        assert len(told(w)) == 3
        assert len(w.server.lineages()["main"]) == 3


@pytest.mark.spec("T3", "T4")
async def test_a_stopped_fork_is_told_as_stopped(world: Worlds) -> None:
    """A fork that is stopped notifies once, as killed, and its siblings complete."""
    wait = call("Bash", {"command": "sleep 60"})
    script = Script(
        [forks(*parts(2)), say("waiting"), say("done")],
        {"Part 1.": [say("I begin.", then=wait)], "Part 2.": [ECHO, report()]},
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while not w.told(TaskFinished) or "sleep 60" not in titles(w):
                await anyio.sleep(0.01)
        await w.session.send(Stop(w.parts.supervisor.children[0].spec.task_id))
        await w.session.wait_settled()
        assert len(told(w)) == 2
        notice = w.bodies()[-1]["messages"][-1]["content"][-1]["text"]
        assert notice.count("<status>killed</status>") == 1
        assert "I begin." in notice
        stopped, _ = w.session.receipts()
        assert stopped.status == "killed"


@pytest.mark.spec("T4")
async def test_stopped_first_and_completing_later(world: Worlds) -> None:
    """Stopped while its last reply comes in, a fork is told of once, as stopped."""
    script = Script(
        [forks("Part 1."), say("waiting"), say("done")],
        {"Part 1.": [stall(600, then=report())]},
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while not any("Scope" in event.text for event in w.told(TextDelta)):
                await anyio.sleep(0.01)
        task = w.parts.supervisor.children[0].spec.task_id
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(w.parts.tasks.stop, task)
        await w.session.wait_settled()
        assert told(w) == [task]
        assert [e.status for e in w.told(TaskFinished)] == ["killed"]


@pytest.mark.spec("T3")
async def test_an_interrupted_parent_leaves_its_forks_running(world: Worlds) -> None:
    """Interrupting the turn stops nothing in the background, and the notices still come."""
    wait = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    script = Script(
        [forks("Part 1."), call("Bash", {"command": "sleep 60"}), say("done")],
        {"Part 1.": [wait, report()]},
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while "sleep 60" not in titles(w):
                await anyio.sleep(0.01)
        await w.session.send(Interrupt())
        with anyio.fail_after(40):
            while w.parts.busy:
                await anyio.sleep(0.01)
        assert w.parts.tasks.running() == 1
        w.write("go", "")
        await w.session.wait_settled()
        assert len(told(w)) == 1


@pytest.mark.spec("T4", "F22")
async def test_every_run_of_a_fork_has_a_notice_of_its_own(world: Worlds) -> None:
    """A fork that is sent messages is told of once per run."""
    script = Script(
        [say("Hello.")],
        {"Part 1.": [report("one"), report("two"), report("three")]},
        forever=say("ok"),
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        (task,) = await w.session.start_forks([f"{LEAD}Part 1."])
        await w.session.wait_settled()
        for _ in range(2):
            await w.session.say("Go on.", to=task)
            await w.session.wait_settled()
        assert told(w) == [task] * 3
