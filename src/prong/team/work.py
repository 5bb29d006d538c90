"""What a task does: a process, or an agent's loop."""

from __future__ import annotations

import contextlib
from typing import Protocol

import msgspec

from prong.host import Process
from prong.team.log import Log
from prong.team.notice import Status, TaskUsage
from prong.tools.shell import whereabouts


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a piece of work ended, and what it leaves."""

    status: Status
    summary: str
    result: str = ""
    beside: str = ""
    """What of the result does not stand in the output of the work."""
    usage: TaskUsage = TaskUsage()


class Work(Protocol):
    """What a task does: a process, or an agent's loop."""

    @property
    def kind(self) -> str:
        """Name the kind of work, for people."""
        ...

    @property
    def endless(self) -> bool:
        """Whether it never ends by itself, so that nobody can wait for it."""
        ...

    async def run(self, log: Log) -> Ending:
        """Do it, writing to the log; cancelled when the task is stopped or the session ends."""
        ...

    async def release(self) -> None:
        """Let go of everything, whether it came to its end or not; nothing may outlive this."""
        ...

    def crashed(self, error: Exception) -> Ending:
        """Say how work ended that failed in a way nobody foresaw."""
        ...

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        """Say what there is of work that was stopped, or that ended with the session."""
        ...


class Shell(msgspec.Struct):
    """A background command."""

    title: str
    process: Process
    kind: str = "shell"
    endless: bool = False

    async def run(self, log: Log) -> Ending:
        """Wait for its end, its output going to the log."""
        with contextlib.suppress(OSError):
            async for data in self.process.output():
                log.take(data)
        code = await self.process.wait()
        log.flush()
        await self.process.kill()
        # Only one that was waited for at first tells: the others last as long as their jobs.
        left, _ = whereabouts(self.process.exit_output())
        notes = ["The processes that it left running were stopped"] if left else []
        undone = "".join(f"\n[{text}.]" for text in (*notes, *self.process.leave()))
        name = f'Background command "{self.title}"'
        result = result_text(log.tail, log.path) + undone
        if code == 0:
            summary = f"{name} completed (exit code 0)"
            return Ending(status="completed", summary=summary, result=result)
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        return Ending(status="failed", summary=f"{name} failed ({how})", result=result)

    async def release(self) -> None:
        """Kill whatever is left of its group."""
        await self.process.kill()
        self.process.leave()

    def crashed(self, error: Exception) -> Ending:
        """Name the failure."""
        summary = f'Background command "{self.title}" failed: {error!r}'
        return Ending(status="failed", summary=summary)

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        """Say what it printed so far."""
        log.flush()
        how = "was stopped" if stopped else "ended with the session"
        summary = f'Background command "{self.title}" {how}'
        return Ending(status="killed", summary=summary, result=result_text(log.tail, log.path))


def result_text(tail: str, path: str) -> str:
    """Say the end of an output and where all of it is."""
    return f"{tail.strip() or '(no output)'}\n[output file: {path}]"
