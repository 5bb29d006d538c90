from __future__ import annotations

import gc
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from prong.entry import plain
from prong.errors import UsageError
from prong.event import MAIN, Event, TaskFinished, TaskStarted
from prong.host import LocalHost
from prong.ids import AgentPath, TaskId
from prong.team.delivery import Delivery
from prong.team.log import Log
from prong.team.notice import Notice
from prong.team.outbox import Outbox
from prong.team.recovery import recover
from prong.team.task import REMEMBERED, Task, TaskBoard
from prong.team.taskset import TaskSet
from prong.team.work import Ending
from prong.tools.collector import Cleaner, Collector
from prong.tools.tool import CallOutcome, CommandSoFar, Done, Failed, Tasks
from shared.outbox import notices_in

pytestmark = [pytest.mark.anyio, pytest.mark.door]


@dataclass
class World:
    host: LocalHost
    board: TaskBoard
    tasks: TaskSet
    outbox: Outbox
    events: list[Event]

    async def start(self, command: str, *, tasks: Tasks | None = None, title: str = "job") -> str:
        process = await self.host.start(command)
        handle = await (tasks or self.tasks).adopt(process, title=title)
        return handle.task_id

    def count(self, kind: type[Event], task_id: str) -> int:
        return sum(
            isinstance(e, kind) and getattr(e, "task_id", "") == task_id for e in self.events
        )


@asynccontextmanager
async def world(folder: Path, *, log_limit: int = 1 << 20) -> AsyncGenerator[World]:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    events: list[Event] = []
    with Outbox(str(folder / "outbox")) as outbox:
        async with anyio.create_task_group() as group:
            board = TaskBoard(
                group=group,
                storage=str(folder),
                delivery=Delivery(outbox, events.append),
                log_limit=log_limit,
            )
            recover(board, MAIN)
            tasks = TaskSet(board, MAIN, events.append)
            yield World(LocalHost(str(root)), board, tasks, outbox, events)
            await board.close()


def text(outcome: CallOutcome) -> str:
    assert isinstance(outcome, Done), outcome
    return "".join(getattr(p, "text", "") for p in outcome.parts)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


async def wait_for(path: Path) -> str:
    """Wait until a command has written something."""
    with anyio.fail_after(40):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.sleep(0.01)
    return path.read_text()


@pytest.mark.spec("T2", "T3")
async def test_a_command_ends_in_one_notice(tmp_path: Path) -> None:
    """A task has an id and a file at once; its end is an event and a notice with the output."""
    async with world(tmp_path) as w:
        task_id = await w.start("echo hi; printf '\\033[31mred\\033[0m'; exit 3", title="say hi")
        assert task_id == "task-1"
        assert w.board.running() == 1

        await w.board.wait_idle()

        (notice,) = notices_in(w.outbox.deliver("main"))
        log = tmp_path / "tasks" / "task-1.log"
        assert (notice.task_id, notice.status) == ("task-1", "failed")
        assert notice.summary == 'Background command "say hi" failed (exit code 3)'
        assert notice.result == f"hi\nred\n[output file: {log}]"
        assert log.read_text() == "hi\nred"
        assert w.count(TaskStarted, task_id) == w.count(TaskFinished, task_id) == 1
        assert w.board.running() == 0


@pytest.mark.spec("T2")
async def test_output_is_told_once_and_waited_for(tmp_path: Path) -> None:
    """TaskOutput gives what is new, also an unfinished line, and waits for the end if asked."""
    async with world(tmp_path) as w:
        gate = tmp_path / "gate"
        task_id = await w.start(
            f"echo one; printf 'half'; until test -e {gate}; do sleep 0.02; done; echo ' two'"
        )
        log = tmp_path / "tasks" / "task-1.log"
        await wait_for(log)
        with anyio.fail_after(40):
            while "half" not in (first := text(await w.tasks.output(task_id))):
                await anyio.sleep(0.01)
        assert "is running" in first
        assert "one" not in text(await w.tasks.output(task_id))

        gate.touch()
        last = text(await w.tasks.output(task_id, wait=40))

        assert "completed (exit code 0)" in last
        assert "half two" in last
        assert "(nothing new)" in text(await w.tasks.output(task_id))


