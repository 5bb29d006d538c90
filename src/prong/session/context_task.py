"""The task in which a session lives, whoever opens and closes it.

A task group must be left by the task that entered it. Callers cannot promise that: each cell of a
notebook is a task of its own, so that what one cell opens another closes. A session therefore
lives in a task that is its own; opening starts it and waits until the session is there, closing
tells it to leave and waits for its end. This is the one task that belongs to no group. It ends by a
close, at the end of a block, by a failure inside, or with its event loop; in all of them it is
that task which takes the session apart.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio

from prong.errors import NotPossibleNow

_Made = TypeVar("_Made")

_LIVING: set[asyncio.Task[None]] = set()
"""A loop holds its tasks weakly; between two cells nobody else may hold this one."""


class ContextTask(Generic[_Made]):
    """Enters and leaves a context in a task of its own."""

    def __init__(self, context: AbstractAsyncContextManager[_Made]) -> None:
        """Begin to enter."""
        loop = asyncio.get_running_loop()
        self._context = context
        self._entered: asyncio.Future[_Made] = loop.create_future()
        self._leave = anyio.Event()
        self._scope = anyio.CancelScope()
        self._told = False
        self.task = loop.create_task(self._own())
        """Its result is how the context was left."""
        _LIVING.add(self.task)
        self.task.add_done_callback(_LIVING.discard)

    async def _own(self) -> None:
        with self._scope:
            async with self._context as made:
                self._entered.set_result(made)
                await self._leave.wait()

    async def enter(self) -> _Made:
        """Wait until the context has been entered; who is cancelled meanwhile undoes it."""
        try:
            await asyncio.wait({self.task, self._entered}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._scope.cancel()
            await self._wait_gone()
            raise
        if not self._entered.done():
            self._told = True
            self.task.result()
        return self._entered.result()

    @property
    def failed(self) -> bool:
        """Whether the context has ended with an error before anybody left it."""
        ended = self.task.done() and not self.task.cancelled() and not self._leave.is_set()
        return ended and self.task.exception() is not None

    async def leave(self) -> None:
        """Leave the context, and wait until that is done; may be said by any task, and twice.

        What went wrong inside, or in leaving, is raised once. Raises NotPossibleNow in an event
        loop that is not the context's.
        """
        if not self.task.done():
            if self.task.get_loop() is not asyncio.get_running_loop():
                raise NotPossibleNow(
                    "the session was opened in another event loop, which alone can close it; run "
                    "the close there"
                )
            self._leave.set()
            await self._wait_gone()
        told, self._told = self._told, True
        if not (told or self.task.cancelled()):
            self.task.result()

    async def _wait_gone(self) -> None:
        # Whoever is part of what ends is cancelled with it, and must not keep it from ending.
        with anyio.CancelScope(shield=not self._holds_caller()):
            await asyncio.wait({self.task})

    def _holds_caller(self) -> bool:
        """Whether the current task was started inside the context."""
        parents = {task.id: task.parent_id for task in anyio.get_running_tasks()}
        at: int | None = anyio.get_current_task().id
        while at is not None and at != id(self.task):
            at = parents.get(at)
        return at is not None
