"""A repository's commits travel to a workspace elsewhere, and what was done there comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from prong.errors import GitFailed, NotPossibleNow
from prong.host import LocalHost
from prong.host.away_work import AwayWork
from prong.host.bundle import Shipment, check_sendable, mark_away, offer, pack, settle, ship, unpack
from prong.host.git import Git, locate
from prong.host.merge import merge
from prong.host.remote_workspace import Harvest, PlacedWorkspace, RemoteWorkspace
from prong.host.worktree import Worktree, reserve, sweep
from prong.testing.repository import Repo, make_repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1", "R4")]

WORK = AwayWork(target="box", folder="~/copies", task="fork-1", session="20260101-x")


class Machine:
    """Both sides: a project, and a folder that stands for another machine."""

    def __init__(self, folder: Path) -> None:
        self.repo: Repo = make_repo(folder / "project")
        self.host = LocalHost(str(self.repo.path))
        self.git = Git(self.host, str(self.repo.path))
        self.far = folder / "far"
        self.file = str(folder / "parcel")

    async def shipment(self, worktree: Worktree) -> Shipment:
        return await ship(self.git, await locate(self.host), worktree)

    def workspace(self, shipment: Shipment) -> RemoteWorkspace:
        return RemoteWorkspace("~/work", str(self.far), shipment)

    async def send(self, worktree: Worktree) -> tuple[RemoteWorkspace, PlacedWorkspace, int]:
        """Make a workspace; gives how many bytes it took."""
        shipment = await self.shipment(worktree)
        there = self.workspace(shipment)
        known = await there.open(await offer(self.git, shipment.start))
        packed = await pack(self.git, worktree.slug, shipment.start, known, self.file)
        size = Path(self.file).stat().st_size if packed else 0
        if packed:
            Path(self.file).replace(there.bundle)
        return there, await there.place(bundled=packed), size

    async def back(self, there: RemoteWorkspace, worktree: Worktree) -> Harvest:
        found = await there.harvest(worktree.snapshot_commit)
        if found.tip:
            await unpack(self.git, worktree, there.bundle, found.tip)
        await settle(self.git, worktree, unchanged=not found.tip)
        await there.leave(remove=not found.why)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_uncommitted_files_go_along(machine: Machine) -> None:
    """The workspace holds the files as they are; nothing of the user's is touched."""
    machine.repo.write("new.txt", "not committed\n")
    before = machine.repo.fingerprint()
    worktree = await reserve(machine.host, "task")
    _, placed, _ = await machine.send(worktree)

    assert Path(placed.path, "new.txt").read_text() == "not committed\n"
    assert placed.fresh
    assert machine.repo.fingerprint() == before


@pytest.mark.spec("R3")
async def test_a_copy_that_was_being_made_is_made_anew(machine: Machine) -> None:
    """A kill in the midst of `git init` leaves a folder that is no repository yet."""
    worktree = await reserve(machine.host, "task")
    shipment = await machine.shipment(worktree)
    half = machine.far / "work" / shipment.key / ".git"
    (half / "objects").mkdir(parents=True)
    (half / "config.lock").write_text("")
    _, placed, _ = await machine.send(worktree)

    assert Repo(Path(placed.path)).git("log", "--format=%H", "-1") == shipment.start
    assert not half.parent.joinpath(".prong/fresh/.git").exists()


@pytest.mark.spec("R3")
@pytest.mark.parametrize("known", [True, False])
async def test_a_workspace_that_was_being_made_is_made_anew(machine: Machine, known: bool) -> None:
    """A kill while git writes the files leaves some out, which nobody must take for deleted."""
    await machine.send(await reserve(machine.host, "other"))
    worktree = await reserve(machine.host, "task")
    shipment = await machine.shipment(worktree)
    copy = Repo(machine.far / "work" / shipment.key)
    half = copy.path / ".prong/worktrees/task"
    copy.git("update-ref", "refs/prong/making/00000000-1/task", shipment.start)
    copy.git(
        "worktree", "add", "-q", "--no-checkout", "-B", "prong/task", str(half), shipment.start
    )
    (half / "a.txt").write_text("ha")
    if not known:
        shutil.rmtree(copy.path / ".git/worktrees/task")
    there, placed, _ = await machine.send(worktree)

    assert placed.fresh
    assert Repo(Path(placed.path)).git("status", "--porcelain") == ""
    assert "making" not in copy.git("for-each-ref")
    assert (await machine.back(there, worktree)).tip == ""


