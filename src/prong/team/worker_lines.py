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
from prong.team.message import StartWorker
from prong.team.target_room import TargetRoom
from prong.team.worker_line import Waits, WorkerLine

IDLE = 60.0
"""Seconds for which a worker is kept that has nothing to do: the next agent often comes soon."""

_STOP = 15.0
"""Seconds until what leads to a worker has ended when it was asked to."""


class HeldLine:
    """A line of a session, and how it stands to others that lead to the same machine.

    The first has the worker there, and agents go by it alone; each other one holds what was set
    aside for a further worker, of which the first makes use.
    """

    def __init__(self, line: WorkerLine, number: int, wanted: str) -> None:
        """Take the line, its number among those of the session's process, and its machine.

        That is empty if any would do.
        """
        self.line = line
        self.number = number
        self._wanted = wanted
        self.leads = False
        """Whether it was told to start the worker; until then it may leave that to another."""
        self.first: HeldLine | None = None
        """That which has the worker, if it is another."""
        self.others: list[HeldLine] = []
        """Those that have left the work to it."""

    @property
    def node(self) -> str:
        """The machine that it leads to, if it gets anywhere; empty if that is not known yet."""
        return self.line.node or self._wanted

    @property
    def load(self) -> float:
        """How many agents go by it, for each worker for which there is room on its machine."""
        return len(self.line) / (1 + len(self.others))

    def join(self, first: HeldLine) -> None:
        """Leave the work to another, which leads to the same machine."""
        self.first = first
        first.others.append(self)
        self.line.greeting.end()

    def part(self) -> None:
        """Lead nowhere any more; those that have left the work to it end too."""
        for one in self.others:
            one.line.hang_up()
        if self.first is not None:
            self.first.others.remove(self)

    def is_needed(self) -> bool:
        """Whether there is work for what it holds; the first has it first."""
        if self.first is None:
            return len(self.line) > 0
        return len(self.first.line) > 1 + self.first.others.index(self)

    async def wait_needed(self, *, needed: bool) -> None:
        """Wait until there is work for it, or until there is none."""
        while self.is_needed() != needed:
            await (self if self.first is None else self.first).line.wait_change()


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
        self._lines: dict[str, list[HeldLine]] = {}
        self._rooms: dict[str, TargetRoom] = {}
        self._started = 0

    @property
    def session(self) -> str:
        """The name of the session that they are of; empty if there is none."""
        return self._place.session

    def room(self, name: str, target: RemoteTarget) -> TargetRoom:
        """Give the room for agents that the session has on a target."""
        return self._rooms.setdefault(name, TargetRoom(name, target.slots))

    def find(self, name: str, target: RemoteTarget, launcher: Launcher, node: str) -> WorkerLine:
        """Give a line to a worker of a target, which is started if there is none that will do.

        One that must be on a machine of a cluster is; others share the work between as many
        workers as the target has. Raises NotInstalled, or WorkerFailed if it cannot be started.
        """
        lines = self._open(name)
        fit = [one for one in lines if one.first is None and (one.node == node or not node)]
        least = min(fit, key=lambda one: one.load, default=None)
        if least is not None and (node or least.load < 1 or len(lines) >= target.workers):
            return least.line
        self._started += 1
        place = msgspec.structs.replace(
            self._place,
            node=node,
            line=self._started,
            open_lines=tuple(one.number for one in lines),
        )
        line = WorkerLine(
            launcher.argv(name, target, place),
            folder=str(Path(self._folder, f"{name}-{self._started}")),
            waits=self._waits,
            withhold=self._withhold,
        )
        held = HeldLine(line, self._started, node)
        self._lines.setdefault(name, []).append(held)
        self._group.start_soon(self._hold, name, held)
        return line

    def _open(self, name: str) -> list[HeldLine]:
        return [one for one in self._lines.get(name, ()) if not one.line.closing]

    def spare(self, name: str, node: str) -> WorkerLine | None:
        """Give a line of a target whose worker is there, for one who waits for room.

        That has nothing to do, or is the one on the machine that is named, if one is. None if there
        is none.
        """
        ready = (one for one in self._open(name) if one.line.greeting.ready)
        fit = (one.line for one in ready if (one.node == node if node else one.load < 1))
        return next(fit, None)

    def instead(self, name: str, line: WorkerLine) -> WorkerLine | None:
        """Give the line to the worker of the machine that a line leads to, if that is another."""
        first = next((one.first for one in self._lines[name] if one.line is line), None)
        return None if first is None else first.line

    async def close(self) -> None:
        """End them all, which is waited for."""
        async with anyio.create_task_group() as group:
            for held in chain.from_iterable(self._lines.values()):
                group.start_soon(partial(held.line.close, grace=self._waits.stop))

    async def _hold(self, name: str, held: HeldLine) -> None:
        """Let a line carry until its worker has ended, or had nothing to do for a while.

        Whoever is cancelled may still have something to say by it, so only `close` ends it.
        """
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                group.start_soon(self._place_worker, name, held)
                group.start_soon(self._leave, held)
                await held.line.carry()
                group.cancel_scope.cancel()
            held.part()
            self._lines[name].remove(held)

    async def _place_worker(self, name: str, held: HeldLine) -> None:
        """Let each machine of a cluster have one worker, however often there is room on it."""
        await held.line.greeting.placed.wait()
        node = held.line.node
        if not node or held.line.closing:
            return
        leading = (one for one in self._open(name) if one.leads)
        first = next((one for one in leading if one.line.node == node), None)
        if first is None:
            held.leads = True
            held.line.outgoing.put(StartWorker())
        else:
            held.join(first)

    async def _leave(self, held: HeldLine) -> None:
        while True:
            await held.wait_needed(needed=False)
            with anyio.move_on_after(self._idle):
                await held.wait_needed(needed=True)
            # An agent may have come in the very moment in which the time was up.
            if not held.is_needed():
                held.line.hang_up()
                return