@pytest.mark.spec("T4", "T6")
async def test_a_stopped_task_dies_whole_and_notifies_once_as_killed(tmp_path: Path) -> None:
    """Stopping kills every process of the task, keeps its output and gives one notice: killed."""
    async with world(tmp_path) as w:
        pids = tmp_path / "pids"
        task_id = await w.start(
            f"trap 'exit 0' TERM; echo begun; bash -c 'sleep 1000 & sleep 1000 & wait' & sleep 1000 & "
            f"sleep 0.1; ps -o pid= --ppid $$ > {pids}.new; echo $$ >> {pids}.new; mv {pids}.new {pids}; wait"
        )
        family = [int(p) for p in (await wait_for(pids)).split()]
        assert len(family) >= 3

        outcome = await w.tasks.stop(task_id)

        assert "stopped" in text(outcome)
        assert not [p for p in family if alive(p)]
        (notice,) = notices_in(w.outbox.deliver("main"))
        assert notice.status == "killed"
        assert "begun" in notice.result
        assert isinstance(await w.tasks.stop(task_id), Failed)
        assert w.count(TaskFinished, task_id) == 1
        assert notices_in(w.outbox.deliver("main")) == []


@pytest.mark.spec("T4")
async def test_two_hundred_at_once_notify_once_each(tmp_path: Path) -> None:
    """When 200 tasks end together and some are stopped meanwhile, each gives exactly one notice."""
    async with world(tmp_path) as w:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        for _ in range(200):
            await w.start(f"read -r line < {gate}")
        # One newline lets one reader go; the pipe stays open for those that come to it late.
        holder = os.open(gate, os.O_RDWR)
        os.write(holder, b"\n" * 200)
        assert w.board.running() >= 1
        async with anyio.create_task_group() as group:
            for number in range(1, 201, 10):
                group.start_soon(w.tasks.stop, f"task-{number}")
        await w.board.wait_idle()

        os.close(holder)
        notices = notices_in(w.outbox.deliver("main"))

        assert sorted(n.task_id for n in notices) == sorted(f"task-{n}" for n in range(1, 201))
        ends = [e.task_id for e in w.events if isinstance(e, TaskFinished)]
        assert len(ends) == len(set(ends)) == 200
    with Outbox(str(tmp_path / "outbox")) as again:
        assert len(notices_in(again.pending("main"))) == 200
        again.ack([n.id for n in notices])
    with Outbox(str(tmp_path / "outbox")) as again:
        assert notices_in(again.pending("main")) == []


@pytest.mark.spec("T8")
async def test_nothing_survives_the_session(tmp_path: Path) -> None:
    """Closing the board kills what runs, even what ignores the polite signal, and takes nothing new."""
    async with world(tmp_path) as w:
        pids = [tmp_path / f"pid-{n}" for n in range(3)]
        await w.start(f"echo $$ > {pids[0]}; sleep 1000")
        await w.start(f"trap '' TERM; echo $$ > {pids[1]}; while :; do sleep 0.1; done")
        await w.start(f"sleep 1000 >/dev/null 2>&1 & echo $! > {pids[2]}; wait")
        running = [int(await wait_for(p)) for p in pids]

        await w.board.close()

        assert not [p for p in running if alive(p)]
        assert {n.status for n in notices_in(w.outbox.deliver("main"))} == {"killed"}
        process = await w.host.start("sleep 1000")
        with pytest.raises(UsageError):
            await w.tasks.adopt(process, title="late")
        await process.kill()


@pytest.mark.spec("T8")
async def test_a_cancelled_session_kills_its_tasks_and_says_so(tmp_path: Path) -> None:
    """When the task group is cancelled, processes die and their notices are on disk."""
    pid = tmp_path / "pid"
    number = 0
    with Outbox(str(tmp_path / "outbox")) as outbox:
        async with anyio.create_task_group() as group:
            delivery = Delivery(outbox, lambda _: None)
            board = TaskBoard(group=group, storage=str(tmp_path), delivery=delivery)
            process = await LocalHost(str(tmp_path)).start(f"echo $$ > {pid}; sleep 1000")
            await TaskSet(board, MAIN, lambda _: None).adopt(process, title="sleep")
            number = int(await wait_for(pid))
            group.cancel_scope.cancel()
        assert number
        assert not alive(number)
        assert [n.status for n in notices_in(outbox.pending("main"))] == ["killed"]


