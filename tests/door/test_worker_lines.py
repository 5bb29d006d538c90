"""The lines of a session to the machines of a cluster: one worker on each, however much room."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from prong.host.launcher import ANYWHERE, ProcessLauncher, WorkerPlace
from prong.host.target import RemoteTarget
from prong.team.worker_line import Channel, Waits, WorkerLine
from prong.team.worker_lines import WorkerLines
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R2")]

CARRIER = """
import os, sys, time
from prong.team.message import Frames, NodeChosen, Ready, StartWorker, frame, read_down
node, _, file = sys.argv[1].partition("@")
while file and not os.path.exists(file):
    time.sleep(0.01)
os.write(1, frame(NodeChosen(node=node)))
frames = Frames()
while data := os.read(0, 65536):
    for whole in frames.feed(data):
        if isinstance(read_down(whole.data), StartWorker):
            os.write(1, frame(Ready()))
if node == "deaf":
    time.sleep(600)
"""
"""What leads to a worker, which is this program itself.

With a file, there is room once that is there; one that is deaf does not end when it is told to.
"""


class Cluster(ProcessLauncher):
    """Has machines, which are chosen in their order."""

    def __init__(self, *machines: str) -> None:
        self._machines = list(machines)
        self.places: list[WorkerPlace] = []

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        del name, target
        self.places.append(place)
        return (sys.executable, "-c", CARRIER, place.node or self._machines.pop(0))


class Held:
    """Lines to a cluster, and the agents that go by them."""

    def __init__(self, lines: WorkerLines, cluster: Cluster, workers: int) -> None:
        self.lines = lines
        self.cluster = cluster
        self._target = RemoteTarget(launcher="ray", address="auto", workers=workers)

    def find(self, node: str = "") -> WorkerLine:
        return self.lines.find("box", self._target, self.cluster, node)

    async def fill(self, agents: int) -> tuple[list[WorkerLine], list[Channel]]:
        """Let so many agents come at once; gives the lines, and a channel for each of them."""
        asked = [self.find().open() for _ in range(agents)]
        lines = [one.line for one in asked]

        async def go(at: int) -> None:
            """Go by the worker that is there, as soon as that is known: room waits for nobody."""
            await lines[at].greeting.came.wait()
            if (first := self.lines.instead("box", lines[at])) is not None:
                lines[at].shut(asked[at])
                asked[at] = first.open()

        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:
                for at in range(agents):
                    group.start_soon(go, at)
        return lines, asked


@asynccontextmanager
async def held(
    folder: Path, *machines: str, workers: int, idle: float = 60.0, waits: Waits | None = None
) -> AsyncGenerator[Held, None]:
    async with anyio.create_task_group() as group:
        lines = WorkerLines(group, str(folder), idle=idle, waits=waits)
        try:
            yield Held(lines, Cluster(*machines), workers)
        finally:
            await lines.close()


async def test_room_on_one_machine_is_one_worker(tmp_path: Path) -> None:
    """Of three lines two are on one machine: one of them has its worker, and agents go by that.

    That machine gets two agents for each one of the other.
    """
    async with held(tmp_path, "a", "a", "b", workers=3) as it:
        lines, agents = await it.fill(3)

        assert [one.node for one in lines] == ["a", "a", "b"]
        (holds,) = [one for one in lines if it.lines.instead("box", one)]
        first, other = (one for one in lines if one is not holds)
        assert it.lines.instead("box", holds) is first
        assert (holds.greeting.ready, first.node) == (None, "a")
        assert first.greeting.ready
        assert it.find("a") is first
        assert [one.line for one in agents].count(first) == 2
        for _ in range(3):
            it.find().open()
        assert (len(first), len(other)) == (4, 2)


async def test_room_is_held_beside_the_one_worker_whatever_was_placed_first(tmp_path: Path) -> None:
    """No line is left to one that has left its own: agents go where the worker is."""
    first, last = tmp_path / "first", tmp_path / "last"
    async with held(tmp_path, f"a@{first}", "a", f"a@{last}", workers=3) as it:
        lines = [it.find().open().line for _ in range(3)]
        await lines[1].wait_ready()
        for file, line in ((first, lines[0]), (last, lines[2])):
            file.touch()
            await until(line.greeting.came.is_set)

        assert [it.lines.instead("box", one) for one in lines] == [lines[1], None, lines[1]]


async def test_of_lines_that_are_placed_at_once_one_has_the_worker(tmp_path: Path) -> None:
    """None is left to one that leaves its own work to a third."""
    never = tmp_path / "never"
    waits = Waits(stop=0.1)
    async with held(tmp_path, *[f"a@{never}"] * 3, workers=3, waits=waits) as it:
        lines = [it.find().open().line for _ in range(3)]
        # All of it before anybody hears of the first.
        for line in lines:
            line.greeting.node = "a"
            line.greeting.placed.set()
        await until(lambda: sum(line.greeting.came.is_set() for line in lines) == 2)
        (lead,) = [one for one in lines if not one.greeting.came.is_set()]
        others = [one for one in lines if one is not lead]

        assert it.lines.instead("box", lead) is None
        assert [it.lines.instead("box", one) for one in others] == [lead, lead]


@pytest.mark.spec("R3")
async def test_agents_of_one_machine_come_back_by_one_line(tmp_path: Path) -> None:
    """Those whose workspaces are on a machine share what is started for the first of them.

    No more room is asked for than for one worker, however many come before it is there.
    """
    async with held(tmp_path, "b", workers=3) as it:
        lines = {it.find("a").open().line for _ in range(3)}
        (line,) = lines
        await line.wait_ready()

        assert [one.node for one in it.cluster.places] == ["a"]
        assert it.find("a") is line
        assert it.find("c") is not line


@pytest.mark.spec("R3")
async def test_who_waits_for_room_goes_by_a_worker_that_is_there(tmp_path: Path) -> None:
    """One that must be on a machine has its worker, however much that has to do; others an idle one."""
    async with held(tmp_path, "a", workers=1) as it:
        (line,), _ = await it.fill(1)

        assert it.lines.spare("box", "a") is line
        assert it.lines.spare("box", "b") is None
        assert it.lines.spare("box", "") is None


@pytest.mark.spec("R3")
async def test_nobody_goes_by_a_worker_that_is_not_there_yet(tmp_path: Path) -> None:
    """A line is spare once its worker has said hello, and until an agent goes by it."""
    async with held(tmp_path, workers=1) as it:
        line = it.find("a")
        before = [it.lines.spare("box", node) for node in ("", "a")]
        await line.wait_ready()
        idle = it.lines.spare("box", "")
        line.open()

        assert before == [None, None]
        assert idle is line
        assert it.lines.spare("box", "") is None


async def test_room_that_is_lost_does_not_count(tmp_path: Path) -> None:
    """A worker is given no more agents for what was held beside it, and is not any more."""
    async with held(tmp_path, "a", "a", "b", workers=2) as it:
        lines, agents = await it.fill(2)
        lead = agents[0].line
        lead.shut(agents[1])
        assert it.find() is lead, "there is room for two, and one agent"
        (holds,) = (one for one in lines if one is not lead)
        await holds.close(grace=5.0)
        await until(lambda: it.find() is not lead)


async def test_room_that_is_not_needed_is_given_back(tmp_path: Path) -> None:
    """It is held as long as there are agents for it; the worker ends when the last has left."""
    async with held(tmp_path, "a", "a", "a", workers=3, idle=0.1) as it:
        lines, agents = await it.fill(3)
        lead = agents[0].line
        await anyio.sleep(0.3)
        assert not [one for one in lines if one.closing]
        lead.shut(agents[0])
        await until(lambda: len([one for one in lines if one.ended.is_set()]) == 1)
        lead.shut(agents[1])
        await until(lambda: len([one for one in lines if one.ended.is_set()]) == 2)
        assert not lead.closing
        lead.shut(agents[2])
        await until(lead.ended.is_set)


async def test_an_agent_that_comes_when_the_time_is_up_keeps_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is not sent away in the moment in which it is given something to do."""
    async with held(tmp_path, "a", workers=1, idle=0.01) as it:
        line = it.find()
        wait, opened = line.wait_change, list[Channel]()

        async def come_late() -> None:
            try:
                await wait()
            except anyio.get_cancelled_exc_class():
                # Whoever waits for an agent is told that none came.
                if not opened:
                    opened.append(it.find().open())
                raise

        monkeypatch.setattr(line, "wait_change", come_late)
        await until(lambda: bool(opened))
        await line.wait_ready()

        assert opened[0].line is line
        assert not line.closing


