"""Parents' waits for their children.

Being in the foreground is a way of waiting and nothing else. The child runs as a task like any
other; its parent waits for it until it ends or until the wait is given up, and then the same
running task notifies instead.
"""

from __future__ import annotations

import anyio

from prong.team.task import TaskBoard


class Foreground:
    """The children that are waited for."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waits: dict[str, anyio.CancelScope] = {}

    async def wait_ended(self, board: TaskBoard, task_id: str, seconds: float | None) -> str:
        """Wait for the end of a task, so long at most; gives why the wait was given up, if so."""
        given_up = False
        with anyio.move_on_after(seconds) as scope:
            self._waits[task_id] = scope
            try:
                await board.wait_ended(task_id)
            finally:
                given_up = self._waits.pop(task_id, None) is None
        if not scope.cancelled_caught:
            return ""
        return "the user wished it" if given_up else f"it took longer than {seconds:g} s"

    def give_up(self, task_id: str | None = None) -> list[str]:
        """End the wait for a child, or all waits; gives the task ids. The children go on."""
        chosen = [name for name in self._waits if task_id in {None, name}]
        for name in chosen:
            self._waits.pop(name).cancel()
        return chosen