@pytest.mark.spec("T4")
async def test_a_task_that_died_with_the_process_is_reported_on_resume(tmp_path: Path) -> None:
    """After a kill -9 the next process tells of the lost task once, and repeats no id."""
    async with world(tmp_path) as w:
        task_id = await w.start("echo before; sleep 1000", title="serve")
        await wait_for(tmp_path / "tasks" / f"{task_id}.log")
        crashed = (tmp_path / "outbox").read_bytes()
    (tmp_path / "outbox").write_bytes(crashed)

    for expected in (1, 0):
        async with world(tmp_path) as w:
            notices = notices_in(w.outbox.deliver("main"))
            assert len(notices) == expected
            for notice in notices:
                assert (notice.task_id, notice.status) == ("task-1", "killed")
                assert "before" in notice.result
            w.outbox.ack([n.id for n in notices])
            if expected:
                assert await w.start("true") == "task-2"
                await w.board.wait_idle()
                w.outbox.ack(["task-2"])


@dataclass
class Faulty:
    """Work that fails even when it is to say how it was stopped."""

    kind: str = "faulty"
    endless: bool = False

    async def run(self, log: Log) -> Ending:
        del log
        await anyio.sleep_forever()
        raise AssertionError

    async def release(self) -> None:
        pass

    def crashed(self, error: Exception) -> Ending:
        return Ending(status="failed", summary=f"failed: {error!r}")

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        raise RuntimeError(f"{stopped} {log.path}")


@pytest.mark.spec("T4")
async def test_whatever_fails_at_the_end_a_task_ends(tmp_path: Path) -> None:
    """A failure in the very last step is a notice, and nobody is left waiting."""
    async with world(tmp_path) as w:
        handle = w.board.start(Faulty(), title="it", agent=MAIN, emit=w.events.append)
        with anyio.fail_after(40):
            text(await w.tasks.stop(handle.task_id))

        (notice,) = notices_in(w.outbox.deliver("main"))
        assert (notice.status, notice.summary[:20]) == ("failed", "failed: RuntimeError")
        assert not w.board.running()


@pytest.mark.spec("T4")
async def test_a_notice_may_speak_of_any_name(tmp_path: Path) -> None:
    """A file whose name is not Unicode does not keep the notice that names it from arriving."""
    notice = Notice(
        id="one",
        agent=MAIN,
        task_id=TaskId("one"),
        status="completed",
        summary="made ign\udcff.bin",
    )
    with Outbox(str(tmp_path / "outbox")) as outbox:
        assert outbox.put(notice)
    with Outbox(str(tmp_path / "outbox")) as outbox:
        (found,) = notices_in(outbox.deliver("main"))
        assert found.summary == "made ign\ufffd.bin"


@pytest.mark.spec("T2")
async def test_the_output_of_an_earlier_process_can_be_asked_for(tmp_path: Path) -> None:
    """After a restart TaskOutput still reads what ended before it, for those who may see it."""
    async with world(tmp_path) as w:
        mine = await w.start("echo hello")
        theirs = await w.start(
            "echo hi", tasks=TaskSet(w.board, AgentPath("main/one"), w.events.append)
        )
        await w.board.wait_idle()
        w.outbox.ack([n.id for n in notices_in(w.outbox.deliver("main"))])

    async with world(tmp_path) as w:
        other = TaskSet(w.board, AgentPath("main/two"), w.events.append)

        said = text(await w.tasks.output(mine))
        assert "completed (exit code 0)" in said
        assert said.endswith("hello")
        assert "(nothing new)" in text(await w.tasks.output(mine))
        assert "hi" in text(await w.tasks.output(theirs))
        assert isinstance(await other.output(theirs), Failed)
        assert "Too late" in str(await w.tasks.stop(mine))


