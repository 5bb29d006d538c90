"""Workers in containers of a real engine: podman, with an image of this machine's own programs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.event import TaskFinished, ToolFinished, WorkKept
from prong.host import LocalHost
from prong.host.launcher import VOLUME, WORKER, ContainerLauncher
from prong.host.merge import merge
from prong.host.target import read_target
from prong.session import Checkup, check_remote
from prong.testing import Script, ServerProcess, Worlds, call, forks, report, say
from prong.testing.repository import make_repo
from shared.podman import PodmanEngine, podman_engine
from shared.remote import copies, remote_settings, remote_world
from shared.remote_driver import DRIVER, working
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1", "R3", "R4")]

FAR = Path(VOLUME)
MADE = call("Write", {"file_path": "new.txt", "content": "made\n"})
WAIT = call("Bash", {"command": "touch began; while [ ! -e go ]; do sleep 0.05; done"})


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[PodmanEngine]:
    # It has sockets in there: with a longer path it finds no container again that has ended.
    with (
        tempfile.TemporaryDirectory(prefix="pod-", ignore_cleanup_errors=True) as folder,
        podman_engine(Path(folder)) as engine,
    ):
        yield engine


@pytest.fixture
def engine(shared_engine: PodmanEngine, monkeypatch: pytest.MonkeyPatch) -> PodmanEngine:
    """Give an engine without containers and volumes."""
    monkeypatch.setenv("PATH", f"{shared_engine.bin}:{os.environ['PATH']}")
    if found := shared_engine.containers():
        shared_engine("rm", "--force", "--time=0", *found)
    if shared_engine.volume.exists():
        shared_engine("volume", "rm", "prong-box")
    return shared_engine


async def check(place: Path, target: dict[str, Any]) -> tuple[Checkup, ...]:
    return await check_remote(str(place), settings=remote_settings(FAR, **target))


def broken(found: tuple[Checkup, ...]) -> str:
    (one,) = [one for one in found if one.state == "broken"]
    return one.text


async def test_a_container_does_the_work_of_forks(
    world: Worlds, monkeypatch: pytest.MonkeyPatch, engine: PodmanEngine
) -> None:
    """Forks share one container, keep to what the target names, and come back as branches.

    The engine writes down nothing of what they say, and hands on no proxy of this machine.
    """
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.invalid:1")
    script = Script(
        [forks("P1", "P2", isolation="remote"), say("waiting"), say("done"), say("done")],
        {
            "P1": [call("Read", {"file_path": "sub/b.txt"}), MADE, WAIT, report("one")],
            "P2": [call("Bash", {"command": "env; cat /proc/1/environ"}), report("two")],
        },
    )
    async with remote_world(world, script, FAR, target=engine.target) as (w, repo):
        before, logged = repo.fingerprint(), ""
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await until(lambda: list(engine.volume.glob("*/.prong/worktrees/*/began")))
            (box,) = engine.containers()
            logged = engine("inspect", "--format={{.HostConfig.LogConfig.Type}}", box)
            (began,) = engine.volume.glob("*/.prong/worktrees/*/began")
            (began.parent / "go").touch()

        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 2
        assert logged == "none"
        told = [one.text for one in w.told(ToolFinished)]
        assert any("two, and more" in text for text in told)
        assert any("HOME=/root" in text for text in told)
        assert not any("secret@proxy" in text for text in told)
        assert repo.fingerprint() == before
        assert (await merge(LocalHost(str(w.root)))).steps[0].status == "merged"
        assert (w.root / "new.txt").read_text() == "made\n"
        assert not copies(engine.volume)
    assert engine.containers() == []


@pytest.mark.parametrize("how", ["container", "client"])
async def test_a_container_that_is_killed(world: Worlds, engine: PodmanEngine, how: str) -> None:
    """Its task fails once with the reason, what it did comes back, and a message goes on.

    If what has started it is killed, it ends by itself.
    """
    script = Script(
        [say("hello")], {"Directive:\nP1": [MADE, WAIT, report("one")]}, forever=say("ok")
    )
    async with remote_world(world, script, FAR, target=engine.target) as (w, repo):
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["P1"], isolation="remote")
        await until(lambda: list(engine.volume.glob("*/.prong/worktrees/*/began")))
        (box,) = engine.containers()
        if how == "container":
            engine("kill", "--signal=KILL", box)
        else:
            subprocess.run(["pkill", "-KILL", "-P", str(os.getpid()), "-x", "podman"], check=True)
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "before its work was done; what it had done is kept" in child.run.detail
        assert [one.status for one in w.told(TaskFinished) if one.task_id == task] == ["failed"]
        assert repo.git("show", f"{w.told(WorkKept)[-1].branch}:new.txt") == "made"
        assert not copies(engine.volume)
        await until(lambda: box not in engine.containers())

        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()
        assert (child.status, child.run.detail) == ("completed", "")


def test_a_session_that_is_killed_and_resumed(tmp_path: Path, engine: PodmanEngine) -> None:
    """Both forks go on where they were, in another container, and none is left."""
    repo = make_repo(tmp_path / "project")
    driver = DRIVER.replace('"/usr/bin:/bin"', repr(os.environ["PATH"]))
    settings = remote_settings(FAR, **engine.target)

    def start(how: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", driver, server.url, str(tmp_path), how, settings]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with ServerProcess(working("../../go")) as server:
        process = start("new")
        deadline = time.monotonic() + 60
        while len(list(engine.volume.glob("*/.prong/worktrees/*/done.txt"))) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.kill()
        process.communicate()
        for folder in engine.volume.glob("*/.prong"):
            (folder / "go").touch()
        again = start("resumed")
        output, errors = again.communicate(timeout=120)
        assert again.returncode == 0, errors
        found: list[Any] = msgspec.json.decode(output.splitlines()[-1])

    assert [status for status, _, _ in found] == ["completed"] * 2, found
    for _, _, branch in found:
        # At most the call that was cut off has run in part.
        assert repo.git("show", f"{branch}:done.txt").split() in (["x"] * 3, ["x"] * 2)
    assert not copies(engine.volume)
    deadline = time.monotonic() + 60
    # The one of the session that was killed ends in its own time.
    while engine.containers():
        assert time.monotonic() < deadline, engine("ps", "--all")
        time.sleep(0.05)


async def test_what_is_missing_is_said(tmp_path: Path, engine: PodmanEngine) -> None:
    """No image, and a volume that its user cannot write: each with what to do."""
    good = engine.target
    assert "'nothing:1' is not on this machine" in broken(
        await check(tmp_path, {**good, "image": "nothing:1"})
    )
    found = await check(tmp_path, good)
    assert [one.text for one in found if one.state == "broken"] == []
    assert found[-1].topic == "work"
    other = {**good, "options": [*good["options"], "--user=1000"]}
    assert "cannot write in /var/prong" in broken(await check(tmp_path, other))
    assert engine.containers() == []


def test_every_byte_arrives(engine: PodmanEngine) -> None:
    """Bytes that are keys at a terminal neither wait for others nor end the line."""
    argv = ContainerLauncher().argv("box", read_target("box", engine.target))
    echo = "import os\nwhile data := os.read(0, 9): os.write(1, data)"
    words = [*argv[: -len(WORKER)], "-c", echo]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as line:
        assert line.stdin is not None
        assert line.stdout is not None
        for data in (b"a", b"\x10", b"\x11", b"\x10\x11", b"b"):
            line.stdin.write(data)
            came = b""
            while len(came) < len(data):
                assert select.select([line.stdout], [], [], 20)[0], f"{data!r} is held back"
                came += line.stdout.read(9)
            assert came == data
        line.stdin.close()
        assert line.wait(30) == 0
