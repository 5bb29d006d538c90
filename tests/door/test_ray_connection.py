"""What leads to a Ray cluster connects within a bounded time, or says why not."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pytest

from prong.errors import WorkerFailed
from prong.host.byte_carrier import LineCut, LineLost
from prong.host.ray_placement import RayPlacement
from prong.team import ray_carrier
from prong.team.message import Frames, Queued, read_up
from prong.team.ray_connection import TRIES, call_actor, plain_reason
from shared.remote import PlacedHere

pytestmark = [pytest.mark.spec("R1", "R3"), pytest.mark.timeout(180)]

RAY = """
import time
from pathlib import Path
from types import SimpleNamespace as Names

context = Names(client_worker=None)
client = Names(get_context=lambda: context, is_connected=lambda: False)
util = Names(client=Names(ray=client))

tries = Path(__file__).with_name("tries")
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")

def init(**given):
    {body}
"""
"""A stand-in for Ray in the program that is tried; what it does at a try is filled in.

A try is counted when it is loaded: from then on its time may be up at any moment.
"""

HANGS = """
    if len(tries.read_text()) > 2:
        raise RuntimeError("that is enough")
    context.client_worker = Names(_in_shutdown=True)
    time.sleep(60)
"""
SILENT = """
    time.sleep(60)
"""
LATER = """
    import json, sys
    if len(tries.read_text()) > 1:
        since = json.loads(sys.argv[1])["since"]
        raise RuntimeError("two of them" if time.monotonic() - since > 20 else "it has forgotten")
    raise ConnectionError("no server has started")
"""
REFUSES = """
    raise ConnectionAbortedError("Initialization failure:\\n  it says much\\nRuntimeError: no server has started")
"""


NO_PRONG = """The actor died because of an error raised in its creation task, ray::PlacedWorker
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 456, in result
    return self.__get_result()
RuntimeError: The actor with name PlacedWorker failed to import on the worker:

ray::PlacedWorker.__init__()
                  ^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'prong'