async def test_work_comes_back_as_a_branch(machine: Machine) -> None:
    """Commits and what was left uncommitted arrive as a branch that a merge understands."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    far = Repo(Path(placed.path))
    far.write("done.txt", "one\n")
    far.git("add", "-A")
    far.git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "Do it")
    far.write("left.txt", "two\n")
    before = machine.repo.fingerprint()

    found = await machine.back(there, worktree)

    assert len(found.commits) == 2
    assert found.files == ("done.txt", "left.txt")
    assert machine.repo.fingerprint() == before
    assert not Path(placed.path).exists()
    report = await merge(machine.host, ["task"])
    assert [step.status for step in report.steps] == ["merged"]
    assert (machine.repo.path / "left.txt").read_text() == "two\n"


async def test_the_base_goes_once(machine: Machine) -> None:
    """A second child of the same commit costs nothing, one of a changed file little."""
    machine.repo.write("large.bin", "".join(str(n * n) for n in range(200_000)))
    machine.repo.commit()
    _, _, first = await machine.send(await reserve(machine.host, "one"))
    _, second, same = await machine.send(await reserve(machine.host, "two"))
    machine.repo.write("small.txt", "a change\n")
    _, third, less = await machine.send(await reserve(machine.host, "three"))

    assert first > 300_000
    assert same == 0
    assert 0 < less < 10_000
    assert Path(second.path, "large.bin").exists()
    assert Path(third.path, "small.txt").read_text() == "a change\n"


async def test_nothing_done_leaves_nothing(machine: Machine) -> None:
    """An unchanged workspace vanishes on both sides, and its name is free."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)

    found = await machine.back(there, worktree)

    assert (found.tip, found.why) == ("", "")
    assert not Path(placed.path).exists()
    assert machine.repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""


async def test_what_cannot_travel_is_kept_there(machine: Machine) -> None:
    """Ignored files and commits on other branches stay where they are, and it is said why."""
    machine.repo.write(".gitignore", "data/\n")
    machine.repo.commit()
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    Repo(Path(placed.path)).write("data/result.csv", "1\n")

    found = await machine.back(there, worktree)

    assert "ignored files of its own, such as data/result.csv" in found.why
    assert Path(placed.path, "data/result.csv").exists()


async def test_a_workspace_is_found_again(machine: Machine) -> None:
    """What was left in one by a worker that died is there for the next; a name may be reused."""
    worktree = await reserve(machine.host, "task")
    _, placed, _ = await machine.send(worktree)
    Path(placed.path, "half.txt").write_text("half\n")

    there, again, _ = await machine.send(worktree)
    assert (again.path, again.fresh) == (placed.path, False)
    assert (await machine.back(there, worktree)).files == ("half.txt",)

    there, fresh, size = await machine.send(worktree)
    assert fresh.fresh
    assert size < 10_000
    assert Path(fresh.path, "half.txt").read_text() == "half\n"


async def test_a_repository_without_commits_can_be_sent(tmp_path: Path) -> None:
    """Its files go as one commit of their own."""
    machine = Machine(tmp_path)
    machine.repo.git("update-ref", "-d", "HEAD")
    _, placed, _ = await machine.send(await reserve(machine.host, "task"))

    names = {path.name for path in Path(placed.path).iterdir()} - {".git"}
    assert names == {path.name for path in machine.repo.path.iterdir()} - {".git", ".prong"}


async def test_what_cannot_be_sent_is_refused(machine: Machine, tmp_path: Path) -> None:
    """A shallow repository, files in git LFS, a branch in the way: refused before anything is sent."""
    await check_sendable(machine.git)
    machine.repo.git("branch", "prong")
    with pytest.raises(NotPossibleNow, match="git branch -m prong NAME"):
        await check_sendable(machine.git)
    machine.repo.git("branch", "-D", "prong")

    machine.repo.write(".gitattributes", "*.psd filter=lfs\n")
    machine.repo.write("art.psd", "x")
    with pytest.raises(NotPossibleNow, match=r"git LFS, such as art\.psd"):
        await check_sendable(machine.git)

    machine.repo.git("clone", "-q", "--depth=1", f"file://{machine.repo.path}", str(tmp_path / "s"))
    shallow = LocalHost(str(tmp_path / "s"))
    with pytest.raises(NotPossibleNow, match="--unshallow"):
        await check_sendable(Git(shallow, shallow.root))


