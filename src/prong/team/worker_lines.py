"""The workers of a session on other machines, each shared by all agents that work there."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.abc
import msgspec

from prong.host.launcher import Launcher, WorkerPlace
from prong.host.target import RemoteTarget
from prong.team.target_room import TargetRoom
from prong.team.worker_line import Waits, WorkerLine

IDLE = 60.0
"""Seconds for which a worker is kept that has nothing to do: the next agent often comes soon."""

_STOP = 15.0
"""Seconds until what leads to a worker has ended when it was asked to."""


class WorkerLines:
    """Lines to workers that run, by the target that they were started for; closed by its owner."""

    def __init__(
        self,
        group: anyio.abc.TaskGroup,
        folder: str,
        *,
        session: str = "",
        withhold: Collection[str] = (),
        waits: Waits | None = None,
        idle: float = IDLE,
    ) -> None:
        """Take the group that they are held in, and a folder of this machine for their errors.

        By the name of the session a cluster knows it again. Programs that lead to workers are not
        given the variables to withhold.
        """
        self._place = WorkerPlace(session=session, owner=uuid4().hex)
        self._group = group
        self._folder = folder
        self._withhold = withhold
        # A program that leads elsewhere may have to give up what it holds there.
        self._waits = waits or Waits(stop=_STOP)
        self._idle = idle
        self._lines: dict[str, list[WorkerLine]] = {}
        self._rooms: dict[str, TargetRoom] = {}
        self._started = 0

    def room(self, name: str, target: RemoteTarget) -> TargetRoom:
        """Give the room for agents that the session has on a target."""
        return self._rooms.setdefault(name, TargetRoom(name, target.slots))

    def find(self, name: str, target: RemoteTarget, launcher: Launcher, node: str) -> WorkerLine:
        """Give a line to a worker of a target, which is started if there is none that will do.

        One that must be on a machine of a cluster is; others share the work between as many
        workers as the target has. Raises NotInstalled, or WorkerFailed if it cannot be started.
        """
        lines = self._lines[name] = [one for one in self._lines.get(name, ()) if not one.closing]
        fit = [one for one in lines if one.node == node or not node]
        least = min(fit, key=len, default=None)
        if least is not None and (node or not len(least) or len(lines) >= target.workers):
            return least
        place = msgspec.structs.replace(self._place, node=node)
        self._started += 1
        line = WorkerLine(
            launcher.argv(name, target, place),
            folder=str(Path(self._folder, f"{name}-{self._started}")),
            waits=self._waits,
            withhold=self._withhold,
        )
        lines.append(line)
        self._group.start_soon(self._hold, line)
        return line

    def spare(self, name: str) -> WorkerLine | None:
        """Give a line of a target whose worker has nothing to do; None if there is none."""
        lines = self._lines.get(name, ())
        idle = (one for one in lines if one.greeting.ready and not len(one) and not one.closing)
        return next(idle, None)

    async def close(self) -> None:
        """End them all, which is waited for."""
        async with anyio.create_task_group() as group:
            for line in chain.from_iterable(self._lines.values()):
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
