"""Background work of one session.

A task lives in the session's task group, belongs to the agent that started it, and ends in exactly
one place, `_finish`: there its notice is sent, then it is counted out, then those who wait are
woken. Whoever sees no task running therefore finds every notice. A finished task keeps one small
record, and of those only the last `REMEMBERED`; its output stays in its file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from prong.errors import SessionEnded
from prong.event import TaskFinished, TaskStarted
from prong.ids import AgentPath, TaskId, is_below
from prong.team.delivery import Delivery, Emit
from prong.team.log import Log, numbers, read_fresh
from prong.team.outbox import REMEMBERED, Expected
from prong.team.task_ids import TaskIds
from prong.team.work import Ending, Shell, Work
from prong.tools.foreground import Foreground, ForegroundWait
from prong.tools.tool import CommandSoFar, TaskHandle

LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of output that a task's file holds."""

_GRACE = 1.0


class TaskNames(msgspec.Struct, frozen=True):
    """What a task is to be known by."""

    id: TaskId
    notice: str = ""
    """Of its notice, where that is another than its own."""
    call: str = ""
    """Of the call that started it: it is found by that, too."""


class Task(msgspec.Struct):
    """One running task."""

    id: TaskId
    notice: str
    """Id of its notice: a task that is run again has another."""
    agent: AgentPath
    title: str
    work: Work
    log: Log
    emit: Emit
    started: float
    notify: bool = True
    stopped: bool = False
    offset: int = 0
    """Bytes of the file that TaskOutput has given out."""
    whole: bool = True
    """Whether nothing of it was left out, and the task's own agent has asked."""
    scope: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)
    ended: anyio.Event = msgspec.field(default_factory=anyio.Event)

    @property
    def expected(self) -> Expected:
        """What is stored of it while it runs."""
        return Expected(self.notice, self.agent, self.id, self.title, self.log.path)

    def take_up(self, so_far: CommandSoFar) -> None:
        """Go on with a command that was waited for: its agent knows what it has printed."""
        self.log.take_up(so_far.text, so_far.cleaner)
        self.started, self.offset, self.whole = so_far.began, self.log.size, so_far.whole

    def read(self, agent: str) -> str:
        """Tell an agent what is new in its output."""
        fresh = read_fresh(self.log.path, self.offset)
        self.offset = fresh.offset
        self.whole &= fresh.whole and agent == self.agent
        return _told(f"{self.id} is running.", fresh.text + self.log.held, self.log.path)


class FinishedTask(msgspec.Struct):
    """What is remembered of a finished task."""

    agent: AgentPath
    summary: str
    path: str
    offset: int
    notice: str = ""
    """Id of its notice, if the whole output was told by TaskOutput so far."""
    beside: str = ""
    """What its notice tells beside the output."""

    def read(self, agent: str) -> str:
        """Tell an agent what is new in its output."""
        fresh = read_fresh(self.path, self.offset)
        self.offset = fresh.offset
        if not fresh.whole or agent != self.agent:
            self.notice = ""
        return _told(f"{self.summary}.", fresh.text, self.path)


