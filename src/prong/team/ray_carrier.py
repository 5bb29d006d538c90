"""Leads to a worker on a Ray cluster: `python -m prong.team.ray_carrier PLACEMENT`.

Ray lives in this process and in those of the cluster, never in a session: what it imports, prints
and weighs stays here. It places an actor, which holds a worker and carries its bytes; all else is
the worker's and the session's business. The actor is detached, so that a session that comes back
finds its machine again, and Ray never runs anything a second time: no restarts, no retries, no
streams that it could splice.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Awaitable
from contextlib import suppress
from importlib import import_module
from typing import Any

import anyio
import msgspec

from prong.errors import NotInstalled, ProngError, WorkerFailed
from prong.host.byte_carrier import LineCut, LineLost, carry, write_all
from prong.host.held_process import HeldProcess, Pulled
from prong.host.launcher import WORKER
from prong.host.ray_placement import CUT, NAMESPACE, RayPlacement
from prong.team.message import Queued, frame

_SAID = 2.0
"""Seconds between two words about a queue."""

_ALONE = 600.0
"""Seconds for which an actor lives on that nobody asks for anything."""

_PATIENCE = 15.0
"""Seconds until a cluster must have answered at its address."""

_PAUSE = 0.2
"""Seconds between two looks at an actor that is about to end."""

_MOST = 1_000
"""Actors that one process of a session may have on a cluster."""

_ENVIRONMENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600", "RAY_USAGE_STATS_ENABLED": "0"}
"""A driver must outlive a line that is cut for some minutes, and tells nobody about itself."""


class PlacedWorker:
    """What Ray places: it holds one worker at a time, for whoever has attached last."""

    def __init__(self, python: str) -> None:
        """Take the Python that starts workers; empty for this one."""
        self._python = python or sys.executable
        self._client = self._owner = ""
        self._process: HeldProcess | None = None
        self._asked = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """End once nobody has asked for anything for long: the session is gone for good.

        A worker ends with its input, and the work in its workspaces stays where it is.
        """
        while time.monotonic() - self._asked < _ALONE:
            time.sleep(_SAID)
        os._exit(0)

    async def node(self) -> str:
        """Give the name of the machine."""
        return str(import_module("ray").get_runtime_context().get_node_id())

    async def attach(self, client: str, owner: str) -> str:
        """Start a worker for a client, in place of that of a process which is gone.

        Gives the name of the machine; empty if another client of the same process has it.
        """
        self._asked = time.monotonic()
        if client != self._client:
            if owner == self._owner and self._process is not None and self._process.running:
                return ""
            if self._process is not None:
                await self._process.end()
            self._process = HeldProcess((self._python, *WORKER, await self.node()))
            self._client, self._owner = client, owner
        return await self.node()

    async def push(self, client: str, at: int, data: bytes) -> int:
        """Write to the worker."""
        return await self._of(client).push(at, data)

    async def pull(self, client: str, after: int, wait: float) -> tuple[bytes, int | None, str]:
        """Read from the worker."""
        pulled = await self._of(client).pull(after, wait)
        return pulled.data, pulled.code, pulled.errors

    async def end(self, client: str) -> None:
        """End the worker."""
        await self._of(client).end()

    async def leave(self, client: str) -> None:
        """End itself, and give back what it holds of the cluster, if nobody has attached since."""
        # Nothing is waited for in between, so that nobody can attach to one that is about to end.
        if client == self._client:
            import_module("ray").actor.exit_actor()

    def _of(self, client: str) -> HeldProcess:
        self._asked = time.monotonic()
        if client != self._client or self._process is None:
            raise RuntimeError("a later process of the session has taken its place")
        return self._process


class _Cluster:
    """A Ray cluster, as the driver that leads to one worker sees it."""

    def __init__(self, placement: RayPlacement, source: int, sink: int) -> None:
        """Connect; by the source is known whether somebody still waits, by the sink is told.

        Raises NotInstalled if there is no Ray here, WorkerFailed if the cluster is not there.
        """
        self._placement = placement
        self._source = source
        self._sink = sink
        self._client = uuid.uuid4().hex
        os.environ.update(_ENVIRONMENT)
        _knock(placement.address)
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise NotInstalled(
                f"Ray is not installed here: pip install 'prong[ray]' ({error})"
            ) from error
        try:
            self._ray.init(
                address=placement.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
        except Exception as error:
            # Whatever Ray raises means that there is no cluster.
            first = str(error).strip().partition("\n")[0]
            raise WorkerFailed(f"no cluster answers at {placement.address}: {first}") from error

    async def place(self) -> Any:
        """Find an actor that is this session's, or have one placed; waits while there is no room.

        Raises WorkerFailed if there can be none.
        """
        if self._placement.node:
            alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
            if self._placement.node not in alive:
                raise WorkerFailed(
                    f"the machine {self._placement.node} is not in the cluster any more, and with "
                    "it what was done there"
                )
            if (found := await self._find()) is not None:
                return found
        for number in range(1, _MOST):
            if (actor := await self._join(self._name(number))) is not None:
                return actor
        raise WorkerFailed("the session has too many workers on the cluster")

    def _name(self, number: int) -> str:
        name = f"{self._placement.actor}:{number}"
        return f"{name}:{self._placement.node}" if self._placement.node else name

    async def _join(self, name: str) -> Any:
        """Attach to the actor of a name, which is made if there is none; None if it is taken.

        One of an earlier process may be about to end: then the next of that name is waited for.
        """
        while True:
            known = name in self._ray.util.list_named_actors()
            actor = self._make(name)
            try:
                return actor if await self._attach(actor) else None
            except WorkerFailed as error:
                died = isinstance(error.__cause__, self._ray.exceptions.ActorDiedError)
                if not (known and died) or _is_hung_up(self._source):
                    raise
                await anyio.sleep(_PAUSE)

    async def _find(self) -> Any:
        """Find an actor of the session on the machine that is asked for; None if there is none."""
        for name in self._ray.util.list_named_actors():
            if not name.startswith(f"{self._placement.actor}:"):
                continue
            with suppress(Exception):
                actor = self._ray.get_actor(name)
                if await actor.node.remote() == self._placement.node and await self._attach(actor):
                    return actor
        return None

    def _make(self, name: str) -> Any:
        wanted = self._placement
        resources = dict(wanted.resources)
        options: dict[str, Any] = {
            "name": name,
            "get_if_exists": True,
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
        if wanted.node:
            strategies = import_module("ray.util.scheduling_strategies")
            near = strategies.NodeAffinitySchedulingStrategy(wanted.node, soft=False)
            options["scheduling_strategy"] = near
        return self._ray.remote(PlacedWorker).options(**options).remote(wanted.python)

    async def _attach(self, actor: Any) -> bool:
        """Attach to an actor once it is placed; until then it is said that it is not.

        Raises WorkerFailed if it cannot be placed.
        """
        node, failure = "", None
        async with anyio.create_task_group() as group:
            group.start_soon(self._say_queued, actor)
            try:
                node = await actor.attach.remote(self._client, self._placement.owner)
            except self._ray.exceptions.RayError as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise WorkerFailed(f"no worker could be placed: {_plain(failure)}") from failure
        return bool(node)

    async def _say_queued(self, actor: Any) -> None:
        """Say that there is no room yet, until nobody waits for it any more."""
        with suppress(OSError):
            await anyio.sleep(_SAID)
            while not _is_hung_up(self._source):
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
        return f"waits for room on the cluster: it needs {needs}{where}, and {left} are free in all"

    def _drop(self, actor: Any) -> None:
        """Give an actor up that is not placed yet."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor)

    async def leave(self, actor: Any) -> None:
        """Let an actor end, unless a later process of the session has taken it."""
        with suppress(self._ray.exceptions.RayError), anyio.move_on_after(_PATIENCE):
            await actor.leave.remote(self._client)

    def reach(self, actor: Any) -> _RayProcess:
        """Give the worker that an actor holds."""
        return _RayProcess(self._ray.exceptions, actor, self._client)


