"""Agents on a Ray cluster: a real one, whose machines are processes here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.command import Stop
from prong.event import LineChanged, TaskFinished, WorkKept, WorktreeEntered
from prong.session import check_remote
from prong.testing import Script, ServerProcess, Worlds, call, report, say
from prong.testing.ray_campaign import RayKills
from prong.testing.ray_cluster import HAS_CLIENT, HAS_RAY, RayNodes, ray_cluster
from prong.testing.remote_campaign import remote_trials
from prong.testing.repository import make_repo
from prong.testing.torture import chance
from shared.remote import PlacedHere, children_of, copies, remote_settings, remote_world
from shared.remote_driver import DRIVER, working
from shared.waiting import until as wait_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.spec("R1", "R2", "R3", "R4"),
    # The cluster is begun in the first, which has taken more than a minute.
    pytest.mark.timeout(600),
    pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install --group ray"),
]

NEEDS_CLIENT = pytest.mark.skipif(
    not HAS_CLIENT, reason="Ray's client is not installed: ray[client]"
)

WAIT = call("Bash", {"command": "touch began; while [ ! -e ../../go ]; do sleep 0.05; done"})
MADE = call("Write", {"file_path": "new.txt", "content": "made\n"})
LONG = 240.0
"""Seconds within which whatever is waited for has come, however busy the machine is."""
until = partial(wait_until, within=LONG)
until_ended = partial(wait_until, within=50.0)
"""For actors that a session ends: one without a worker ends by itself after a minute."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_cluster() as made:
        yield made


def script(*names: str) -> Script:
    routes = {f"Directive:\n{name}": [MADE, WAIT, report(name)] for name in names}
    return Script([say("hello")], routes, forever=say("ok"))


def target(nodes: RayNodes, **more: Any) -> dict[str, Any]:
    return {"launcher": "ray", "address": nodes.address, **more}


async def began(far: Path, count: int) -> None:
    await until(lambda: len(list(far.glob("*/.prong/worktrees/*/began"))) >= count)


def let_go(far: Path) -> None:
    for folder in far.glob("*/.prong"):
        (folder / "go").write_text("")


async def test_forks_work_on_the_cluster_and_come_back(
    world: Worlds, tmp_path: Path, nodes: RayNodes
) -> None:
    """Two forks share a worker on the machine with the label, also if nothing gets through a while.

    No key is left on the cluster.
    """
    far = tmp_path / "far"
    given = target(nodes, labels={"zone": "b"})
    key = "sk-very-secret-0123456789"
    options = {"api_key": key}
    async with remote_world(world, script("P1", "P2"), far, target=given, **options) as (w, repo):
        await w.session.run("Hi")
        await w.session.start_forks(["P1", "P2"], isolation="remote")
        await began(far, 2)
        (actor,) = nodes.actors()
        os.kill(actor, signal.SIGSTOP)
        let_go(far)
        await anyio.sleep(2)
        os.kill(actor, signal.SIGCONT)
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 2
        assert [one.spec.lease for one in children] == [3, 3]
        assert len(w.told(TaskFinished)) == 2
        place = f"{nodes.second.node_id}@{nodes.address.partition(':')[0]}"
        assert {one.node for one in w.told(WorktreeEntered)} == {place}
        for kept in w.told(WorkKept):
            assert repo.git("show", f"{kept.branch}:new.txt") == "made"
        assert not copies(far)
        assert "cut" not in {one.state for one in w.told(LineChanged)}
    await until_ended(lambda: actor not in nodes.actors())
    files = [one for one in nodes.folder.rglob("*") if one.is_file() and not one.is_symlink()]
    assert files
    assert not [one for one in files if key.encode() in one.read_bytes()]


async def test_a_machine_has_one_worker(world: Worlds, tmp_path: Path, nodes: RayNodes) -> None:
    """Where Ray finds room for several workers on a machine, one does the work of all of them.

    What is set aside for the others is held, and the long prompt crosses the line once.
    """
    far = tmp_path / "far"
    given = target(nodes, labels={"zone": "b"}, workers=2)
    async with remote_world(world, script("P1", "P2", "P3"), far, target=given) as (w, _):
        await w.session.run("A long history. " * 20_000)
        await w.session.start_forks(["P1", "P2", "P3"], isolation="remote")
        await began(far, 3)

        actors = nodes.actors()
        assert len(actors) == 2
        assert len([worker for one in actors for worker in children_of(one)]) == 1
        let_go(far)
        await w.session.wait_settled()
        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 3
        receipts = [w.parts.supervisor.registry.receipt(one) for one in children]
        crossed = sorted(one.bytes_sent for one in receipts)
        assert max(crossed[:2]) < 60_000
        assert crossed[2] > 300_000
    await until_ended(lambda: not nodes.actors())


