"""Connects to a Ray cluster, within a bounded time, and calls its actors.

Through `ray://` the cluster starts a server for each client by a fork of a process in which gRPC
runs: now and then that server dies before its first word. Ray's client hears of it at once, and
then waits most of a minute for the log of that server. So a connection that is not there in time is
given up together with its process, which becomes a new one: nothing was placed, and nothing was
read from the session, before it is there.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import threading
import time
from importlib import import_module
from typing import Any

import msgspec

from prong.errors import NotInstalled, WorkerFailed
from prong.foreign_number import whole_number
from prong.host.byte_carrier import LineCut, LineLost
from prong.host.ray_placement import NAMESPACE, RayPlacement
from prong.team.message import Queued, frame

TRIES = 6
"""Of six clients not one gets a server in less than one start of a thousand."""

_KNOCK = 15.0
"""Seconds until something must have answered at the address of a cluster."""

_FIRST, _LONGEST = 15.0, 45.0
"""Seconds for the first try, by which each next one has more, and for the longest: a session waits
for a sign of life for a minute."""

_WHOLE = 120.0
"""Seconds for all of them: what says nothing and listens all the same is not waited for longer."""

_GIVEN_UP = 1.0
"""Seconds that a client may take to close after it has failed."""

_LOOK = 0.1

_CLIENT = "ray://"

_RAISED = re.compile(r"[\w.]*(Error|Exception): \S")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")

_ENVIRONMENT = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "120",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""A driver must outlive a line that is cut for some minutes, and tells nobody about itself."""

_FAREWELL = 2.0
"""Seconds for a client to let its server go."""


def connect(placement: RayPlacement, sink: int) -> Any:
    """Connect to a cluster, and give the module of Ray by which it is spoken to.

    Through a client it may be tried again, in a new program in place of this one; that is told.

    Raises NotInstalled if there is no Ray here, WorkerFailed if the cluster is not there.
    """
    os.environ.update(_ENVIRONMENT)
    placement = msgspec.structs.replace(placement, since=placement.since or time.monotonic())
    _knock(placement.address)
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise NotInstalled(
            f"Ray is not installed here: pip install 'prong[ray]' ({error})"
        ) from error
    if not placement.address.startswith(_CLIENT):
        _init(ray, placement.address)
        return ray
    watch = _ClientWatch(ray, placement, sink)
    try:
        _init(ray, placement.address)
    except WorkerFailed as error:
        if isinstance(error.__cause__, ConnectionError):
            watch.try_again()
        raise
    finally:
        watch.end()
    return ray


def _init(ray: Any, address: str) -> None:
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=False,
        )
    except Exception as error:
        # Whatever Ray raises means that there is no cluster.
        why = plain_reason(error)
        raise WorkerFailed(f"no cluster answers at {address}: {why}") from error


def disconnect() -> None:
    """Let the server of a client go: the cluster would keep it for a client that comes back."""
    ray: Any = sys.modules.get("ray")
    client = getattr(getattr(ray, "util", None), "client", None)
    if client is not None and client.ray.is_connected():
        ending = threading.Thread(target=client.ray.disconnect, daemon=True)
        ending.start()
        ending.join(_FAREWELL)


async def call_actor(ray: Any, method: Any, *given: object) -> Any:
    """Call a method of an actor, and wait for what it gives.

    Raises LineCut, LineLost if Ray's client has given up, or WorkerFailed if the actor is gone.
    """
    errors = ray.exceptions
    try:
        # Who waits no longer leaves the call be: Ray's client cannot take one back.
        return await asyncio.shield(asyncio.wrap_future(method.remote(*given).future()))
    except errors.ActorUnavailableError as error:
        raise LineCut(plain_reason(error)) from error
    except errors.RayActorError as error:
        why = plain_reason(error)
        raise WorkerFailed(f"its machine or its process is gone: {why}") from error
    except errors.RayError as error:
        raise WorkerFailed(plain_reason(error)) from error
    except Exception as error:
        # Ray's client, which goes by one connection, raises many things when that is cut.
        if not ray.is_initialized():
            raise LineLost(f"Ray's client has lost its cluster: {plain_reason(error)}") from error
        if isinstance(error, ConnectionError):
            raise LineCut(plain_reason(error)) from error
        raise


def plain_reason(error: BaseException) -> str:
    """Give the line of what Ray says that says something.

    That is the first, or, if it goes on with how something failed elsewhere, what that raised last.
    """
    cause = getattr(error, "cause", None)
    lines = str(cause or error).strip().splitlines()
    raised = [one for one in lines if _RAISED.match(one)]
    found = raised[-1] if raised else lines[0] if lines else type(error).__name__
    return _COLOUR.sub("", found).strip()


class _ClientWatch:
    """Bounds the time that a client takes to connect, from a thread beside it."""

    def __init__(self, ray: Any, placement: RayPlacement, sink: int) -> None:
        self._ray = ray
        self._placement = placement
        self._sink = sink
        self._number = placement.tries + 1
        self._last = placement.since + _WHOLE
        self._turn = threading.Lock()
        """Held by whoever decides that it is over: a client that is there is never given up."""
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Let the client be, whatever came of it."""
        with self._turn:
            self._over.set()

    def _watch(self) -> None:
        begun, failed = time.monotonic(), 0.0
        until = min(begun + min(_FIRST * self._number, _LONGEST), self._last)
        while not self._over.wait(_LOOK):
            now = time.monotonic()
            failed = (failed or now) if self._has_failed() else 0.0
            late = now > until
            if late or (failed and now - failed > _GIVEN_UP):
                self.try_again()
                self._give_up()

    def _has_failed(self) -> bool:
        """Whether the client has failed and is about to close, as far as this Ray tells."""
        context = self._ray.util.client.ray.get_context()
        return bool(getattr(getattr(context, "client_worker", None), "_in_shutdown", False))

    def try_again(self) -> None:
        """Become a new program that tries once more; returns if it was tried enough."""
        with self._turn:
            spent = self._number >= TRIES or time.monotonic() > self._last
            if self._over.is_set() or spent:
                return
            why = f"Ray's client did not get through; it is tried again ({self._number} of {TRIES})"
            try:
                os.write(self._sink, frame(Queued(why=why)))
            except OSError:
                # Nobody waits for it any more.
                os._exit(1)
            told = msgspec.structs.replace(self._placement, tries=self._number)
            words = ("-P", "-m", "prong.team.ray_carrier", msgspec.json.encode(told).decode())
            os.dup2(self._sink, 1)
            os.execv(sys.executable, (sys.executable, *words))  # noqa: S606 - itself

    def _give_up(self) -> None:
        """End this program, which may wait for something that never comes."""
        with self._turn:
            if self._over.is_set():
                return
            sys.stderr.write(
                f"Ray's client did not connect at {self._placement.address}, tried {self._number} "
                "times: ray_client_server.err on the cluster's head says why; on a machine of the "
                "cluster 'address' can be 'auto'\n"
            )
            sys.stderr.flush()
            os._exit(1)


def _knock(address: str) -> None:
    """Look whether something listens at the address of a cluster; Ray itself would try for minutes.

    Raises WorkerFailed if not.
    """
    host, _, text = address.removeprefix(_CLIENT).rpartition(":")
    port = whole_number(text)
    if not host or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=_KNOCK).close()
    except OSError as error:
        raise WorkerFailed(f"no cluster answers at {address}: {error}") from error
