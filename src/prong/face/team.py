"""Commands that look after forks and other background work, for faces that write lines."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from prong.cost.receipt import describe
from prong.errors import UsageError
from prong.face.line import counted, few
from prong.session import Session

_REPORT_LINES = 6


class Team:
    """The background work of one session, as commands."""

    def __init__(self, session: Session, write: Callable[[str], None]) -> None:
        """Take the session and what writes a line."""
        self._session = session
        self._write = write

    @property
    def commands(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """The commands by name; each takes the rest of its line."""
        return {
            "fork": self._fork,
            "tasks": self._tasks,
            "tell": self._tell,
            "stop": self._stop,
            "receipt": self._receipt,
        }

    async def _fork(self, rest: str) -> None:
        word, _, text = rest.partition(" ")
        isolated = word == "--worktree"
        rest = text if isolated else rest
        directives = [part.strip() for part in re.split(r"\s/\s", rest) if part.strip()]
        if not directives:
            raise UsageError("say what the fork is to do: /fork [--worktree] TEXT, or ONE / TWO")
        isolation = "worktree" if isolated else None
        for task_id in await self._session.start_forks(directives, isolation=isolation):
            self._write(f"{task_id} works in the background; /tell {task_id} TEXT reaches it")

    async def _tasks(self, _: str) -> None:
        children = self._session.supervisor.children
        for child in children:
            detail = f" ({child.detail})" if child.detail else ""
            spec = child.spec
            if spec.worktree is not None:
                detail += f" (branch {spec.worktree.branch})"
            self._write(f"{spec.task_id}  {child.status}  {spec.description}{detail}")
        ours = {child.spec.task_id for child in children}
        others = [task for task in self._session.tasks.listed() if task[0] not in ours]
        for task_id, kind, title in others:
            self._write(f"{task_id}  running  {title} ({kind})")
        if not (children or others):
            self._write("nothing has run in the background")

    def report(self, task_id: str) -> list[str]:
        """Give the first lines of what a child has reported."""
        for child in self._session.supervisor.children:
            if child.spec.task_id == task_id and child.status == "completed" and child.spec.notify:
                told = child.report
                return few(told.result if told.structured else told.text, _REPORT_LINES)
        return []

    def tell_revived(self) -> None:
        """Say which children of a resumed session go on."""
        for child in self._session.supervisor.children:
            if self._session.tasks.runs(child.spec.task_id):
                self._write(f"{child.spec.task_id} goes on: {child.spec.description}")

    def tell_stopping(self) -> None:
        """Say what ends with the session."""
        running = self._session.tasks.listed()
        for task_id, _, title in running:
            self._write(f"{task_id} is stopped: {title}")
        agents = {child.spec.task_id for child in self._session.supervisor.children}
        if any(task_id in agents for task_id, _, _ in running):
            self._write(
                "(they do not go on by themselves; after a resume, /tell ID TEXT wakes one)"
            )

    def describe_leaving(self) -> str:
        """Say what leaving now would mean."""
        running = len(self._session.tasks.listed())
        if not running:
            return "(nothing runs; once more, /quit or Ctrl+D leaves)"
        verb = "runs" if running == 1 else "run"
        return (
            f"({counted(running, 'background task')} {verb}; "
            f"once more or /quit leaves and stops {'it' if running == 1 else 'them'})"
        )

    async def _tell(self, rest: str) -> None:
        task_id, _, text = rest.partition(" ")
        if not text.strip():
            raise UsageError("say whom and what: /tell ID TEXT")
        self._write(await self._session.message(task_id, text.strip()))

    async def _stop(self, rest: str) -> None:
        if not rest:
            raise UsageError("say which task: /stop ID; /tasks lists them")
        self._write(await self._session.stop(rest))

    async def _receipt(self, rest: str) -> None:
        found = [r for r in self._session.receipts() if rest in {"", r.task_id}]
        if not found:
            raise UsageError("there is no such receipt; /tasks lists what has run")
        for receipt in found:
            self._write(describe(receipt))