"""


def led(
    folder: Path, body: str, scheme: str = "ray://", *, since: float = 0.0
) -> tuple[list[str], str, int]:
    """Let the program try; gives what it says to the session, its last words, and how often."""
    (folder / "ray.py").write_text(RAY.replace("    {body}", body))
    with socket.create_server(("127.0.0.1", 0)) as listens:
        address = f"{scheme}127.0.0.1:{listens.getsockname()[1]}"
        placement = RayPlacement(address=address, actor="a", owner="o", line=1, since=since)
        told = msgspec.json.encode(placement).decode()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "prong.team.ray_carrier", told],
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            capture_output=True,
            check=False,
        )
    said = [read_up(whole.data) for whole in Frames().feed(done.stdout)]
    assert done.returncode == 1
    queued = [one.why for one in said if isinstance(one, Queued)]
    assert len(queued) == len(said)
    return queued, done.stderr.decode().strip(), len((folder / "tries").read_text())


def test_a_client_that_hangs_is_made_anew(tmp_path: Path) -> None:
    """One that has failed, and waits for what never comes, is given up for a new one; it is told."""
    queued, errors, tries = led(tmp_path, HANGS)

    assert tries == 3
    assert [one.partition("again ")[2] for one in queued] == [f"(1 of {TRIES})", f"(2 of {TRIES})"]
    assert errors.endswith("that is enough")


def test_a_client_that_hears_nothing_is_given_up_in_the_end(tmp_path: Path) -> None:
    """However many tries are left, all of them together have a bound; the remedy is said."""
    queued, errors, tries = led(tmp_path, SILENT, since=time.monotonic() - 1_000)

    assert (queued, tries) == ([], 1)
    assert "Ray's client did not connect at ray://127.0.0.1" in errors


def test_the_bound_is_of_all_tries_together(tmp_path: Path) -> None:
    """A program that takes the place of another knows since when it is tried."""
    queued, errors, tries = led(tmp_path, LATER, since=time.monotonic() - 30)

    assert (len(queued), tries) == (1, 2)
    assert errors.endswith("two of them")


def test_a_client_that_is_refused_again_and_again(tmp_path: Path) -> None:
    """After some tries it is said what Ray said last, and nothing is left running."""
    queued, errors, tries = led(tmp_path, REFUSES)

    assert tries == TRIES
    assert len(queued) == TRIES - 1
    assert errors.endswith(": RuntimeError: no server has started")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (NO_PRONG, "ModuleNotFoundError: No module named 'prong'"),
        ("\x1b[36mThe actor died\x1b[39m.\n\tpid: 7\nIts process has died.", "The actor died."),
        ("Error: \nit is empty", "Error:"),
        ("", "OSError"),
    ],
)
def test_of_what_ray_says_one_line_is_told(said: str, means: str) -> None:
    """The first, or what was raised on the other machine; without colours."""
    assert plain_reason(OSError(said) if said else OSError()) == means


class ActorLost(Exception):
    """Stands for whatever Ray says of an actor."""


class ActorAway(ActorLost):
    """Stands for what Ray says of one that may come back."""


class LostCluster:
    """Stands for Ray, by which nothing can be called."""

    exceptions = SimpleNamespace(
        RayError=ActorLost, RayActorError=ActorLost, ActorUnavailableError=ActorAway
    )

    def __init__(self, raised: Exception, *, connected: bool) -> None:
        self._raised = raised
        self._connected = connected

    def is_initialized(self) -> bool:
        return self._connected

    def remote(self, *_: object) -> NoReturn:
        raise self._raised


class LeftActor(PlacedHere):
    """Stands for one on a machine, and for a handle to it."""

    ended = False

    async def leave(self, owner: str, line: int) -> None:
        self.ended = (owner, line) == (self._owner, self._line)

    def handle(self) -> SimpleNamespace:
        def method(work: Callable[..., Coroutine[Any, Any, Any]]) -> SimpleNamespace:
            def remote(*given: Any) -> SimpleNamespace:
                loop = asyncio.get_running_loop()
                return SimpleNamespace(
                    future=lambda: asyncio.run_coroutine_threadsafe(work(*given), loop)
                )

            return SimpleNamespace(remote=remote)

        return SimpleNamespace(
            node=method(self.node), attach=method(self.attach), leave=method(self.leave), of=self
        )


@pytest.mark.anyio
@pytest.mark.parametrize("asked", ["here@10.0.0.7", "before@10.0.0.7"])
async def test_of_actors_that_were_left_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Others on its machine are ended, for they hold room; not those elsewhere, nor of other lines.

    The machine is the same if Ray was started anew on it, and it is named with its address.
    """
    here = [LeftActor("here") for _ in range(3)]
    there, held = LeftActor("there"), LeftActor("here")
    await held.attach("it", 1, ())
    named = {f"s:box:old:{at}": one for at, one in enumerate([*here, there, held])}
    ray = SimpleNamespace(
        util=SimpleNamespace(list_named_actors=lambda: list(named)),
        get_actor=lambda name: named[name].handle(),
        nodes=lambda: [
            {"NodeID": "here", "Alive": True, "NodeManagerAddress": "10.0.0.7", "Labels": {}}
        ],
        exceptions=LostCluster.exceptions,
        is_initialized=lambda: True,
    )
    monkeypatch.setattr(ray_carrier, "connect", lambda *_: ray)
    placement = RayPlacement(
        address="a:1", actor="s:box", owner="it", line=2, open_lines=(1,), node=asked
    )
    cluster = ray_carrier._Cluster(placement, 0, 1)
    taken = (await cluster.place()).of

    assert cluster.machine == "here@10.0.0.7"
    assert [one.ended for one in here] == [one is not taken for one in here]
    assert not there.ended
    assert not held.ended


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("raised", "connected", "means"),
    [
        (ActorAway("it does not answer"), True, LineCut),
        (ConnectionError("reset"), True, LineCut),
        (Exception("Ray Client is not connected."), False, LineLost),
        (ConnectionError("cleaned up"), False, LineLost),
        (ActorLost("it died"), True, WorkerFailed),
        (ZeroDivisionError("ours"), True, ZeroDivisionError),
    ],
)
async def test_a_call_that_fails_is_a_pause_or_an_end(
    raised: Exception, means: type[Exception], *, connected: bool
) -> None:
    """A line may come back while there is a client; without one it is lost, whatever is raised."""
    ray = LostCluster(raised, connected=connected)
    with pytest.raises(means) as found:
        await call_actor(ray, ray)
    assert type(found.value) is means


def test_a_driver_in_the_cluster_is_not_tried_again(tmp_path: Path) -> None:
    """What Ray's client does wrong is no reason to ask a cluster twice that says no."""
    queued, errors, tries = led(tmp_path, REFUSES, scheme="")

    assert (queued, tries) == ([], 1)
    assert "no cluster answers at 127.0.0.1" in errors
