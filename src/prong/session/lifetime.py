"""How a session is opened and closed: for a block, or by hand and by different tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from prong.errors import NotPossibleNow, ProngError
from prong.session.context_task import ContextTask
from prong.session.parts import Parts
from prong.session.session import Session
from prong.system.standard_stream import hold_numbers


class Opening(AbstractAsyncContextManager[Session, None]):
    """A session about to be opened: for a block, or by `await` until somebody closes it."""

    def __init__(self, context: AbstractAsyncContextManager[Parts]) -> None:
        """Use `prong.open_session`; nothing happens before it is entered or awaited."""
        self._context: AbstractAsyncContextManager[Parts] | None = context
        self._running: ContextTask[Parts] | None = None
        self._block: asyncio.Task[Any] | None = None
        """The task whose block this is."""
        self._interrupted = False
        """Whether that task was cancelled because the session had failed."""

    def __await__(self) -> Generator[Any, Any, Session]:
        """Open the session; whoever does so sees to its `close`."""
        return self._open().__await__()

    async def _open(self) -> Session:
        context, self._context = self._context, None
        if context is None:
            raise NotPossibleNow(
                "this session has been opened; call open_session again for another"
            )
        # What is stored must not be the next file that gets the number of a closed stream.
        hold_numbers()
        running = self._running = ContextTask(context)
        return Session(await running.enter(), running)

    async def __aenter__(self) -> Session:
        session = await self
        assert self._running is not None
        self._block = asyncio.current_task()
        self._running.task.add_done_callback(self._interrupt)
        return session

    def _interrupt(self, _task: asyncio.Task[None]) -> None:
        """Cancel the block of a session that has failed, as a task group does."""
        assert self._running is not None
        assert self._block is not None
        if self._running.failed and not self._block.done():
            self._interrupted = self._block.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._running is not None
        block = asyncio.current_task()
        if self._interrupted and block is not None and block is self._block:
            block.uncancel()
        try:
            await self._running.leave()
        except (ProngError, OSError) as closing:
            if error is None:
                raise
            error.add_note(f"Closing the session failed too: {closing}")
