"""A parent's wait for a child.

Being in the foreground is a way of waiting and nothing else. The child runs as a task like any
other; its parent waits for it until it ends or until the wait is given up, and then the same
running task notifies instead.
"""

from __future__ import annotations

import anyio


class Wait:
    """A parent's wait for a child that is in the foreground."""

    def __init__(self) -> None:
        """Begin to wait."""
        self._over = anyio.Event()
        self.why = ""
        """Why the wait was given up; empty if it was not."""

    def end(self) -> None:
        """Note that the child has ended."""
        self._over.set()

    def give_up(self) -> None:
        """Give up the wait; the child goes on."""
        self.why = "the user wished it"
        self._over.set()

    async def wait_over(self, seconds: float | None) -> None:
        """Wait for either, so many seconds at most."""
        with anyio.move_on_after(seconds):
            await self._over.wait()
            return
        self.why = f"it took longer than {seconds:g} s"
