"""What agents wait for, and how such a wait is given up.

Being in the foreground is a way of waiting and nothing else. An agent or a command runs; whoever
wants its outcome waits until it has ended or until the wait is given up. Then the same running
thing goes on as a task that notifies.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio
from msgspec import Struct, field

from prong.ids import AgentPath, TaskId, depth_of, task_of


class ForegroundWait(Struct):
    """A wait for an agent or a command, which goes on if the wait is given up.

    Whoever waits does so inside of `scope`.
    """

    name: str
    """The agent's task, or the call that started the command."""
    command: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    task_id: TaskId = TaskId("")
    """As what it goes on; empty unless the wait was given up."""

    def give_up(self, task_id: TaskId) -> None:
        """End the wait; what was waited for goes on as a task."""
        self.task_id = task_id
        # An interrupt that comes before the waiting task runs again is not meant for what goes on.
        self.scope.shield = True
        self.scope.cancel()


class Foreground:
    """Everything that the agents of a session wait for."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waits: list[tuple[AgentPath, ForegroundWait]] = []

    @contextmanager
    def waiting(self, agent: AgentPath, wait: ForegroundWait) -> Generator[None]:
        """Let a wait of an agent be given up for a block."""
        row = (agent, wait)
        self._waits.append(row)
        try:
            yield
        finally:
            self._waits = [one for one in self._waits if one is not row]

    def find(self, name: str | None = None) -> list[ForegroundWait]:
        """Find the waits that are meant: by a name, or all but those for children's commands.

        An agent that nobody waits for means the commands that it waits for itself.
        """
        open_ = [(agent, wait) for agent, wait in self._waits if not wait.task_id]
        if name is None:
            return [wait for agent, wait in open_ if not (wait.command and depth_of(agent))]
        named = [wait for _, wait in open_ if wait.name == name]
        return named or [w for agent, w in open_ if w.command and task_of(agent) == name]
