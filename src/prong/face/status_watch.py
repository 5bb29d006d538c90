"""When the user's own status line is made anew, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from prong.event import (
    MAIN,
    ModeChanged,
    PromptMoved,
    ReplyFinished,
    TitleChanged,
    TurnFinished,
)
from prong.face.draw.own_colour import own_rows
from prong.face.draw.row import Row, Span, fit
from prong.session import Session, StatusText

_PAUSE = 0.3
"""Seconds in which what happens together counts as one."""
_ROWS = 3
"""Rows at most."""
_STIRRING = ReplyFinished | TurnFinished | ModeChanged | PromptMoved | TitleChanged


class StatusWatch:
    """Runs the command whenever something has happened that it may show."""

    def __init__(self, session: Session) -> None:
        """Show a session."""
        self._session = session
        self._stirred = anyio.Event()
        self._running = anyio.CancelScope()
        self.rows: tuple[Row, ...] = ()
        """As it was last made; none if there is no such line."""

    async def run(self, size: Callable[[], tuple[int, int]], changed: Callable[[], None]) -> None:
        """Keep it as it should be for a terminal of that size; says when there is another."""
        status = self._session.records.status
        if not status.is_set:
            return
        self._stirred.set()
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            while True:
                with anyio.move_on_after(status.seconds):
                    await self._stirred.wait()
                await anyio.sleep(_PAUSE)
                self._stirred = anyio.Event()
                columns, lines = size()
                with anyio.CancelScope() as self._running:
                    found = await status.run(columns, lines)
                    self.rows = _drawn(found, max(1, columns - 1), status.padding)
                    changed()

    async def _listen(self) -> None:
        with self._session.events(since=None) as events:
            async for envelope in events:
                if envelope.agent == MAIN and isinstance(envelope.event, _STIRRING):
                    self._stirred.set()
                    # What it is about to print is of the past.
                    self._running.cancel()


def _drawn(found: StatusText, width: int, indent: int) -> tuple[Row, ...]:
    if found.problem:
        told = f"(the command of statusLine {found.problem})"
        return (fit([Span(told, "dim")], width),)
    return own_rows(found.text, width, most=_ROWS, indent=indent)