async def test_what_comes_back_is_checked(machine: Machine) -> None:
    """A bundle that is damaged, or of another commit than was announced, moves no branch."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    Path(placed.path, "new.txt").write_text("new\n")
    found = await there.harvest(worktree.snapshot_commit)
    data = Path(there.bundle).read_bytes()
    Path(machine.file).write_bytes(data[:-30] + bytes(30))

    with pytest.raises(GitFailed):
        await unpack(machine.git, worktree, machine.file, found.tip)
    assert machine.repo.git("for-each-ref", "refs/heads/prong") == ""


async def test_its_name_is_kept_while_it_is_away(machine: Machine) -> None:
    """A sweep of names that nobody uses spares those of workspaces on other machines."""
    worktree = await reserve(machine.host, "task")
    await reserve(machine.host, "forgotten")
    await mark_away(machine.git, worktree, WORK)
    folder = machine.repo.path / ".git/refs/prong/base"
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    await sweep(machine.host)

    assert [path.name for path in folder.iterdir()] == ["task"]


def leave_lock(path: Path) -> Path:
    """Put a lock there as a git leaves it that was killed some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    os.utime(path, (1, 1))
    return path


async def do_work(machine: Machine, worktree: Worktree) -> Harvest:
    """Have a file made in a workspace, and what was done taken back as a worker does."""
    await mark_away(machine.git, worktree, WORK)
    there, placed, _ = await machine.send(worktree)
    Path(placed.path, "new.txt").write_text("new\n")
    async with there.held():
        return await machine.back(there, worktree)


@pytest.mark.spec("R3")
async def test_locks_that_a_killed_git_left_there_block_nobody(machine: Machine) -> None:
    """The copy is used by all children to come, so none of git's locks may stay on it."""
    await machine.send(await reserve(machine.host, "other"))
    worktree = await reserve(machine.host, "task")
    top = machine.far / "work" / (await machine.shipment(worktree)).key
    refs = ("prong/base/task", "prong/making/00000000-1/task", "heads/prong/task")
    names = ("config", "packed-refs", "shallow", *(f"refs/{ref}" for ref in refs))
    locks = [leave_lock(top / f".git/{name}.lock") for name in names]
    locks.append(leave_lock(top / ".prong/task.bundle.lock"))
    found = await do_work(machine, worktree)

    assert (found.files, found.why) == (("new.txt",), "")
    assert [str(lock) for lock in locks if lock.exists()] == []


@pytest.mark.spec("R3")
async def test_locks_in_a_workspace_keep_no_work_back(machine: Machine) -> None:
    """A child's own git was killed with it; whoever takes the workspace over can commit."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    Path(placed.path, "new.txt").write_text("new\n")
    for name in ("index", "HEAD"):
        leave_lock(Path(placed.git, f"{name}.lock"))
    async with there.held():
        found = await machine.back(there, worktree)

    assert (found.files, found.why) == (("new.txt",), "")


@pytest.mark.spec("R3")
async def test_locks_on_a_childs_refs_at_home_block_nobody(machine: Machine) -> None:
    """Git was killed here as it changed a ref that is the child's alone, or wrote a bundle."""
    before = machine.repo.fingerprint()
    worktree = await reserve(machine.host, "task")
    refs = machine.repo.path / ".git/refs"
    kinds = ("prong/remote", "prong/base", "heads/prong")
    locks = [leave_lock(refs / kind / "task.lock") for kind in kinds]
    leave_lock(Path(f"{machine.file}.lock"))
    found = await do_work(machine, worktree)

    assert machine.repo.git("rev-parse", "refs/heads/prong/task") == found.tip
    assert [str(lock) for lock in locks if lock.exists()] == []
    assert machine.repo.fingerprint() == before


LEAVE = """
import sys, anyio, msgspec
from prong.host.bundle import Shipment
from prong.host.remote_workspace import RemoteWorkspace
shipment = msgspec.json.decode(sys.argv[2], type=Shipment)
anyio.run(lambda: RemoteWorkspace("~/work", sys.argv[1], shipment).leave(remove=True))
"""


