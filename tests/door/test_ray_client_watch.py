"""What bounds a connection to a Ray cluster, and what a call of an actor comes to, without a Ray."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from prong.errors import WorkerFailed
from prong.host.ray_placement import RayPlacement
from prong.team import ray_connection
from prong.team.message import Frames, Queued, read_up
from prong.team.ray_connection import TRIES, call_actor, connect, plain_reason

pytestmark = pytest.mark.spec("R1", "R3")


@contextmanager
def nothing_listens() -> Generator[int]:
    """Give a port that is bound, so that nobody else gets it, and at which nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_not_there_is_known_before_ray_is_asked(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Ray would try for minutes; and whoever asks it at all tells nobody about itself."""
    loaded: list[str] = []
    monkeypatch.setattr(ray_connection, "import_module", loaded.append)
    for name in ray_connection._ENVIRONMENT:
        monkeypatch.setenv(name, "as it was")
    with nothing_listens() as port:
        address = f"{scheme}127.0.0.1:{port}"
        placement = RayPlacement(
            address=address, actor="a", owner="o", line=1, since=time.monotonic()
        )
        with pytest.raises(WorkerFailed, match=f"no cluster answers at {address}: .*refused"):
            connect(placement, 1)

    assert loaded == []
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize("address", ["auto", "local", "ray://name-alone", "host:port"])
def test_what_names_no_port_is_left_to_ray(address: str) -> None:
    """There is nothing to knock at."""
    ray_connection._knock(address)


class Ended(Exception):
    """Stands for the end of this program, or for its start anew."""


class Watched(ray_connection._ClientWatch):
    """A watch whose thread does nothing by itself, and that notes what it would do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, tries: int = 0) -> None:
        self.source, sink = os.pipe()
        self.deeds: list[str] = []
        self.context = SimpleNamespace(client_worker=None)
        client = SimpleNamespace(ray=SimpleNamespace(get_context=lambda: self.context))
        ray = SimpleNamespace(util=SimpleNamespace(client=client))
        placement = RayPlacement(
            address="ray://far:1",
            actor="a",
            owner="o",
            line=1,
            tries=tries,
            since=time.monotonic(),
        )
        monkeypatch.setattr(threading.Thread, "start", lambda _: None)
        super().__init__(ray, placement, sink)
        monkeypatch.undo()
        monkeypatch.setattr(os, "dup2", lambda fd, to: self.deeds.append(f"dup2 {fd == sink} {to}"))
        monkeypatch.setattr(os, "execv", self._begin)
        monkeypatch.setattr(os, "_exit", self._exit)

    def _begin(self, _: str, words: tuple[str, ...]) -> None:
        self.deeds.append(" ".join(words[1:]))
        raise Ended

    def _exit(self, code: int) -> None:
        self.deeds.append(f"exit {code}")
        raise Ended

    def told(self) -> list[str]:
        os.close(self._sink)
        said = [read_up(whole.data) for whole in Frames().feed(os.read(self.source, 4096))]
        return [one.why for one in said if isinstance(one, Queued)]


def test_a_new_program_takes_the_place_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, it goes on counting, and it finds nothing of ours in the folder it is in."""
    watch = Watched(monkeypatch, tries=2)
    with pytest.raises(Ended):
        watch.try_again()
    [first, words] = watch.deeds

    assert first == "dup2 True 1", "what it says goes where this one's words went"
    assert words.startswith("-P -m prong.team.ray_carrier {")
    assert '"tries":3' in words
    assert watch.told() == [f"Ray's client did not get through; it is tried again (3 of {TRIES})"]


def test_after_enough_tries_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No new program is begun, and why is said."""
    watch = Watched(monkeypatch, tries=TRIES - 1)
    watch.try_again()
    assert watch.deeds == []
    with pytest.raises(Ended):
        watch._give_up()

    assert watch.deeds == ["exit 1"]
    said = capsys.readouterr().err
    assert f"did not connect at ray://far:1, tried {TRIES} times" in said
    assert watch.told() == []


def test_a_client_that_is_there_is_never_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it is over, neither a new program nor an end comes of what the watch has seen before."""
    watch = Watched(monkeypatch)
    watch.end()
    watch.try_again()
    watch._give_up()
    watch._watch()

    assert watch.deeds == []
    assert capsys.readouterr().err == ""


def test_nobody_is_told_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that waits no longer is not connected for."""
    watch = Watched(monkeypatch)
    os.close(watch.source)
    with pytest.raises(Ended):
        watch.try_again()

    assert watch.deeds == ["exit 1"]
    os.close(watch._sink)


class FewLooks(threading.Event):
    """Stands for the end of a client: it is never told, and after some looks nobody looks again."""

    looks = 0

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self.looks += 1
        return self.looks > 100


def test_a_client_that_connects_in_time_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither has its time passed, nor has it failed."""
    watch = Watched(monkeypatch)
    watch._over = FewLooks()
    watch._watch()

    assert watch.deeds == []
    assert watch.context.client_worker is None


@pytest.mark.parametrize("failed", [False, True])
def test_a_client_that_takes_too_long_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, failed: bool
) -> None:
    """One that has failed has a moment to close, and one that only waits the time of its try."""
    watch = Watched(monkeypatch)
    watch._over = FewLooks()
    for bound in ("_GIVEN_UP", "_FIRST", "_LONGEST"):
        over = bound == ("_GIVEN_UP" if failed else "_FIRST")
        monkeypatch.setattr(ray_connection, bound, 0.0 if over else 1_000.0)
    watch.context.client_worker = SimpleNamespace(_in_shutdown=failed)
    with pytest.raises(Ended):
        watch._watch()

    assert len(watch.told()) == 1


class RayLost(Exception):
    """Stands for whatever Ray says."""


class ActorDied(RayLost):
    """Stands for what it says of an actor that is gone."""


class ActorAway(ActorDied):
    """Stands for what it says of one that may come back."""


class Cluster:
    """Stands for Ray, and for a method of an actor."""

    exceptions = SimpleNamespace(
        RayError=RayLost, RayActorError=ActorDied, ActorUnavailableError=ActorAway
    )

    def __init__(self) -> None:
        self.future = concurrent.futures.Future[str]()

    def is_initialized(self) -> bool:
        return True

    def remote(self, *_: object) -> Any:
        return SimpleNamespace(future=lambda: self.future)


@pytest.mark.anyio
async def test_who_waits_no_longer_leaves_a_call_be() -> None:
    """Ray's client cannot take a call back: what it gives is not lost by that."""
    cluster = Cluster()
    with anyio.move_on_after(0.01):
        await call_actor(cluster, cluster)

    assert not cluster.future.cancelled()
    cluster.future.set_result("late")
    assert await call_actor(cluster, cluster) == "late"


@pytest.mark.anyio
async def test_an_actor_that_is_gone_is_told_from_a_call_that_failed() -> None:
    """Only of the first it is said that its machine or its process is gone."""
    for raised, gone in ((ActorDied("it died"), True), (RayLost("too large"), False)):
        cluster = Cluster()
        cluster.future.set_exception(raised)
        with pytest.raises(WorkerFailed) as found:
            await call_actor(cluster, cluster)
        assert str(found.value).startswith("its machine or its process is gone: ") is gone
        assert str(found.value).endswith(str(raised))


def test_what_was_raised_elsewhere_is_the_reason() -> None:
    """Ray wraps it in words of its own."""
    wrapped = RayLost("a task failed, see below")
    wrapped.cause = ValueError("the bytes have not come")  # pyright: ignore[reportAttributeAccessIssue] - as Ray has it

    assert plain_reason(wrapped) == "the bytes have not come"
