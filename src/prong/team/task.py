"""Background work of one session.

A task lives in the session's task group, belongs to the agent that started it, and ends in exactly
one place, `_finish`: there its notice is put into the outbox, then it is counted out, then those
who wait are woken. Whoever sees no task running therefore finds every notice. A finished task keeps
one small record, and of those only the last `REMEMBERED`; its output stays in its file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from prong.errors import JournalFull, UsageError
from prong.event import Event, TaskFinished, TaskStarted, Warned
from prong.host import Process
from prong.team.log import Log, last_number, read_fresh, read_tail
from prong.team.notice import Notice, Status, TaskUsage
from prong.team.outbox import Expected, Outbox
from prong.tool.base import Failed, Outcome, TaskHandle, Tasks, done

Emit = Callable[[Event], None]

LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of output that a task's file holds."""

REMEMBERED = 256
"""Finished tasks whose end can still be asked for."""

_GRACE = 1.0


@dataclass(slots=True)
class _Task:
    """One running task."""

    id: str
    agent: str
    title: str
    process: Process
    log: Log
    emit: Emit
    started: float
    stopped: bool = False
    offset: int = 0
    """Bytes of the file that TaskOutput has given out."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Past:
    """What is remembered of a finished task."""

    agent: str
    summary: str
    path: str
    offset: int


class TaskBoard:
    """All background work of a session, and the tools' door to it."""

    def __init__(
        self,
        *,
        group: TaskGroup,
        storage: str,
        outbox: Outbox,
        emit: Emit,
        agent: str = "main",
        log_limit: int = LOG_LIMIT,
    ) -> None:
        """Run tasks in the group, keep output below the storage folder.

        `agent` and `emit` stand for the main agent; `for_agent` makes the door of another.
        """
        self._group = group
        self._folder = Path(storage, "tasks")
        self.outbox = outbox
        self._emit = emit
        self._agent = agent
        self._log_limit = log_limit
        self._tasks: dict[str, _Task] = {}
        self._past: dict[str, _Past] = {}
        self._last = last_number(self._folder)
        self._change = anyio.Event()
        self._closed = False

    def for_agent(self, agent: str, emit: Emit) -> Tasks:
        """Make the door through which one agent's tools see the board."""
        return _Door(self, agent, emit)

    def recover(self) -> None:
        """Report tasks as killed that died with an earlier process of this session."""
        for lost in self.outbox.orphans():
            if lost.task_id not in self._tasks:
                self._put(
                    Notice(
                        id=lost.id,
                        agent=lost.agent,
                        task_id=lost.task_id,
                        status="killed",
                        summary=f'Background command "{lost.title}" ended with the session',
                        result=_result(read_tail(lost.output_file), lost.output_file),
                        output_file=lost.output_file,
                    ),
                    self._emit,
                )

    def next_id(self) -> str:
        """Give the next task id of this session."""
        self._last += 1
        while self.outbox.knows(f"task-{self._last}"):
            self._last += 1
        return f"task-{self._last}"

    async def adopt(
        self,
        process: Process,
        *,
        title: str,
        first_output: bytes = b"",
        agent: str | None = None,
        emit: Emit | None = None,
    ) -> TaskHandle:
        """Take over a running process: its output goes to a file, its end becomes a notice.

        Raises OSError if the file cannot be made, UsageError if the session is closing; the process
        is then still the caller's.
        """
        if self._closed:
            raise UsageError("The session is closing; nothing new can be started in it.")
        task_id = self.next_id()
        log = Log(self._folder / f"{task_id}.log", limit=self._log_limit)
        task = _Task(
            id=task_id,
            agent=agent or self._agent,
            title=title,
            process=process,
            log=log,
            emit=emit or self._emit,
            started=anyio.current_time(),
        )
        self._expect(task)
        log.take(first_output)
        self._tasks[task_id] = task
        task.emit(TaskStarted(task_id=task_id, title=title, kind="shell", output_file=log.path))
        self._group.start_soon(self._run, task, name=task_id)
        return TaskHandle(task_id, log.path)

    async def output(self, task_id: str, *, wait: float = 0.0, agent: str | None = None) -> Outcome:
        """Tell what is new, waiting up to so many seconds for the end of the task."""
        task = self._find(task_id, agent or self._agent)
        if task is None:
            return self._past_output(task_id, agent or self._agent)
        if wait > 0:
            with anyio.move_on_after(wait):
                await task.ended.wait()
        if task.ended.is_set():
            return self._past_output(task_id, agent or self._agent)
        fresh, task.offset = read_fresh(task.log.path, task.offset)
        return done(_told(f"{task_id} is running.", fresh + task.log.held, task.log.path))

    async def stop(self, task_id: str, *, agent: str | None = None) -> Outcome:
        """Kill a task and everything it started; what it has printed is kept."""
        task = self._find(task_id, agent or self._agent)
        if task is None:
            past = self._remembered(task_id, agent or self._agent)
            return Failed(_unknown(task_id) if past is None else f"Too late. {past.summary}.")
        await self._stop(task)
        return done(f"{task_id} and everything it started was stopped. Output: {task.log.path}")

    def running(self, agent: str | None = None) -> int:
        """Count the tasks that run: all, or those of one agent."""
        return sum(agent is None or t.agent == agent for t in self._tasks.values())

    async def wait_any(self) -> None:
        """Wait until the next task has ended; at once if none runs."""
        if self._tasks:
            await self._change.wait()

    async def wait_idle(self, agent: str | None = None) -> None:
        """Wait until no task runs: none at all, or none of one agent."""
        while self.running(agent):
            await self._change.wait()

    async def close(self) -> None:
        """Kill everything that still runs; no cancellation keeps this from being done."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for task in list(self._tasks.values()):
                    group.start_soon(self._stop, task)

    async def _run(self, task: _Task) -> None:
        code: int | None = None
        try:
            with task.scope, contextlib.suppress(OSError):
                async for data in task.process.output():
                    task.log.take(data)
                code = await task.process.wait()
        finally:
            # Cancelled with the session or done: either way the group must be gone before anybody
            # is told that the task has ended.
            with anyio.CancelScope(shield=True):
                await task.process.kill()
            self._finish(task, code)

    async def _stop(self, task: _Task) -> None:
        task.stopped = True
        await task.process.kill()
        with anyio.move_on_after(_GRACE):
            await task.ended.wait()
        task.scope.cancel()
        await task.ended.wait()

    def _finish(self, task: _Task, code: int | None) -> None:
        task.log.close()
        status, summary = _ending(task, code)
        elapsed = anyio.current_time() - task.started
        self._put(
            Notice(
                id=task.id,
                agent=task.agent,
                task_id=task.id,
                status=status,
                summary=summary,
                result=_result(task.log.tail, task.log.path),
                usage=TaskUsage(duration_ms=round(elapsed * 1000)),
                output_file=task.log.path,
            ),
            task.emit,
        )
        del self._tasks[task.id]
        self._past[task.id] = _Past(task.agent, summary, task.log.path, task.offset)
        if len(self._past) > REMEMBERED:
            del self._past[next(iter(self._past))]
        task.emit(TaskFinished(task_id=task.id, status=status, summary=summary))
        task.ended.set()
        change, self._change = self._change, anyio.Event()
        change.set()

    def _expect(self, task: _Task) -> None:
        try:
            self.outbox.expect(Expected(task.id, task.agent, task.id, task.title, task.log.path))
        except JournalFull as error:
            task.emit(Warned(text=str(error)))

    def _put(self, notice: Notice, emit: Emit) -> None:
        try:
            self.outbox.put(notice)
        except JournalFull as error:
            emit(Warned(text=str(error)))

    def _find(self, task_id: str, agent: str) -> _Task | None:
        task = self._tasks.get(task_id)
        return task if task is not None and _may_see(agent, task.agent) else None

    def _remembered(self, task_id: str, agent: str) -> _Past | None:
        past = self._past.get(task_id)
        return past if past is not None and _may_see(agent, past.agent) else None

    def _past_output(self, task_id: str, agent: str) -> Outcome:
        past = self._remembered(task_id, agent)
        if past is None:
            return Failed(_unknown(task_id))
        fresh, past.offset = read_fresh(past.path, past.offset)
        return done(_told(f"{past.summary}.", fresh, past.path))


@dataclass(slots=True, frozen=True)
class _Door:
    """The board as one agent sees it."""

    board: TaskBoard
    agent: str
    emit: Emit

    async def adopt(self, process: Process, *, title: str, first_output: bytes = b"") -> TaskHandle:
        return await self.board.adopt(
            process, title=title, first_output=first_output, agent=self.agent, emit=self.emit
        )

    async def output(self, task_id: str, *, wait: float = 0.0) -> Outcome:
        return await self.board.output(task_id, wait=wait, agent=self.agent)

    async def stop(self, task_id: str) -> Outcome:
        return await self.board.stop(task_id, agent=self.agent)


def _may_see(agent: str, owner: str) -> bool:
    """Let an agent see its own tasks and those of its descendants."""
    return owner == agent or owner.startswith(f"{agent}/")


def _ending(task: _Task, code: int | None) -> tuple[Status, str]:
    name = f'Background command "{task.title}"'
    if task.stopped:
        return "killed", f"{name} was stopped"
    if code is None:
        return "killed", f"{name} ended with the session"
    if code == 0:
        return "completed", f"{name} completed (exit code 0)"
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    return "failed", f"{name} failed ({how})"


def _result(tail: str, path: str) -> str:
    return f"{tail.strip() or '(no output)'}\n[output file: {path}]"


def _told(head: str, text: str, path: str) -> str:
    body = text.rstrip("\n") or "(nothing new)"
    return f"{head} Output file: {path}\n{body}"


def _unknown(task_id: str) -> str:
    return f"There is no task {task_id!r} of yours that can be asked."


if TYPE_CHECKING:
    _: type[Tasks] = TaskBoard
    _: type[Tasks] = _Door