@NEEDS_CLIENT
async def test_a_session_outside_of_the_cluster(
    world: Worlds, tmp_path: Path, nodes: RayNodes
) -> None:
    """One that reaches it by `ray://` alone has its work done there as well, and leaves no actor.

    Three workers that start at once do not get into each other's way.
    """
    far = tmp_path / "far"
    given = {"launcher": "ray", "address": nodes.client, "workers": 3}
    async with remote_world(world, script("P1", "P2", "P3"), far, target=given) as (w, repo):
        await w.session.run("Hi")
        tasks = await w.session.start_forks(["P1", "P2", "P3"], isolation="remote")
        await began(far, 3)
        let_go(far)
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 3
        assert {one.task_id for one in w.told(TaskFinished)} == set(tasks)
        for kept in w.told(WorkKept):
            assert repo.git("show", f"{kept.branch}:new.txt") == "made"
    await until_ended(lambda: not nodes.actors())


async def test_a_cluster_is_tried(tmp_path: Path, nodes: RayNodes) -> None:
    """`prong remote check` has a repository go there and come back, and leaves no actor."""
    given = {"launcher": "ray", "address": nodes.client or nodes.address}
    found = await check_remote(
        str(tmp_path), "box", settings=remote_settings(tmp_path / "far", **given)
    )

    assert {one.state for one in found} == {"good"}
    assert found[-1].text == "what was written there came back as a branch"
    await until_ended(lambda: not nodes.actors())


async def test_a_cluster_that_is_full_is_waited_for(
    world: Worlds, tmp_path: Path, nodes: RayNodes
) -> None:
    """Two workers that need a whole machine each: the second waits, which is told, then it works."""
    far = tmp_path / "far"
    given = target(nodes, labels={"zone": "b"}, resources={"CPU": 2}, workers=2)
    async with remote_world(world, script("P1", "P2"), far, target=given) as (w, _):
        await w.session.run("Hi")
        await w.session.start_forks(["P1", "P2"], isolation="remote")
        await began(far, 1)
        await until(lambda: any(one.line for one in w.session.view().agents.values()))
        assert len(list(far.glob("*/.prong/worktrees/*"))) == 1
        (line,) = [one.line for one in w.session.view().agents.values() if one.line]
        assert "waits for room on the cluster: it needs 2 CPU where zone=b" in line
        assert ("queued", line) in {(one.state, one.text) for one in w.told(LineChanged)}
        let_go(far)
        await w.session.wait_settled()

        assert [one.status for one in w.parts.supervisor.children] == ["completed"] * 2
        assert [one.state for one in w.told(LineChanged)][-1] == "open"
    await until_ended(lambda: not nodes.actors())


async def test_a_machine_that_dies(world: Worlds, tmp_path: Path, nodes: RayNodes) -> None:
    """Its agents fail once each with the reason, and those on other machines go on."""
    far = tmp_path / "far"
    third = nodes.add("c")
    given = target(nodes, labels={"zone": "c"})
    async with remote_world(world, script("P1", "P2"), far, target=given) as (w, _):
        await w.session.run("Hi")
        tasks = await w.session.start_forks(["P1", "P2"], isolation="remote")
        await began(far, 2)
        nodes.kill(third)
        await until(lambda: len(w.told(TaskFinished)) >= 2)
        for task in tasks:
            await w.session.send(Stop(task))
        await w.session.wait_settled()

        children = w.parts.supervisor.children
        assert [one.status for one in children] == ["failed"] * 2
        assert all("its machine or its process is gone" in one.run.detail for one in children)
        assert sorted(one.task_id for one in w.told(TaskFinished)) == sorted(tasks)


def start(url: str, folder: Path, how: str, nodes: RayNodes) -> subprocess.Popen[str]:
    settings = remote_settings(folder / "far", **target(nodes, workers=2))
    words = [sys.executable, "-c", DRIVER, url, str(folder), how, settings]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def carriers(session: int) -> list[int]:
    """Give what leads from a session to the cluster."""
    words = ["pgrep", "-P", str(session), "-f", "prong.team.ray_carrier"]
    return [int(pid) for pid in subprocess.run(words, capture_output=True).stdout.split()]  # noqa: PLW1510


