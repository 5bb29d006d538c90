"""Commands that look after forks and other background work, for faces that write lines."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from prong.cost.receipt import describe
from prong.errors import UsageError
from prong.session import Session


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
        directives = [part.strip() for part in re.split(r"\s/\s", rest) if part.strip()]
        if not directives:
            raise UsageError("say what the fork is to do: /fork TEXT, or /fork ONE / TWO")
        for task_id in await self._session.start_forks(directives):
            self._write(f"{task_id} works in the background; /tell {task_id} TEXT reaches it")

    async def _tasks(self, _: str) -> None:
        children = self._session.supervisor.children
        for child in children:
            detail = f" ({child.detail})" if child.detail else ""
            spec = child.spec
            self._write(f"{spec.task_id}  {child.status}  {spec.description}{detail}")
        others = self._session.tasks.running() - sum(c.status == "running" for c in children)
        if others:
            self._write(f"{others} background command{'s' if others > 1 else ''} running")
        elif not children:
            self._write("nothing has run in the background")

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