def leave_and_die(machine: Machine, shipment: Shipment, gone: str) -> int:
    """Leave a workspace by a process that is killed when git has removed this much of it."""
    program = machine.far / "bin/git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *"worktree remove "*) rm {gone}; exec kill -9 $PPID;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    words = (str(machine.far), msgspec.json.encode(shipment).decode())
    return subprocess.run([sys.executable, "-c", LEAVE, *words], env=env, check=False).returncode


@pytest.mark.spec("R3", "R4")
@pytest.mark.parametrize("gone", ["a.txt", ".git"])
async def test_a_workspace_that_was_being_removed_is_no_work(machine: Machine, gone: str) -> None:
    """Killed while git removes the files, those that are gone never come back as deleted."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    Path(placed.path, "new.txt").write_text("new\n")
    found = await there.harvest(worktree.snapshot_commit)
    await unpack(machine.git, worktree, there.bundle, found.tip)
    shipment = await machine.shipment(worktree)
    assert leave_and_die(machine, shipment, f"{placed.path}/{gone}") == -9

    with pytest.raises(NotPossibleNow, match="not there any more"):
        async with machine.workspace(shipment).held():
            pass
    there, again, _ = await machine.send(worktree)
    assert again.fresh
    assert Repo(Path(again.path)).git("status", "--porcelain") == ""
    assert (await machine.back(there, worktree)).files == ("new.txt",)
    assert "making" not in Repo(Path(placed.parent)).git("for-each-ref")


@pytest.mark.spec("R3")
async def test_a_workspace_goes_on_from_what_has_arrived(machine: Machine) -> None:
    """Whoever is killed in its second piece of work finds it again: it is no other child's."""
    worktree = await reserve(machine.host, "task")
    there, placed, _ = await machine.send(worktree)
    Path(placed.path, "one.txt").write_text("1\n")
    found = await there.harvest(worktree.snapshot_commit)
    await unpack(machine.git, worktree, there.bundle, found.tip)
    await machine.send(worktree)
    Path(placed.path, "two.txt").write_text("2\n")
    await there.harvest(worktree.snapshot_commit)

    there, again, _ = await machine.send(worktree)
    assert not again.fresh
    assert (await machine.back(there, worktree)).files == ("one.txt", "two.txt")


@pytest.mark.spec("R3")
async def test_a_workspace_that_somebody_removed_is_made_anew(machine: Machine) -> None:
    """Its run was killed and has left git's lock on it, which keeps no folder in being."""
    worktree = await reserve(machine.host, "task")
    _, placed, _ = await machine.send(worktree)
    Repo(Path(placed.parent)).git("worktree", "lock", placed.path)
    shutil.rmtree(placed.path)
    _, again, _ = await machine.send(worktree)

    assert again.fresh
    assert Path(again.path, "a.txt").exists()


@pytest.mark.spec("R3")
async def test_a_name_that_was_swept_is_taken_again(machine: Machine) -> None:
    """Killed before it was marked as away, and resumed much later, a child can be sent still."""
    machine.repo.write("new.txt", "not committed\n")
    worktree = await reserve(machine.host, "task")
    os.utime(machine.repo.path / ".git/refs/prong/base/task", (1, 1))
    await sweep(machine.host)
    await mark_away(machine.git, worktree, WORK)
    _, placed, _ = await machine.send(worktree)
    assert Path(placed.path, "new.txt").exists()

    machine.repo.git("update-ref", "refs/prong/base/task", "HEAD")
    with pytest.raises(NotPossibleNow, match="another agent's by now"):
        await mark_away(machine.git, worktree, WORK)


async def test_what_was_received_of_a_pack_is_not_kept(machine: Machine) -> None:
    """A git that was killed as it received leaves a file as large as the repository."""
    _, placed, _ = await machine.send(await reserve(machine.host, "task"))
    packs = Path(placed.common, "objects/pack")
    packs.joinpath("tmp_pack_young").write_text("")
    leave_lock(packs / "tmp_pack_old")
    await machine.send(await reserve(machine.host, "other"))

    assert [one.name for one in packs.glob("tmp_*")] == ["tmp_pack_young"]


async def test_a_later_run_takes_the_lease(machine: Machine) -> None:
    """A worker with a lower number is refused, and one that holds it hears of a higher one."""
    there = machine.workspace(await machine.shipment(await reserve(machine.host, "task")))
    first, second = there.lease(1), there.lease(2)
    first.take()
    assert not first.lost
    second.take()

    assert first.lost
    assert not second.lost
    with pytest.raises(NotPossibleNow, match="a later run"):
        first.take()