class TaskBoard:
    """All background work of a session."""

    def __init__(
        self,
        *,
        group: TaskGroup,
        storage: str,
        delivery: Delivery,
        log_limit: int = LOG_LIMIT,
        prefix: str = "",
    ) -> None:
        """Run tasks in the group, keep output below the storage folder.

        A board that is not the session's only one has a `prefix` for its ids.
        """
        self._group = group
        self.storage = storage
        self.delivery = delivery
        self._log_limit = log_limit
        self.foreground = Foreground()
        """What the agents wait for whose tasks these are."""
        self._tasks: dict[str, Task] = {}
        self._owned: dict[str, dict[str, Task]] = {}
        """The same by the agents that have started them: most have none, where hundreds run."""
        self._finished: dict[str, FinishedTask] = {}
        self.ids = TaskIds(delivery.outbox.ids, numbers(self.folder), prefix=prefix)
        self._change = anyio.Event()
        self._closed = False

    @property
    def folder(self) -> Path:
        """Where the output of tasks is."""
        return Path(self.storage, "tasks")

    def start(
        self,
        work: Work,
        *,
        title: str,
        agent: AgentPath,
        emit: Emit,
        names: TaskNames | None = None,
        notify: bool = True,
        so_far: CommandSoFar | None = None,
    ) -> TaskHandle:
        """Start work as a task: its log goes to a file and, with `notify`, its end is a notice.

        Raises OSError if the file for a command's output cannot be made, UsageError if the session
        is closing.
        """
        if self._closed:
            raise SessionEnded("The session is closing; nothing new can be started in it.")
        names = names or TaskNames(self.ids.following())
        task_id = names.id
        assert task_id not in self._tasks, f"{task_id} runs already"
        log = Log(self.folder / f"{file_name(task_id)}.log", limit=self._log_limit)
        if isinstance(work, Shell):
            log.open()
        task = Task(
            id=task_id,
            notice=names.notice or task_id,
            agent=agent,
            title=title,
            work=work,
            log=log,
            emit=emit,
            started=anyio.current_time(),
            notify=notify,
        )
        if notify:
            self.delivery.expect(task.expected)
        if so_far is not None:
            task.take_up(so_far)
        self.ids.add(task_id, names.call)
        self._tasks[task_id] = self._owned.setdefault(agent, {})[task_id] = task
        task.emit(TaskStarted(task_id=task_id, title=title, kind=work.kind, output_file=log.path))
        self._group.start_soon(self._run, task, name=task_id)
        return TaskHandle(task_id, log.path)

    def promote(self, task_id: str) -> TaskHandle | None:
        """Let a running task notify at its end from now on; None if it does not run any more."""
        task = self._tasks.get(task_id)
        if task is None:
            return None
        if not task.notify:
            task.notify = True
            self.delivery.expect(task.expected)
        return TaskHandle(task.id, task.log.path)

    def find(self, task_id: str, agent: AgentPath) -> Task | FinishedTask | None:
        """Find a task that an agent may see: its own, or a descendant's."""
        task_id = self.ids.id_of(task_id)
        found = self._tasks.get(task_id) or self._finished.get(task_id)
        if found is None and (told := self.delivery.outbox.told(task_id)) is not None:
            # It ended in an earlier process of this session; its output is still there.
            found = FinishedTask(told.agent, told.summary, told.output_file, 0)
            self._finished[task_id] = found
        if found is None or not (found.agent == agent or is_below(found.agent, agent)):
            return None
        return found

    def seen_by(self, agent: AgentPath | None = None) -> list[Task]:
        """Give the tasks that run and that an agent may see; without one, all."""
        return [
            task
            for task in self._tasks.values()
            if agent is None or task.agent == agent or is_below(task.agent, agent)
        ]

    async def stop(self, task_id: str) -> None:
        """Kill a task and everything it started, if it runs; what it has printed is kept."""
        if (task := self._tasks.get(task_id)) is not None:
            await self._stop(task)

    async def stop_owned(self, agent: str) -> None:
        """Stop every task that an agent has started and that still runs."""
        await self._stop_all(list(self._owned.get(agent, {}).values()))

    def runs(self, task_id: str) -> bool:
        """Whether a task is running."""
        return task_id in self._tasks

    def running(self, agent: str | None = None) -> int:
        """Count the tasks that run: all, or those of one agent.

        Those that would never end by themselves do not count: nobody can wait for them.
        """
        return sum(self._ending(agent))

    def busy(self, agent: str | None = None, *, commands: bool = True) -> bool:
        """Whether a task runs, as `running` counts them; hundreds are not gone through for it.

        Without `commands` only agents count.
        """
        return any(self._ending(agent, commands=commands))

    def _ending(self, agent: str | None, *, commands: bool = True) -> Iterator[bool]:
        """Go through the tasks, of one agent or all, by whether they end by themselves."""
        tasks = self._tasks if agent is None else self._owned.get(agent, {})
        for task in tasks.values():
            yield not task.work.endless and (commands or task.work.kind != "shell")

    @property
    def closing(self) -> bool:
        """Whether everything is being stopped because the session ends."""
        return self._closed

    async def wait_foreground(
        self, task_id: TaskId, agent: AgentPath, seconds: float | None
    ) -> str:
        """Wait for the end of a task on behalf of an agent, so long at most.

        Gives why the wait ended before the task, if it did.
        """
        wait = ForegroundWait(task_id)
        waiting = self.foreground.waiting(agent, wait)
        with wait.scope, waiting, anyio.move_on_after(seconds) as patience:
            await self.wait_ended(task_id)
        if wait.task_id:
            return "the user wished it"
        return f"it took longer than {seconds:g} s" if patience.cancelled_caught else ""

    def to_background(self, name: str | None = None) -> list[TaskId]:
        """Give up waits; gives as which tasks goes on what was waited for.

        By a name: the task of an agent, the call of a command, or an agent that waits for commands.
        Without one all agents are meant, and the commands of the main agent.
        """
        chosen = self.foreground.find(name)
        for wait in chosen:
            wait.give_up(self.ids.following() if wait.command else TaskId(wait.name))
        return [wait.task_id for wait in chosen]

    async def wait_ended(self, task_id: str) -> None:
        """Wait for the end of a task; at once if it does not run."""
        if (task := self._tasks.get(task_id)) is not None:
            await task.ended.wait()

    async def wait_idle(self, agent: str | None = None) -> None:
        """Wait until no task runs: none at all, or none of one agent."""
        while self.busy(agent):
            await self._change.wait()

    async def close(self) -> None:
        """Kill everything that still runs; no cancellation keeps this from being done."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._stop_all(list(self._tasks.values()))

    async def _run(self, task: Task) -> None:
        ending: Ending | None = None
        try:
            with task.scope:
                ending = await task.work.run(task.log)
        except Exception as error:  # noqa: BLE001 - a failure of background work is always seen
            ending = task.work.crashed(error)
        finally:
            # Done, stopped or cancelled with the session: what it holds must be gone before
            # anybody is told that the task has ended.
            with anyio.CancelScope(shield=True):
                await task.work.release()
            self._finish(task, _last(task, ending))

    async def _stop_all(self, tasks: list[Task]) -> None:
        if not tasks:
            return
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(self._stop, task)

    async def _stop(self, task: Task) -> None:
        task.stopped = True
        if isinstance(task.work, Shell):
            await task.work.process.kill()
            with anyio.move_on_after(_GRACE):
                await task.ended.wait()
        task.scope.cancel()
        await task.ended.wait()

    def _finish(self, task: Task, ending: Ending) -> None:
        task.log.close()
        elapsed = round((anyio.current_time() - task.started) * 1000)
        if task.notify:
            usage = msgspec.structs.replace(ending.usage, duration_ms=elapsed)
            self.delivery.send(task.expected, msgspec.structs.replace(ending, usage=usage))
        del self._tasks[task.id]
        owned = self._owned[task.agent]
        del owned[task.id]
        if not owned:
            del self._owned[task.agent]
        whole = task.notify and task.whole and not task.log.lost
        self._finished[task.id] = FinishedTask(
            task.agent,
            ending.summary,
            task.log.path,
            task.offset,
            notice=task.notice if whole else "",
            beside=ending.beside,
        )
        if len(self._finished) > REMEMBERED:
            del self._finished[next(iter(self._finished))]
        task.emit(TaskFinished(task_id=task.id, status=ending.status, summary=ending.summary))
        task.ended.set()
        change, self._change = self._change, anyio.Event()
        change.set()


def _last(task: Task, ending: Ending | None) -> Ending:
    """Say how a task ended that may have been stopped; whatever fails, those who wait are told."""
    if ending is not None and not task.stopped:
        return ending
    try:
        return task.work.cut_short(stopped=task.stopped, log=task.log)
    except Exception as error:  # noqa: BLE001 - a failure of background work is always seen
        return task.work.crashed(error)


def file_name(task_id: str) -> str:
    """Make a safe file name of an id that a model or a provider chose."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", task_id)[:80]
    return safe if safe == task_id else f"{safe}-{zlib.crc32(task_id.encode()):08x}"


def _told(head: str, text: str, path: str) -> str:
    body = text.rstrip("\n") or "(nothing new)"
    return f"{head} Output file: {path}\n{body}"