async def test_a_line_that_is_cut_while_its_worker_starts(
    world: Worlds, tmp_path: Path, nodes: RayNodes
) -> None:
    """The session comes for the actor that was left, on its machine, and leaves none in the end."""
    far, python = tmp_path / "far", tmp_path / "python"
    held = f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    python.write_text(f'#!/bin/sh\n{held}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    given = target(nodes, python=str(python))
    async with remote_world(world, script("P1", "P2"), far, target=given) as (w, _):
        await w.session.run("Hi")
        await w.session.start_forks(["P1", "P2"], isolation="remote")
        await until((tmp_path / "began").exists)
        actors = nodes.actors()
        (line,) = carriers(os.getpid())
        os.kill(line, signal.SIGKILL)
        (tmp_path / "go").touch()
        await began(far, 2)

        assert nodes.actors() == actors
        states = [one.state for one in w.told(LineChanged)]
        assert (states.count("cut"), states[-1]) == (2, "open")
        let_go(far)
        await w.session.wait_settled()
        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 2
        assert len(w.told(TaskFinished)) == 2
    await until_ended(lambda: not nodes.actors())


@pytest.mark.parametrize("alone", [True, False])
async def test_a_session_that_is_killed_finds_its_machines(
    tmp_path: Path, nodes: RayNodes, *, alone: bool
) -> None:
    """Killed and resumed, both agents go on where they were; at most a call that was cut is undone.

    Also if all of its machine is lost at once: then its actors live on, and are found.
    """
    repo = make_repo(tmp_path / "project")
    far, gate = tmp_path / "far", tmp_path / "go"
    with ServerProcess(working(str(gate))) as server:
        process = start(server.url, tmp_path, "new", nodes)
        await until(lambda: len(list(far.glob("*/.prong/worktrees/*/done.txt"))) == 2)
        lost = [] if alone else carriers(process.pid)
        assert alone or len(lost) == 2
        process.kill()
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
        gate.touch()
        again = start(server.url, tmp_path, "resumed", nodes)
        output, errors = again.communicate(timeout=LONG)
        assert again.returncode == 0, errors
        found: list[Any] = msgspec.json.decode(output.splitlines()[-1])

    assert [status for status, _, _ in found] == ["completed"] * 2, found
    assert not copies(far)
    for _, _, branch in found:
        assert repo.git("show", f"{branch}:done.txt").split() in (["x"] * 3, ["x"] * 2)


def test_kills_on_the_cluster_lose_nothing(nodes: RayNodes) -> None:
    """The campaign `ray` in short: what leads there is killed, and then the session."""
    trial = remote_trials(partial(RayKills, nodes))

    assert trial(chance(344, 1)) == ""
    assert trial.counts["line"] == trial.counts["session"] == 1


async def started_since(before: set[int]) -> int:
    """Give the worker that was started; for a moment the system does not know its words."""
    await until(lambda: set(children_of(os.getpid())) - before)
    (worker,) = set(children_of(os.getpid())) - before
    return worker


async def test_an_actor_ends_only_for_who_has_it() -> None:
    """One that a later process of the session has taken is not ended by the earlier one."""
    actor = PlacedHere()
    assert await actor.attach("first", 1, ()) == "here"
    assert await actor.attach("first", 2, (1,)) == ""
    assert await actor.attach("second", 1, ()) == "here"
    await actor.leave("first", 1)
    assert await actor.pull("second", 1, 0, 0.0) == (b"", None, "")
    # Ray refuses it outside of an actor, which this one is not.
    with pytest.raises(TypeError):
        await actor.leave("second", 1)
    await actor.end("second", 1)


async def test_an_actor_without_a_worker_waits_less() -> None:
    """Room in which nothing runs is given back soon if nobody asks for it, else a lost session is waited for."""
    actor = PlacedHere()
    await actor.attach("it", 1, ())
    assert actor.patience < 90
    before = set(children_of(os.getpid()))
    await actor.push("it", 1, 0, b"")
    assert actor.patience >= 600
    worker = await started_since(before)
    os.kill(worker, signal.SIGKILL)
    assert (await actor.pull("it", 1, 0, 60.0))[1] == -9
    assert actor.patience < 90


async def test_an_actor_is_taken_from_a_line_that_is_gone() -> None:
    """A later line of the same process has it once the earlier one was given up, never before.

    The worker of the earlier one is ended first; a line that was started later is not yet known to
    an earlier one, and is left alone.
    """
    actor = PlacedHere()
    assert await actor.attach("it", 2, (1,)) == "here"
    assert await actor.attach("it", 1, ()) == ""
    assert await actor.attach("it", 3, (1, 2)) == ""
    before = set(children_of(os.getpid()))
    await actor.push("it", 2, 0, b"")
    worker = await started_since(before)
    assert await actor.attach("it", 4, (1, 3)) == "here"
    assert worker not in children_of(os.getpid())
    with pytest.raises(RuntimeError, match="a later line"):
        await actor.push("it", 2, 0, b"")
    await actor.push("it", 4, 0, b"")
    await actor.end("it", 4)
    assert set(children_of(os.getpid())) <= before


async def test_no_cluster(world: Worlds, tmp_path: Path) -> None:
    """An address at which nothing answers fails the task, with that address."""
    given = {"launcher": "ray", "address": "127.0.0.1:1"}
    async with remote_world(world, script("P1"), tmp_path / "far", target=given) as (w, _):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "no cluster answers at 127.0.0.1:1" in found.detail
