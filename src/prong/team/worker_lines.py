"""The workers of a session on other machines: one for each target, shared by all who work there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.abc

from prong.team.worker_line import Waits, WorkerLine

IDLE = 60.0
"""Seconds for which a worker is kept that has nothing to do: the next agent often comes soon."""


class WorkerLines:
    """Lines to workers that run, by the target that they were started for; closed by its owner."""

    def __init__(
        self,
        group: anyio.abc.TaskGroup,
        folder: str,
        *,
        withhold: Collection[str] = (),
        waits: Waits | None = None,
        idle: float = IDLE,
    ) -> None:
        """Take the group that they are held in, and a folder of this machine for their errors.

        Programs that lead to them are not given the variables to withhold.
        """
        self._group = group
        self._folder = folder
        self._withhold = withhold
        self._waits = waits or Waits()
        self._idle = idle
        self._lines: dict[str, WorkerLine] = {}

    def find(self, name: str, argv: Sequence[str]) -> WorkerLine:
        """Give the line to the worker of a target, which is started if none runs.

        Raises WorkerFailed if it cannot be started.
        """
        line = self._lines.get(name)
        if line is None or line.closing:
            line = self._lines[name] = WorkerLine(
                argv,
                folder=str(Path(self._folder, name)),
                waits=self._waits,
                withhold=self._withhold,
            )
            self._group.start_soon(self._hold, line)
        return line

    async def close(self) -> None:
        """End them all, which is waited for."""
        async with anyio.create_task_group() as group:
            for line in self._lines.values():
                group.start_soon(partial(line.close, grace=self._waits.stop))

    async def _hold(self, line: WorkerLine) -> None:
        """Let a line carry until its worker has ended, or had nothing to do for a while.

        Whoever is cancelled may still have something to say by it, so only `close` ends it.
        """
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                group.start_soon(self._leave, line)
                await line.carry()
                group.cancel_scope.cancel()

    async def _leave(self, line: WorkerLine) -> None:
        while True:
            await line.wait_idle()
            with anyio.move_on_after(self._idle):
                await line.wait_busy()
                continue
            line.hang_up()
            return