@pytest.mark.spec("T8")
async def test_an_agent_owns_its_tasks(tmp_path: Path) -> None:
    """A child's notice is for the child; its parent may look, a sibling may not."""
    async with world(tmp_path) as w:
        first, second = (
            TaskSet(w.board, AgentPath(f"main/fork-{n}"), w.events.append) for n in (1, 2)
        )
        task_id = await w.start("sleep 1000", tasks=first)

        assert w.board.running("main/fork-1") == 1
        assert w.board.running("main") == 0
        assert isinstance(await second.output(task_id), Failed)
        assert isinstance(await second.stop(task_id), Failed)
        assert "running" in text(await w.tasks.output(task_id))
        text(await w.tasks.stop(task_id))
        assert notices_in(w.outbox.deliver("main")) == []
        assert [n.task_id for n in notices_in(w.outbox.deliver("main/fork-1"))] == [task_id]


async def test_a_flood_is_bounded(tmp_path: Path) -> None:
    """The file of a task that prints without end stops at its limit; the task goes on."""
    async with world(tmp_path, log_limit=10_000) as w:
        task_id = await w.start(
            "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo end; printf %s z"
        )
        await w.board.wait_idle()

        log = tmp_path / "tasks" / f"{task_id}.log"
        assert 10_000 <= log.stat().st_size < 10_100
        assert "not kept" in log.read_text()
        (notice,) = notices_in(w.outbox.deliver("main"))
        assert "end\nz" in notice.result
        assert len(notice.result) < 2_500


@pytest.mark.timeout(240)
@pytest.mark.spec("T11")
async def test_finished_tasks_leave_no_growth(tmp_path: Path) -> None:
    """Once notices are acknowledged, the records of finished tasks are bounded and files closed."""
    async with world(tmp_path) as w:
        sizes: list[int] = []
        for _ in range(3):
            for _ in range(REMEMBERED // 2):
                await w.start("exit 0")
            await w.board.wait_idle()
            w.outbox.ack([n.id for n in notices_in(w.outbox.deliver("main"))])
            w.events.clear()
            gc.collect()
            sizes.append(sum(type(o) in {Task, Log, Collector} for o in gc.get_objects()))
        assert len(w.board._finished) <= REMEMBERED
        assert w.board._tasks == {}
        assert sizes[-1] <= sizes[0]
        files = [str(f.resolve()) for f in Path("/proc/self/fd").iterdir()]
        assert not [f for f in files if f.endswith(".log") and str(tmp_path) in f]


async def test_output_read_before_the_adoption_is_kept(tmp_path: Path) -> None:
    """What was printed in the foreground stands at the head of the task's file, lines unbroken.

    Its agent knows it, so that TaskOutput tells only what is new.
    """
    async with world(tmp_path) as w:
        cleaner = Cleaner()
        text = cleaner.feed("one\nhellö".encode()[:-1])
        command = "printf '\\xb6 world\\n'; until [ -e go ]; do sleep 0.02; done"
        process = await w.host.start(command, cwd=str(tmp_path))
        so_far = CommandSoFar(
            task_id=TaskId("task-1"),
            began=anyio.current_time() - 60,
            text=text,
            whole=True,
            cleaner=cleaner,
        )
        handle = await w.tasks.adopt(process, title="greet", so_far=so_far)
        while "world" not in Path(handle.output_file).read_text():
            await anyio.sleep(0.01)
        told = await w.tasks.output("task-1")
        assert isinstance(told, Done)
        assert plain(told.parts).split("\n")[1:] == ["hellö world"]
        (tmp_path / "go").touch()
        await w.board.wait_idle()
        assert Path(handle.output_file).read_text() == "one\nhellö world\n"
        (notice,) = notices_in(w.outbox.deliver("main"))
        assert notice.usage.duration_ms >= 60_000


async def test_no_id_is_given_twice(tmp_path: Path) -> None:
    """An id is known from its start on and for ever: in the next process, and by its log alone."""
    async with world(tmp_path) as w:
        assert await w.start("true") == "task-1"
        assert w.board.ids.knows("task-1")
        await w.board.wait_idle()
        w.outbox.ack(["task-1"])
    (tmp_path / "tasks" / "task-7.log").write_text("nobody knows of this\n")

    async with world(tmp_path) as w:
        assert all(map(w.board.ids.knows, ["task-1", "task-7"]))
        assert await w.start("true") == "task-8"
        assert not w.board.ids.knows("task-9")
        await w.board.wait_idle()