class _RayProcess:
    """A held process, reached by calls of an actor."""

    def __init__(self, errors: Any, actor: Any, client: str) -> None:
        self._errors = errors
        self._actor = actor
        self._client = client

    async def push(self, at: int, data: bytes) -> int:
        return int(await self._done(self._actor.push.remote(self._client, at, data)))

    async def pull(self, after: int, wait: float) -> Pulled:
        return Pulled(*await self._done(self._actor.pull.remote(self._client, after, wait)))

    async def end(self) -> None:
        await self._done(self._actor.end.remote(self._client))

    async def _done(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (self._errors.ActorUnavailableError, ConnectionError) as error:
            # The second is what Ray's client says that goes by one connection, `ray://`.
            raise LineCut(_plain(error)) from error
        except self._errors.RayActorError as error:
            raise WorkerFailed(f"its machine or its process is gone: {_plain(error)}") from error
        except self._errors.RayError as error:
            raise WorkerFailed(_plain(error)) from error


def _knock(address: str) -> None:
    """Look whether something listens at the address of a cluster; Ray itself would try for minutes.

    Raises WorkerFailed if not.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise WorkerFailed(f"no cluster answers at {address}: {error}") from error


def _plain(error: BaseException) -> str:
    """Give the line of what Ray says that says something."""
    cause = getattr(error, "cause", None)
    lines = str(cause or error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def _is_hung_up(source: int) -> bool:
    """Whether nobody is left who could say something, whatever was said and not read yet."""
    ends = select.poll()
    ends.register(source, select.POLLHUP)
    return any(event & select.POLLHUP for _, event in ends.poll(0))


async def _lead(placement: RayPlacement, source: int, sink: int) -> Pulled:
    """Lead to a worker until it has ended, or nobody wants it any more."""
    cluster = _Cluster(placement, source, sink)
    actor = await cluster.place()
    try:
        done = await carry(cluster.reach(actor), source, sink)
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
    os.set_blocking(0, False)
    os.set_blocking(sink, False)
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
    # Ray has much to say and to wait for at its end, and nothing that anybody needs.
    os._exit(code if 0 <= code < 256 else 1)


if __name__ == "__main__":
    main(sys.argv[1])
