"""All agents of a session on one machine share a worker there, and touch each other in nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from prong.command import Stop
from prong.event import TaskFinished, Warned
from prong.host.launcher import WORKER
from prong.team.message import EndNow
from prong.team.worker_line import Waits, WorkerLine
from prong.testing import Script, World, Worlds, call, report, say
from shared.remote import children_of, copies, remote_world

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R2", "R3")]

WAIT = call("Bash", {"command": "touch began; while [ ! -e ../go ]; do sleep 0.05; done"})
NAMES = ("P1", "P2", "P3")
LONG = "A long history. " * 20_000


def holders(far: Path) -> list[int]:
    """Give who works in the workspaces, by git's own word."""
    words = [lock.read_text().split() for lock in far.glob("*/.git/worktrees/*/locked")]
    return [int(one[one.index("process") + 1]) for one in words]


async def all_began(far: Path, count: int) -> None:
    with anyio.fail_after(60):
        while len(list(far.glob("*/.prong/worktrees/*/began"))) < count:
            await anyio.sleep(0.02)


def let_go(far: Path) -> None:
    for folder in far.glob("*/.prong/worktrees"):
        (folder / "go").write_text("")


def script() -> Script:
    steps = {f"Directive:\n{name}": [WAIT, report(name)] for name in NAMES}
    return Script([say("hello")], steps, forever=say("ok"))


async def started(w: World, far: Path) -> list[str]:
    await w.session.run("Hi")
    tasks = await w.session.start_forks(list(NAMES), isolation="remote")
    await all_began(far, len(NAMES))
    return list(tasks)


async def test_one_worker_runs_them_all(world: Worlds, tmp_path: Path) -> None:
    """Three forks are three workspaces and one process, in which the long prompt came once."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, _):
        await w.session.run(LONG)
        tasks = await w.session.start_forks(list(NAMES), isolation="remote")
        await all_began(far, len(NAMES))

        (worker,) = children_of(os.getpid())
        assert holders(far) == [worker] * 3
        let_go(far)
        await w.session.wait_settled()
        children = w.parts.supervisor.children
        assert [(one.status, one.report.result) for one in children] == [
            ("completed", name) for name in NAMES
        ]
        assert [one.spec.task_id for one in children] == list(tasks)
        receipts = [w.parts.supervisor.registry.receipt(one) for one in children]
        crossed = sorted(one.bytes_sent for one in receipts)
        assert max(crossed[:2]) < 60_000
        assert crossed[2] > len(LONG)
        assert not w.told(Warned)

        # One that begins where the last one did needs nothing but its directive.
        (found,) = await w.session.fork(["P4"], isolation="remote")
        assert found.status == "completed"
        assert (
            w.parts.supervisor.registry.receipt(w.parts.supervisor.children[-1]).bytes_sent < 60_000
        )
        assert children_of(os.getpid()) == [worker]
    assert not children_of(os.getpid())


async def test_a_stop_of_one_is_no_business_of_the_others(world: Worlds, tmp_path: Path) -> None:
    """One that is stopped ends, its commands with it, and gives back; its siblings go on."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, _):
        tasks = await started(w, far)
        (worker,) = children_of(os.getpid())
        await w.session.send(Stop(tasks[1]))
        children = w.parts.supervisor.children
        with anyio.fail_after(50):
            while len(copies(far)) > 2 or children[1].status == "running":
                await anyio.sleep(0.02)

        assert [one.status for one in children] == ["running", "killed", "running"]
        assert children_of(os.getpid()) == [worker]
        let_go(far)
        await w.session.wait_settled()
        assert [one.status for one in children] == ["completed", "killed", "completed"]


async def test_a_fault_of_one_is_no_business_of_the_others(world: Worlds, tmp_path: Path) -> None:
    """A run that cannot go on over there fails alone, with its own reason."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, _):
        tasks = await started(w, far)
        lease = next(one for one in far.glob("*/.prong/lease/*") if one.name.endswith("-2"))
        (lease / "99").touch()
        with anyio.fail_after(50):
            while not any(one.task_id == tasks[1] for one in w.told(TaskFinished)):
                await anyio.sleep(0.02)
        let_go(far)
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [one.status for one in children] == ["completed", "failed", "completed"]
        assert "a later run than number 2 has begun" in children[1].run.detail


async def test_the_end_of_the_worker_is_told_for_each_once(world: Worlds, tmp_path: Path) -> None:
    """If their process is killed, each fails once with the reason; messages take all of them up."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, _):
        tasks = await started(w, far)
        (worker,) = children_of(os.getpid())
        os.kill(worker, signal.SIGKILL)
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [one.status for one in children] == ["failed"] * 3
        assert all("killed by SIGKILL" in one.run.detail for one in children)
        ended = [one.task_id for one in w.told(TaskFinished)]
        assert sorted(ended) == sorted(tasks)
        let_go(far)
        for task in tasks:
            await w.session.say("Go on.", to=task)
        await w.session.wait_settled()
        assert [one.status for one in children] == ["completed"] * 3
        assert sorted(one.task_id for one in w.told(TaskFinished)) == sorted([*tasks, *tasks])


async def test_channels_begin_in_any_order(tmp_path: Path) -> None:
    """One that was opened first may be the last to say something, and is served all the same."""
    line = WorkerLine((sys.executable, *WORKER), folder=str(tmp_path), waits=Waits())
    async with anyio.create_task_group() as group:
        group.start_soon(line.carry)
        first, second = line.open(), line.open()
        with anyio.fail_after(50):
            for channel in (second, first):
                # No beginning: whoever serves the channel ends it with the reason.
                await channel.send(EndNow())
                await channel.ended.wait()
        assert "did not begin as one does" in str(first.lost())
        await first.send(EndNow())
        (third := line.open()).abort()
        await third.send(EndNow())
        with anyio.fail_after(50):
            await third.ended.wait()
        # One on which nothing was said ends as well.
        await (fourth := line.open()).close(grace=50.0)
        assert fourth.ended.is_set()
        await line.close(grace=5.0)
