"""A target has slots: so many agents work there at once, and others wait for one of them to end."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from prong.command import Stop
from prong.event import LineChanged, TaskFinished
from prong.face.draw.tree import Aspect, draw_tree
from prong.face.line import describe
from prong.face.task_list import list_tasks
from prong.testing import Script, World, Worlds, call, report, say
from shared.remote import copies, remote_world

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1")]

WAIT = call(
    "Bash", {"command": "cat a.txt; touch began; while [ ! -e ../../go ]; do sleep 0.05; done"}
)


def script(*names: str) -> Script:
    routes = {f"Directive:\n{name}": [WAIT, report(name)] for name in names}
    return Script([say("hello")], routes, forever=say("ok"))


async def began(far: Path, count: int) -> None:
    with anyio.fail_after(60):
        while len(list(far.glob("*/.prong/worktrees/*/began"))) < count:
            await anyio.sleep(0.02)


async def queued(w: World, count: int) -> list[str]:
    """Wait until so many agents say what they wait for."""
    with anyio.fail_after(60):
        while True:
            lines = [one.line for one in w.session.view().agents.values() if one.line]
            if len(lines) == count:
                return lines
            await anyio.sleep(0.02)


def let_go(far: Path) -> None:
    for folder in far.glob("*/.prong"):
        (folder / "go").write_text("")


async def test_so_many_at_once_and_the_others_wait(world: Worlds, tmp_path: Path) -> None:
    """Of four agents two work; the tree says what the others wait for, and then they work too."""
    far, names = tmp_path / "far", ["P1", "P2", "P3", "P4"]
    async with remote_world(world, script(*names), far, target={"slots": 2}) as (w, repo):
        await w.session.run("Hi")
        await w.session.start_forks(names, isolation="remote")
        await began(far, 2)
        lines = await queued(w, 2)
        assert sorted(lines) == [
            "waits for room on box: 2 agents work there already",
            "waits for room on box: 2 agents work there already, and 1 more wait before it",
        ]
        assert len(copies(far)) == 2
        rows = [row.text for row in draw_tree(w.session.view(), Aspect(width=100))]
        assert sum("waits for room on box" in row for row in rows) == 2
        assert sum("waits for room on box" in line for line in list_tasks(w.session.view())) == 2
        told = [describe(one) for one in w.told(LineChanged)]
        assert ("(waits for room on box: 2 agents work there already)", "dim") in told[0]
        # What they are to work on is what was there when they were started.
        repo.write("a.txt", "later\n")
        let_go(far)
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 4
        assert [one.state for one in w.told(LineChanged)] == ["queued", "queued", "open", "open"]
        assert "later" not in str([body["messages"] for body in w.bodies()])
        assert not copies(far)


async def test_who_is_stopped_takes_no_place(world: Worlds, tmp_path: Path) -> None:
    """One that is stopped while it waits leaves no trace, and one that works makes room."""
    far, names = tmp_path / "far", ["P1", "P2", "P3"]
    async with remote_world(world, script(*names), far, target={"slots": 1}) as (w, repo):
        await w.session.run("Hi")
        one, two, three = await w.session.start_forks(names, isolation="remote")
        await began(far, 1)
        await queued(w, 2)
        await w.session.send(Stop(two))
        await w.session.send(Stop(one))
        with anyio.fail_after(60):
            while len(w.told(TaskFinished)) < 2:
                await anyio.sleep(0.02)
        await began(far, 1)
        let_go(far)
        await w.session.wait_settled()

        status = {child.spec.task_id: child.status for child in w.parts.supervisor.children}
        assert status == {one: "killed", two: "killed", three: "completed"}
        assert len(w.told(TaskFinished)) == 3
        assert repo.git("for-each-ref", "refs/prong/remote") == ""


async def test_who_fails_makes_room(world: Worlds, tmp_path: Path) -> None:
    """A workspace that cannot be made gives its place to the next, which fails by itself."""
    (tmp_path / "far").write_text("no folder")
    async with remote_world(world, script("P1", "P2"), tmp_path / "far", target={"slots": 1}) as (
        w,
        _,
    ):
        await w.session.run("Hi")
        with anyio.fail_after(60):
            found = await w.session.fork(["P1", "P2"], isolation="remote")

        assert [one.status for one in found] == ["failed"] * 2
        assert all("Not a directory" in one.detail for one in found)
