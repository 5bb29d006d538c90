"""Background work of one session.

A task lives in the session's task group, belongs to the agent that started it, and ends in exactly
one place, `_finish`: there its notice is put into the outbox, then it is counted out, then those
who wait are woken. Whoever sees no task running therefore finds every notice. A finished task keeps
one small record, and of those only the last `REMEMBERED`; its output stays in its file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.abc import TaskGroup

from prong.agent import Inbox
from prong.errors import JournalFull, UsageError
from prong.event import Event, TaskFinished, TaskStarted, Warned
from prong.host import Process
from prong.team.delivery import Delivery
from prong.team.log import Log, numbers, read_fresh, read_tail
from prong.team.notice import Notice
from prong.team.outbox import REMEMBERED, Expected, Outbox
from prong.team.work import Ending, Shell, Work, result_text
from prong.tools.base import Failed, Outcome, TaskHandle, Tasks, done

Emit = Callable[[Event], None]

LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of output that a task's file holds."""

_GRACE = 1.0


@dataclass(slots=True)
class _Task:
    """One running task."""

    id: str
    notice: str
    """Id of its notice: a task that is run again has another."""
    agent: str
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
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Finished:
    """What is remembered of a finished task."""

    agent: str
    summary: str
    path: str
    offset: int
    notice: str = ""
    """Id of its notice, if the whole output can be told by TaskOutput."""
    beside: str = ""
    """What its notice tells beside the output."""


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
        prefix: str = "",
    ) -> None:
        """Run tasks in the group, keep output below the storage folder.

        `agent` and `emit` stand for the main agent; `for_agent` makes the door of another. A board
        that is not the session's only one has a `prefix` for its ids.
        """
        self._group = group
        self.storage = storage
        self._folder = Path(storage, "tasks")
        self.outbox = outbox
        self._delivery = Delivery(outbox)
        self._emit = emit
        self._agent = agent
        self._prefix = prefix
        self._log_limit = log_limit
        self._tasks: dict[str, _Task] = {}
        self._finished: dict[str, _Finished] = {}
        self._last = max(numbers(self._folder), default=0)
        self._change = anyio.Event()
        self._closed = False
        self._listeners: dict[str, Callable[[], None]] = {}

    def for_agent(self, agent: str, emit: Emit) -> Tasks:
        """Make the door through which one agent's tools see the board."""
        return _Door(self, agent, emit)

    def strays(self) -> list[str]:
        """Name the commands that have left output and of which the outbox knows nothing."""
        return [f"task-{n}" for n in numbers(self._folder) if not self.knows(f"task-{n}")]

    def recover(self, *, keep: Container[str] = (), strays: Sequence[str] = ()) -> list[str]:
        """Report tasks as killed that died with an earlier process of this session; gives which.

        Those in `keep` are taken up again by somebody else. Of `strays` nobody knows whose they
        are, so that the main agent is told.
        """
        known = [Expected(n, self._agent, n, n, str(self._folder / f"{n}.log")) for n in strays]
        lost = [
            one
            for one in (*self.outbox.orphans(), *known)
            if one.task_id not in self._tasks and one.task_id not in keep
        ]
        for one in lost:
            ending = Ending(
                status="killed",
                summary=f'Background command "{one.title}" ended with the session',
                result=result_text(read_tail(one.output_file), one.output_file),
            )
            self._put(_notice(one, ending), self._emit)
        return [f"{one.task_id} ({one.title})" for one in lost]

    def make_up(self, notice_id: str, ending: Ending) -> None:
        """Send the notice of a task whose end was stored elsewhere, if it never was written."""
        for lost in self.outbox.orphans():
            if lost.id == notice_id:
                self._put(_notice(lost, ending), self._emit)

    def tell(self, notice_id: str, agent: str, task_id: str, ending: Ending) -> None:
        """Send the notice of a task that never ran on this board."""
        self._put(_notice(Expected(notice_id, agent, task_id, ""), ending), self._emit)

    def knows(self, task_id: str) -> bool:
        """Whether there is or was a task of that id."""
        return task_id in self._tasks or task_id in self._finished or self.outbox.knows(task_id)

    def next_id(self) -> str:
        """Give the next task id of this session."""
        self._last += 1
        while self.outbox.knows(f"{self._prefix}task-{self._last}"):
            self._last += 1
        return f"{self._prefix}task-{self._last}"

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
        work = Shell(title, process)
        return self.start(work, title=title, agent=agent, emit=emit, first_output=first_output)

    def start(
        self,
        work: Work,
        *,
        title: str,
        task_id: str | None = None,
        notice: str | None = None,
        agent: str | None = None,
        emit: Emit | None = None,
        notify: bool = True,
        first_output: bytes = b"",
    ) -> TaskHandle:
        """Start work as a task: its log goes to a file and, with `notify`, its end is a notice.

        Raises OSError if the file for a command's output cannot be made, UsageError if the session
        is closing.
        """
        if self._closed:
            raise UsageError("The session is closing; nothing new can be started in it.")
        task_id = task_id or self.next_id()
        assert task_id not in self._tasks, f"{task_id} runs already"
        log = Log(self._folder / f"{file_name(task_id)}.log", limit=self._log_limit)
        if isinstance(work, Shell):
            log.open()
        task = _Task(
            id=task_id,
            notice=notice or task_id,
            agent=agent or self._agent,
            title=title,
            work=work,
            log=log,
            emit=emit or self._emit,
            started=anyio.current_time(),
            notify=notify,
        )
        if notify:
            self._expect(task)
        log.take(first_output)
        self._tasks[task_id] = task
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
            self._expect(task)
        return TaskHandle(task.id, task.log.path)

    async def stop_owned(self, agent: str) -> None:
        """Stop every task that an agent has started and that still runs."""
        async with anyio.create_task_group() as group:
            for task in list(self._tasks.values()):
                if task.agent == agent:
                    group.start_soon(self._stop, task)

    def listen(self, agent: str, heard: Callable[[], None] | None) -> None:
        """Call `heard` whenever there is a notice for an agent; None ends that."""
        if heard is None:
            self._listeners.pop(agent, None)
        else:
            self._listeners[agent] = heard

    def collect(self, agent: str, inbox: Inbox, *, hold: Container[str] = ()) -> bool:
        """Move an agent's notices from disk into its inbox, each to be acknowledged there.

        False if that could not be noted on disk; they then stay there until the next resume.
        """
        try:
            self._delivery.collect(agent, inbox, hold=hold)
        except JournalFull as error:
            self._emit(Warned(text=f"{error}; notices stay on disk until the session is resumed"))
            return False
        return True

    def runs(self, task_id: str) -> bool:
        """Whether a task is running."""
        return task_id in self._tasks

    async def wait_ended(self, task_id: str) -> None:
        """Wait for the end of a task; at once if it does not run."""
        if (task := self._tasks.get(task_id)) is not None:
            await task.ended.wait()

    async def output(self, task_id: str, *, wait: float = 0.0, agent: str | None = None) -> Outcome:
        """Tell what is new, waiting up to so many seconds for the end of the task."""
        task = self._find(task_id, agent or self._agent)
        if task is None:
            return self._finished_output(task_id, agent or self._agent)
        if wait > 0:
            with anyio.move_on_after(wait):
                await task.ended.wait()
        if task.ended.is_set():
            return self._finished_output(task_id, agent or self._agent)
        fresh = read_fresh(task.log.path, task.offset)
        task.offset = fresh.offset
        task.whole &= fresh.whole and task.agent == (agent or self._agent)
        return done(_told(f"{task_id} is running.", fresh.text + task.log.held, task.log.path))

    async def stop(self, task_id: str, *, agent: str | None = None) -> Outcome:
        """Kill a task and everything it started; what it has printed is kept."""
        task = self._find(task_id, agent or self._agent)
        if task is None:
            known = self._remembered(task_id, agent or self._agent)
            return Failed(_unknown(task_id) if known is None else f"Too late. {known.summary}.")
        await self._stop(task)
        return done(f"{task_id} and everything it started was stopped. Output: {task.log.path}")

    def running(self, agent: str | None = None) -> int:
        """Count the tasks that run: all, or those of one agent.

        Those that would never end by themselves do not count: nobody can wait for them.
        """
        ending = (t for t in self._tasks.values() if not getattr(t.work, "endless", False))
        return sum(agent is None or task.agent == agent for task in ending)

    @property
    def closing(self) -> bool:
        """Whether everything is being stopped because the session ends."""
        return self._closed

    def shells(self) -> list[str]:
        """Name the commands that run in the background, whoever started them."""
        return [task.title for task in self._tasks.values() if task.work.kind == "shell"]

    def listed(self) -> list[tuple[str, str, str]]:
        """Give id, kind and title of every task that runs, whoever started it."""
        return [(task.id, task.work.kind, task.title) for task in self._tasks.values()]

    def busy(self, agent: str | None = None) -> bool:
        """Whether a task of an agent runs, or one has ended that it was not told of yet."""
        return bool(self.running(agent or self._agent) or self.outbox.pending(agent or self._agent))

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

    async def _stop(self, task: _Task) -> None:
        task.stopped = True
        if isinstance(task.work, Shell):
            await task.work.process.kill()
            with anyio.move_on_after(_GRACE):
                await task.ended.wait()
        task.scope.cancel()
        await task.ended.wait()

    def _finish(self, task: _Task, ending: Ending) -> None:
        task.log.close()
        elapsed = round((anyio.current_time() - task.started) * 1000)
        if task.notify:
            expected = Expected(task.notice, task.agent, task.id, task.title, task.log.path)
            usage = msgspec.structs.replace(ending.usage, duration_ms=elapsed)
            ending = msgspec.structs.replace(ending, usage=usage)
            self._put(_notice(expected, ending), task.emit)
        del self._tasks[task.id]
        whole = task.notify and task.whole and not task.log.lost
        self._finished[task.id] = _Finished(
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

    def _expect(self, task: _Task) -> None:
        try:
            self.outbox.expect(
                Expected(task.notice, task.agent, task.id, task.title, task.log.path)
            )
        except JournalFull as error:
            task.emit(Warned(text=str(error)))

    def _put(self, notice: Notice, emit: Emit) -> None:
        try:
            self.outbox.put(notice)
        except JournalFull as error:
            emit(Warned(text=str(error)))
        if (heard := self._listeners.get(notice.agent)) is not None:
            heard()

    def _find(self, task_id: str, agent: str) -> _Task | None:
        task = self._tasks.get(task_id)
        return task if task is not None and _may_see(agent, task.agent) else None

    def _remembered(self, task_id: str, agent: str) -> _Finished | None:
        known = self._finished.get(task_id)
        if known is None and (told := self.outbox.told(task_id)) is not None:
            # It ended in an earlier process of this session; its output is still there.
            known = self._finished[task_id] = _Finished(
                told.agent, told.summary, told.output_file, 0
            )
        return known if known is not None and _may_see(agent, known.agent) else None

    def _finished_output(self, task_id: str, agent: str) -> Outcome:
        known = self._remembered(task_id, agent)
        if known is None:
            return Failed(_unknown(task_id))
        fresh = read_fresh(known.path, known.offset)
        known.offset = fresh.offset
        if known.notice and fresh.whole and agent == known.agent:
            self._delivery.read(known.notice, known.beside)
        else:
            known.notice = ""
        return done(_told(f"{known.summary}.", fresh.text, known.path))


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

    def busy(self) -> bool:
        return self.board.busy(self.agent)


def _last(task: _Task, ending: Ending | None) -> Ending:
    """Say how a task ended that may have been stopped; whatever fails, those who wait are told."""
    if ending is not None and not task.stopped:
        return ending
    try:
        return task.work.cut_short(stopped=task.stopped, log=task.log)
    except Exception as error:  # noqa: BLE001 - a failure of background work is always seen
        return task.work.crashed(error)


def _notice(task: Expected, ending: Ending) -> Notice:
    return Notice(
        id=task.id,
        agent=task.agent,
        task_id=task.task_id,
        status=ending.status,
        summary=ending.summary,
        result=ending.result,
        usage=ending.usage,
        output_file=task.output_file,
    )


def _may_see(agent: str, owner: str) -> bool:
    """Let an agent see its own tasks and those of its descendants."""
    return owner == agent or owner.startswith(f"{agent}/")


def file_name(task_id: str) -> str:
    """Make a safe file name of an id that a model or a provider chose."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", task_id)[:80]
    return safe if safe == task_id else f"{safe}-{zlib.crc32(task_id.encode()):08x}"


def _told(head: str, text: str, path: str) -> str:
    body = text.rstrip("\n") or "(nothing new)"
    return f"{head} Output file: {path}\n{body}"


def _unknown(task_id: str) -> str:
    return f"There is no task {task_id!r} of yours that can be asked."


if TYPE_CHECKING:
    _: type[Tasks] = TaskBoard
    _: type[Tasks] = _Door
