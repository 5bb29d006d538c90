"""A full screen without a terminal, and somebody who types on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from textual.pilot import Pilot

from prong.face.draw.theme import ThemeName
from prong.face.edit.buffer import Buffer
from prong.face.full.app import Full
from prong.face.full.board import Board
from prong.face.full.control import Control
from prong.face.handover import Handover
from prong.session import Session


class Hands:
    """Types on a full screen, and reads it."""

    def __init__(self, app: Full, pilot: Pilot[Handover], control: Control) -> None:
        self.app = app
        self.control = control
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self._pilot.press(*text, "enter")

    async def click(self, board: str, line: int, column: int = 2) -> None:
        """Click on a row."""
        target = self.app.query_one(f"#{board}", Board)
        # Where it is to stand it stands a moment later, and a click goes where it stands.
        with anyio.fail_after(40):
            while target.region != target._placed:
                await anyio.sleep(0.02)
        await self._pilot.click(target, offset=(column, line))

    def rows(self) -> list[str]:
        """Give the screen as text."""
        columns, lines = self.app.size
        cells = [[" "] * columns for _ in range(lines)]
        for board in self.app.query(Board):
            region = board.region
            for line, row in enumerate(board.rows[: region.height]):
                for place, char in enumerate(row.text[: region.width]):
                    cells[region.y + line][region.x + place] = char
        return ["".join(row).rstrip() for row in cells]

    @property
    def text(self) -> str:
        return "\n".join(self.rows())

    async def see(self, *wanted: str, without: str = "\0") -> str:
        """Wait until all of it is on the screen."""
        with anyio.move_on_after(40):
            while True:
                shown = self.text
                if all(one in shown for one in wanted) and without not in shown:
                    return shown
                await anyio.sleep(0.02)
        raise AssertionError(f"{wanted} is not on the screen:\n{self.text}")


@asynccontextmanager
async def opened(
    session: Session,
    size: tuple[int, int] = (80, 24),
    quiet: float = 0.0,
    theme: ThemeName = "none",
    first: str = "",
) -> AsyncGenerator[Hands]:
    """Open the full screen on a session."""
    async with anyio.create_task_group() as group:
        events = session.events(since=session.records.began)
        control = Control(session, events, group, draft=Buffer(), quiet=quiet)
        app = Full(session, control, theme, first, taken_over=False)
        async with app.run_test(size=size) as pilot:
            yield Hands(app, pilot, control)
        group.cancel_scope.cancel()