async def test_with_a_worker_goes_what_is_held_beside_it(tmp_path: Path) -> None:
    """If it ends, no room is held on its machine, and the next agent finds a worker anew."""
    async with held(tmp_path, "a", "a", "b", workers=2) as it:
        lines, agents = await it.fill(2)
        await agents[0].line.close(grace=5.0)
        await until(lambda: all(one.ended.is_set() for one in lines))
        found = it.find()
        await found.wait_ready()

        assert found.node == "b"


async def test_a_line_that_does_not_end_is_ended_with_the_others(tmp_path: Path) -> None:
    """One that was told to end, and in whose place there is another by now, is not forgotten."""
    waits = Waits(silence=600.0, stop=0.1)
    async with held(tmp_path, "deaf", "a", workers=1, waits=waits) as it:
        (deaf,), _ = await it.fill(1)
        deaf.hang_up()
        await it.find().wait_ready()
        await it.lines.close()
        ended = deaf.ended.is_set()
        await deaf.close(grace=0.0)

    assert ended


async def test_a_line_is_told_which_others_are_held(tmp_path: Path) -> None:
    """By that a cluster knows a line that is gone from one that is not; numbers are not reused."""
    async with held(tmp_path, "a", "b", "c", workers=3) as it:
        lines, _ = await it.fill(2)
        await lines[0].close(grace=5.0)
        it.find()

        told = [(one.line, one.open_lines) for one in it.cluster.places]
        assert told == [(1, ()), (2, (1,)), (3, (2,))]
