"""Leads to a worker on a Ray cluster: `python -m prong.team.ray_carrier PLACEMENT`.

Ray lives in this process and in those of the cluster, never in a session: what it imports, prints
and weighs stays here. It places an actor, which holds a worker and carries its bytes; all else is
the worker's and the session's business. A worker is started where the session has none on that
machine; else the actor only holds what was set aside for it. The actor is detached, so that a
session that comes back finds its machine again, and Ray never runs anything a second time: no
restarts, no retries, no streams that it could splice.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import anyio
import msgspec

from prong.errors import ProngError, WorkerFailed
from prong.host.byte_carrier import LineCut, LineLost, carry, write_all
from prong.host.held_process import Pulled
from prong.host.ray_placement import CUT, RayPlacement, find_node, name_node
from prong.system.descriptor import is_hung_up, make_nonblocking
from prong.team.message import (
    LEAD,
    SHORT,
    Alive,
    NodeChosen,
    Queued,
    StartWorker,
    frame,
    frame_size,
    read_down,
)
from prong.team.placed_worker import PlacedWorker
from prong.team.ray_connection import call_actor, connect, disconnect, plain_reason

_SAID = 2.0
"""Seconds between two words about a queue."""

_PULSE = 20.0
"""Seconds between two looks at an actor that only holds what was set aside."""

_PATIENCE = 15.0
"""Seconds until an actor must have ended itself."""

_ANSWER = 5.0
"""Seconds until an actor must have said where it is: one that waits for room says nothing."""


class _Cluster:
    """A Ray cluster, as the driver that leads to one worker sees it."""

    def __init__(self, placement: RayPlacement, source: int, sink: int) -> None:
        """Connect; by the source is known whether somebody still waits, by the sink is told.

        Raises NotInstalled if there is no Ray here, WorkerFailed if the cluster is not there.
        """
        self._placement = placement
        self._source = source
        self._sink = sink
        self._who = (placement.owner, placement.line)
        self.node = ""
        """Ray's number for the machine of the actor that was attached to."""
        self._ray = connect(placement, sink)

    async def place(self) -> Any:
        """Find an actor that is this session's, or have one placed; waits while there is no room.

        Raises WorkerFailed if there can be none.
        """
        wanted = self._wanted()
        left = [one for one in self._ray.util.list_named_actors() if self._placement.is_left(one)]
        while left:
            if (actor := await self._take_over(left.pop(), wanted)) is not None:
                break
        else:
            actor = self._make(wanted)
            await self._wait_placed(actor)
        # What else the session has left on this machine does nothing any more but hold it.
        for name in left:
            if (other := await self._take_over(name, self.node)) is not None:
                await self.leave(other)
        return actor

    def _wanted(self) -> str:
        """Find the machine that is asked for; gives Ray's number for it, empty if any will do.

        Raises WorkerFailed if it is not there.
        """
        name = self._placement.node
        found = find_node(name, self._ray.nodes(), self._placement.labels) if name else ""
        if name and not found:
            raise WorkerFailed(
                f"the machine {name} is not in the cluster any more; what was done there can be "
                "had once it is again"
            )
        return found

    @property
    def machine(self) -> str:
        """The name of that machine, by which a session that comes back asks for it."""
        at = (n["NodeManagerAddress"] for n in self._ray.nodes() if n["NodeID"] == self.node)
        return name_node(self.node, next(at, ""))

    async def _take_over(self, name: str, node: str) -> Any:
        """Attach to an actor that was left, on the machine that is asked for, if one is.

        None if that is not possible: it is another line's by now, or waits for room itself, or is
        about to end.
        """
        with suppress(LineCut, WorkerFailed, ValueError):
            actor = self._ray.get_actor(name)
            found = ""
            with anyio.move_on_after(_ANSWER):
                found = await call_actor(self._ray, actor.node)
            if found and found == (node or found) and await self._attach(actor):
                return actor
        return None

    async def _attach(self, actor: Any) -> bool:
        """Attach to an actor; whether it is this line's then."""
        given = (*self._who, self._placement.open_lines)
        node = await call_actor(self._ray, actor.attach, *given)
        self.node = node or self.node
        return bool(node)

    def _make(self, node: str) -> Any:
        wanted = self._placement
        resources = dict(wanted.resources)
        options: dict[str, Any] = {
            "name": wanted.name,
            "lifetime": "detached",
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 16,
            "num_cpus": resources.pop("CPU", 1.0),
            "num_gpus": resources.pop("GPU", 0.0),
            "resources": resources,
            "scheduling_strategy": "SPREAD",
        }
        if wanted.labels:
            options["label_selector"] = dict(wanted.labels)
        if node:
            strategies = import_module("ray.util.scheduling_strategies")
            near = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            options["scheduling_strategy"] = near
        # The cluster takes this very class, whatever Prong it has: by the worker that is known.
        self._ray.cloudpickle.register_pickle_by_value(import_module(PlacedWorker.__module__))
        return self._ray.remote(PlacedWorker).options(**options).remote(wanted.python)

    async def _wait_placed(self, actor: Any) -> None:
        """Attach to an actor once it is placed; until then it is said that it is not.

        Raises WorkerFailed if it cannot be placed.
        """
        failure = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._say_queued, actor)
            try:
                await self._attach(actor)
            except (LineCut, WorkerFailed) as error:
                failure = error.__cause__ or error
            group.cancel_scope.cancel()
        if failure is not None:
            raise WorkerFailed(f"no worker could be placed: {plain_reason(failure)}") from failure

    async def _say_queued(self, actor: Any) -> None:
        """Say that there is no room yet, until nobody waits for it any more."""
        with suppress(OSError):
            await anyio.sleep(_SAID)
            while not is_hung_up(self._source):
                await write_all(self._sink, frame(Queued(why=self._full())))
                await anyio.sleep(_SAID)
        self._drop(actor)

    def _full(self) -> str:
        wanted = {"CPU": 1.0} | self._placement.resources
        free: dict[str, float] = self._ray.available_resources()
        needs = ", ".join(f"{value:g} {name}" for name, value in wanted.items())
        left = ", ".join(f"{free.get(name, 0.0):g} {name}" for name in wanted)
        labels = " and ".join(f"{name}={value}" for name, value in self._placement.labels.items())
        where = f" where {labels}" if labels else ""
        told = f"waits for room on the cluster: it needs {needs}{where}, and {left} are free in all"
        return told[:SHORT]

    def _drop(self, actor: Any) -> None:
        """Give an actor up that is not placed yet."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor)

    async def leave(self, actor: Any) -> None:
        """Let an actor end, unless a later process of the session has taken it."""
        with suppress(LineCut, WorkerFailed), anyio.move_on_after(_PATIENCE):
            await call_actor(self._ray, actor.leave, *self._who)

    def reach(self, actor: Any) -> _RayProcess:
        """Give what an actor holds."""
        return _RayProcess(self._ray, actor, self._who)


class _RayProcess:
    """A held process, reached by calls of an actor."""

    def __init__(self, ray: Any, actor: Any, who: tuple[str, int]) -> None:
        self._ray = ray
        self._actor = actor
        self._who = who

    async def hold(self) -> None:
        await call_actor(self._ray, self._actor.hold, *self._who)

    async def push(self, at: int, data: bytes) -> int:
        return int(await call_actor(self._ray, self._actor.push, *self._who, at, data))

    async def pull(self, after: int, wait: float) -> Pulled:
        return Pulled(*await call_actor(self._ray, self._actor.pull, *self._who, after, wait))

    async def end(self) -> None:
        await call_actor(self._ray, self._actor.end, *self._who)


class _HeldRoom:
    """Room for a worker that is placed, until the session wants one there, or wants it no more."""

    def __init__(self, far: _RayProcess, node: str, source: int, sink: int) -> None:
        self._far = far
        self._node = node
        self._source = source
        self._sink = sink
        self._said: bytes | None = None
        self._failure: WorkerFailed | OSError | None = None

    async def wait_wanted(self) -> bytes | None:
        """Wait; gives what the session has said to the worker by then, None if it wants none.

        Raises WorkerFailed if the room is lost, OSError if nobody listens.
        """
        await write_all(self._sink, frame(NodeChosen(node=self._node)))
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep, group.cancel_scope)
            self._said = await self._read()
            group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return self._said

    async def _read(self) -> bytes | None:
        said = b""
        while whole := await self._frame():
            if isinstance(read_down(whole[LEAD:]), StartWorker):
                return said
            said += whole
        return None

    async def _frame(self) -> bytes:
        """Read one frame and no byte more; empty if nothing more comes."""
        if not (lead := await self._exactly(LEAD)):
            return b""
        rest = await self._exactly(frame_size(lead))
        return lead + rest if rest else b""

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            await anyio.wait_readable(self._source)
            if not (part := os.read(self._source, size - len(data))):
                return b""
            data += part
        return data

    async def _keep(self, scope: anyio.CancelScope) -> None:
        """Let the actor know that it is wanted, and the session that it is there."""
        try:
            while True:
                await anyio.sleep(_PULSE)
                with suppress(LineCut):
                    await self._far.hold()
                    await write_all(self._sink, frame(Alive()))
        except (WorkerFailed, OSError) as error:
            self._failure = error
            scope.cancel()


async def _lead(placement: RayPlacement, source: int, sink: int) -> Pulled:
    """Lead to a worker until it has ended, or nobody wants it any more."""
    cluster = _Cluster(placement, source, sink)
    actor = await cluster.place()
    far = cluster.reach(actor)
    try:
        first = await _HeldRoom(far, cluster.machine, source, sink).wait_wanted()
        done = Pulled(b"", 0) if first is None else await carry(far, source, sink, first=first)
    except OSError:
        # The session is gone without a word: it may come back and look for its machine.
        return Pulled(b"", 1)
    if done.code == 0:
        await cluster.leave(actor)
    return done


def main(placement: str) -> int:
    """Be the program that leads to a worker."""
    # Whatever Ray prints must not get into the frames.
    sink = os.dup(1)
    os.dup2(2, 1)
    make_nonblocking(0)
    make_nonblocking(sink)
    try:
        last = anyio.run(_lead, msgspec.json.decode(placement, type=RayPlacement), 0, sink)
        said, code = last.errors, last.code or 0
    except LineLost as error:
        said, code = str(error), CUT
    except (ProngError, OSError) as error:
        said, code = str(error), 1
    if said:
        sys.stderr.write(f"{said}\n")
    sys.stderr.flush()
    disconnect()
    # Ray has much to say and to wait for at its end, and nothing that anybody needs.
    os._exit(code if 0 <= code < 256 else 1)


if __name__ == "__main__":
    main(sys.argv[1])
