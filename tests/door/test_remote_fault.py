"""Whatever happens to a worker on another machine: one failed task, a reason, and the work kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from prong.command import Accepted, MergeBranches
from prong.event import LineChanged, TaskFinished, ToolFinished, ToolStarted, Warned, WorkKept
from prong.face.draw.tree import Aspect, draw_tree
from prong.face.line import describe_work
from prong.testing import Script, World, Worlds, call, report, say
from prong.testing.ssh_host import HAS_SSH, ssh_host
from shared.remote import copies, remote_world
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R3")]

MADE = call("Write", {"file_path": "new.txt", "content": "made\n"})
WAIT = call("Bash", {"command": "touch began; while [ ! -e go ]; do sleep 0.05; done"})


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def workers(far: Path) -> list[int]:
    """Give the workers that hold a lock on a workspace, by git's own word."""
    found: list[int] = []
    for lock in far.glob("*/.git/worktrees/*/locked"):
        words = lock.read_text().split()
        found.append(int(words[words.index("process") + 1]))
    return found


def is_alive(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def working(far: Path) -> list[int]:
    """Give the processes that work in a workspace."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "cwd").readlink().is_relative_to(far):
                found.append(int(place.name))
    return [pid for pid in found if is_alive(pid)]


async def started(w: World, far: Path) -> tuple[str, int]:
    """Start a fork that has written a file and waits; gives its task, and its worker."""
    await w.session.run("Hi")
    (task,) = await w.session.start_forks(["P1"], isolation="remote")
    await until(lambda: list(far.glob("*/.prong/worktrees/*/began")))
    # What a line is cut before it has brought is not known here, and ends nowhere.
    await until(lambda: any(one.name == "Bash" for one in w.told(ToolStarted)))
    (worker,) = workers(far)
    return task, worker


def script(*more: Any) -> Script:
    return Script(
        [say("hello")], {"Directive:\nP1": [MADE, WAIT, *more, report("one")]}, forever=say("ok")
    )


async def test_a_worker_that_is_killed(world: Worlds, tmp_path: Path) -> None:
    """Its task fails once with the reason, what it did comes back, and a message goes on."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, repo):
        task, worker = await started(w, far)
        os.kill(worker, signal.SIGKILL)
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "before its work was done; what it had done is kept" in child.run.detail
        ended = [one.status for one in w.told(TaskFinished) if one.task_id == task]
        assert ended == ["failed"]
        assert repo.git("show", f"{w.told(WorkKept)[-1].branch}:new.txt") == "made"
        assert not copies(far)

        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()
        assert (child.status, child.run.detail) == ("completed", "")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    if not HAS_SSH:
        pytest.skip("there is no sshd here: openssh-server")
    with ssh_host(tmp_path / "ssh") as host:
        monkeypatch.setenv("PATH", f"{host.bin}:{os.environ['PATH']}")
        yield {"launcher": "ssh", "host": host.name, "python": sys.executable}


def cut() -> None:
    """Kill what carries the bytes."""
    words = ["pgrep", "-x", "-P", str(os.getpid()), "ssh"]
    for pid in subprocess.run(words, capture_output=True, check=True).stdout.split():
        os.kill(int(pid), signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


@pytest.mark.parametrize("how", ["line", "line, unheard", "worker"])
async def test_a_line_that_is_cut(
    world: Worlds, tmp_path: Path, ssh: dict[str, str], how: str
) -> None:
    """A new run takes it up by itself, also if the old worker hears nothing of it for a while.

    The call that was cut off is reported as such and is not run again. To ssh a worker that was
    killed over there is no different from that.
    """
    far = tmp_path / "far"
    async with remote_world(world, script(), far, target=ssh) as (w, repo):
        task, worker = await started(w, far)
        login, lives = parent_of(worker), how == "line, unheard"
        if lives:
            os.kill(login, signal.SIGSTOP)
        if how == "worker":
            os.kill(worker, signal.SIGKILL)
        else:
            cut()
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert (child.status, child.run.detail) == ("completed", "")
        assert [one.state for one in w.told(LineChanged)] == ["cut", "open"]
        assert [one.status for one in w.told(TaskFinished) if one.task_id == task] == ["completed"]
        ended = [one for one in w.told(ToolFinished) if one.name == "Bash"]
        assert [one.interrupted for one in ended] == [True]
        assert any("interrupted: the call was stopped" in str(body) for body in w.bodies())
        assert child.spec.lease == 4
        assert repo.git("show", f"{w.told(WorkKept)[-1].branch}:new.txt") == "made"
        assert not copies(far)
        if lives:
            assert is_alive(worker)
            os.kill(login, signal.SIGCONT)
        await until(lambda: not is_alive(worker))


async def test_a_line_that_is_cut_for_good(
    world: Worlds, tmp_path: Path, ssh: dict[str, str]
) -> None:
    """A machine that does not come back fails the task once, and the work is kept there.

    If it does after all, a message brings the work, and nothing tells of a cut line any more.
    """
    far = tmp_path / "far"
    async with remote_world(world, script(), far, target={**ssh, "patience": 1}) as (w, repo):
        task, _ = await started(w, far)
        folder = Path(os.environ["PATH"].partition(":")[0])
        program(folder / "gone", "exit 255")
        (folder / "ssh").rename(folder / "kept")
        (folder / "gone").replace(folder / "ssh")
        cut()
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "it could not be reached again for 1 seconds" in child.run.detail
        assert [one.status for one in w.told(TaskFinished) if one.task_id == task] == ["failed"]
        assert w.told(WorkKept)[-1].path == f"box:{copies(far)[0]}"
        assert (copies(far)[0] / "new.txt").exists()
        assert w.session.view().agents[child.agent.path].line == "the line to box was cut"

        (folder / "kept").replace(folder / "ssh")
        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()
        assert repo.git("show", "prong/fork-1:new.txt") == "made"
        agent = w.session.view().agents[child.agent.path]
        assert (agent.line, agent.away, agent.kept) == ("", False, True)


async def test_a_worker_that_has_lost_its_lease(world: Worlds, tmp_path: Path) -> None:
    """One that hears of a later run stops by itself, its commands with it."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far) as (w, _):
        _, worker = await started(w, far)
        (lease,) = far.glob("*/.prong/lease/*/*")
        assert lease.name == "2"
        lease.with_name("9").touch()
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "a later run than number 2 has begun" in child.run.detail
        await until(lambda: not working(far))
        # The worker is there for others.
        assert is_alive(worker)
        # This session's numbers are too low now: nothing of the workspace is touched.
        (kept,) = w.told(WorkKept)
        assert kept.path == f"box:{copies(far)[0]}"
        assert (copies(far)[0] / "new.txt").exists()


@pytest.mark.parametrize("lost", [False, True])
async def test_work_that_cannot_come_back_is_kept_there(
    world: Worlds, tmp_path: Path, *, lost: bool
) -> None:
    """A machine that is away at the end keeps the work; when it is there again, it comes.

    If it has lost it meanwhile, the user and the agent are told, which begins anew.
    """
    far, gone = tmp_path / "far", tmp_path / "gone"
    line = f'[ -e {gone} ] && {{ echo "no route" >&2; exit 255; }}; exec {sys.executable} "$@"'
    python = program(tmp_path / "python", line)
    async with remote_world(world, script(), far, target={"python": python}) as (w, repo):
        task, worker = await started(w, far)
        gone.write_text("")
        os.kill(worker, signal.SIGKILL)
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        (kept,) = w.told(WorkKept)
        (folder,) = copies(far)
        assert (child.status, kept.path, kept.away) == ("failed", f"box:{folder}", True)
        assert any("it has not come back: box: " in one.text for one in w.told(Warned))
        assert describe_work(kept) == (
            f"the work of {task} is still on box, in {folder}: once box can be reached, a message "
            f"to {task} brings it as prong/fork-1"
        )
        rows = [row.text for row in draw_tree(w.session.view(), Aspect(width=200))]
        assert any("on box: its work is still there; failed" in row for row in rows)
        assert f"[Its work is still on another machine, in box:{folder}" in str(w.bodies())
        assert "Not all of this is committed" not in str(w.bodies())
        assert (folder / "new.txt").read_text() == "made\n"

        merging = await w.session.send(MergeBranches())
        assert isinstance(merging, Accepted)
        told = f"the work of {task} is still on box, in {folder}: wait until it has ended; if it "
        assert f"prong/fork-1: away\n  {told}" in merging.text
        assert f"'/tell {task} TEXT' in 'prong --resume {w.session.id}'" in merging.text

        gone.unlink()
        if lost:
            shutil.rmtree(far)
        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()

        assert child.status == "completed"
        assert not copies(far)
        told = [one.text for one in w.told(Warned)]
        assert (
            "its workspace on box is gone, and what had not come back of it is lost" in told
        ) is lost
        assert ("The workspace that you had before is gone" in str(w.bodies())) is lost
        assert "refs/prong/away" not in repo.git("for-each-ref")
        if not lost:
            assert repo.git("show", "prong/fork-1:new.txt") == "made"


async def test_a_machine_that_is_not_there(world: Worlds, tmp_path: Path) -> None:
    """The task fails with what the program said, and no name stays taken."""
    python = program(tmp_path / "python", 'echo "no route to it" >&2; exit 255')
    async with remote_world(world, script(), tmp_path / "far", target={"python": python}) as (
        w,
        repo,
    ):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "no route to it" in found.detail
        assert repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""


LIAR = """
import sys
from prong.host.remote_workspace import Harvest, PlacedWorkspace
from prong.host.sandbox import Ability
from prong.team.message import ChannelClosed, Ready, frame
from prong.team.workspace_message import *

fault = sys.argv[1]
def say(message, channel=1):
    sys.stdout.buffer.write(frame(message, channel)); sys.stdout.buffer.flush()
def hear():
    size = int.from_bytes(sys.stdin.buffer.read(8)[:4])
    return sys.stdin.buffer.read(size)
hear()
say(Ready(), 0)
order = hear()
if fault == "noise":
    sys.stdout.buffer.write(b"Last login: today, and a long line of other words"); sys.exit()
if fault == "wrong word":
    say(WorkspaceLeft(gone=True))
if fault == "unknown commits":
    say(CommitsKnown(commits=("0" * 40,)))
    while b"bundlesent" not in hear(): pass
    say(ChannelClosed(channel=1, why="the bundle was whole"), 0)
if fault == "ends":
    sys.exit(3)
sys.stdin.buffer.read()
"""


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("noise", "what it sends is not of the protocol"),
        ("wrong word", "it said WorkspaceLeft in the wrong place"),
        ("unknown commits", "the bundle was whole"),
        ("ends", "it ended with code 3"),
    ],
)
async def test_a_far_side_that_lies(world: Worlds, tmp_path: Path, fault: str, why: str) -> None:
    """Whatever a machine says while a workspace is made, the task fails with the reason."""
    (tmp_path / "liar.py").write_text(LIAR)
    python = program(tmp_path / "python", f"exec {sys.executable} {tmp_path}/liar.py '{fault}'")
    far = tmp_path / "far"
    async with remote_world(world, script(), far, target={"python": python}) as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert why in found.detail
        assert "inside Prong" not in found.detail
        assert repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""
