"""The background work of one agent, as its tools see it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from prong.config.listing import name_some
from prong.host import Process
from prong.ids import AgentPath
from prong.team.delivery import Emit
from prong.team.task import FinishedTask, Task, TaskBoard, TaskNames
from prong.team.work import Shell
from prong.tools.foreground import ForegroundWait
from prong.tools.tool import CallOutcome, CommandSoFar, Failed, TaskHandle, Tasks, done


class TaskSet(Struct, frozen=True):
    """The tasks of a board that an agent may see: its own, and those of its descendants."""

    board: TaskBoard
    agent: AgentPath
    emit: Emit

    async def adopt(
        self, process: Process, *, title: str, so_far: CommandSoFar | None = None
    ) -> TaskHandle:
        """Take over a running process: its output goes to a file, its end becomes a notice.

        Raises OSError if the file cannot be made, UsageError if the session is closing; the process
        is then still the caller's.
        """
        work, agent, emit = Shell(title, process), self.agent, self.emit
        names = None if so_far is None else TaskNames(so_far.task_id)
        return self.board.start(
            work, title=title, agent=agent, emit=emit, names=names, so_far=so_far
        )

    def waiting(self, wait: ForegroundWait) -> AbstractContextManager[None]:
        """Let the user give up a wait of this agent while a block runs."""
        return self.board.foreground.waiting(self.agent, wait)

    async def output(self, task_id: str, *, wait: float = 0.0) -> CallOutcome:
        """Tell what is new, waiting up to so many seconds for the end of the task."""
        found = self.board.find(task_id, self.agent)
        if isinstance(found, Task) and wait > 0:
            with anyio.move_on_after(wait):
                await found.ended.wait()
            found = self.board.find(task_id, self.agent)
        if found is None:
            return self._unknown(task_id)
        told = found.read(self.agent)
        if isinstance(found, FinishedTask) and found.notice:
            self.board.delivery.shorten(found.notice, found.beside)
        return done(told)

    async def stop(self, task_id: str) -> CallOutcome:
        """Kill a task and everything it started; what it has printed is kept."""
        match self.board.find(task_id, self.agent):
            case None:
                return self._unknown(task_id)
            case FinishedTask(summary=summary):
                return Failed(f"Too late. {summary}.")
            case Task(id=found, log=log):
                await self.board.stop(found)
                return done(f"{task_id} and everything it started was stopped. Output: {log.path}")

    def _unknown(self, task_id: str) -> Failed:
        running = [task.id for task in self.board.seen_by(self.agent)]
        told = f"What runs: {name_some(running)}." if running else "Nothing of yours runs."
        return Failed(f"There is no task {task_id!r} of yours that can be asked. {told}")

    def busy(self) -> bool:
        """Whether a task of this agent runs; the notice of one that has ended is in its inbox."""
        return self.board.busy(self.agent)


if TYPE_CHECKING:
    _: type[Tasks] = TaskSet
