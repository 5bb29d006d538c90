"""What becomes of worktrees with real git: kept, removed, swept, left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.host import LocalHost
from prong.host.worktree import Kept, Removed, create, finish, leftovers, notice, sweep
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door]

DEAD = "prong: in use by process 999999999 (started 1) on " + os.uname().nodename


@pytest.mark.spec("W4")
async def test_work_is_kept(repo: Repo, host: LocalHost) -> None:
    """A commit, a change, a new file: the worktree stays, unlocked, and what was done is told."""
    repo.write("a.txt", "uncommitted\n")
    made = [await create(host, name) for name in ("commit", "change", "new")]
    assert repo.git("worktree", "list", "--porcelain").count("locked prong: in use") == 3
    places = [Path(worktree.path) for worktree in made]
    (places[0] / "src/b.txt").write_text("B\n")
    own = repo.commit(cwd=places[0])
    (places[1] / "a.txt").write_text("changed\n")
    (places[2] / "dir").mkdir()
    (places[2] / "dir/né w.txt").write_text("n\n")

    kept = [await finish(host, worktree) for worktree in made]

    for worktree, outcome in zip(made, kept, strict=True):
        assert isinstance(outcome, Kept)
        assert outcome.path == worktree.path
        assert outcome.branch == worktree.branch
        assert Path(worktree.path).is_dir()
    commit, change, new = kept
    assert isinstance(commit, Kept)
    assert isinstance(change, Kept)
    assert isinstance(new, Kept)
    assert (commit.commits, commit.files, commit.uncommitted) == ((own,), ("src/b.txt",), False)
    assert (change.commits, change.files, change.uncommitted) == ((), ("a.txt",), True)
    assert (new.commits, new.files, new.uncommitted) == ((), ("dir/né w.txt",), True)
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


@pytest.mark.spec("W4")
async def test_an_unchanged_worktree_goes_with_its_branch(repo: Repo, host: LocalHost) -> None:
    """Nothing is left of it, although caches were made in it."""
    repo.write(".gitignore", "__pycache__/\n*.pyc\n")
    repo.commit()
    made = await create(host, "x")
    Path(made.path, "__pycache__").mkdir()
    Path(made.path, "__pycache__/m.pyc").write_text("cache")

    assert await finish(host, made) == Removed(made.path, "prong/x")

    assert not Path(made.path).exists()
    assert "prong" not in repo.git("for-each-ref")
    assert repo.git("worktree", "list").count("\n") == 0


@pytest.mark.spec("W4")
async def test_work_that_does_not_show_is_kept(repo: Repo, host: LocalHost) -> None:
    """A detached commit, one that was reset, another branch, an ignored note: none is deleted."""
    repo.write(".gitignore", "*.notes\n")
    repo.commit()
    made = {n: await create(host, n) for n in ("detached", "reset", "other", "ignored")}
    for name in ("detached", "reset"):
        path = made[name].path
        if name == "detached":
            repo.git("checkout", "-q", "--detach", cwd=path)
        Path(path, "a.txt").write_text("work\n")
        repo.commit(cwd=path)
    repo.git("reset", "-q", "--hard", "HEAD~", cwd=made["reset"].path)
    repo.git("checkout", "-qb", "elsewhere", cwd=made["other"].path)
    Path(made["ignored"].path, "my.notes").write_text("notes")

    for worktree in made.values():
        assert isinstance(await finish(host, worktree), Kept), worktree.slug
        assert Path(worktree.path).is_dir()


@pytest.mark.spec("W4")
async def test_a_kill_in_the_midst_of_removing_leaves_nothing(repo: Repo, host: LocalHost) -> None:
    """One that is unlocked and has no work in it was just being removed; the next sweep does it."""
    made = await create(host, "half-removed")
    repo.git("worktree", "unlock", made.path)

    assert [left.slug for left in await sweep(host)] == ["half-removed"]
    assert not Path(made.path).exists()
    assert repo.git("branch", "--list", made.branch) == ""


@pytest.mark.spec("W4")
async def test_a_branch_that_git_could_not_remove_goes_later(repo: Repo, host: LocalHost) -> None:
    """A lock that a killed git has left on a branch keeps it, and its base tells that it is empty."""
    made = await create(host, "x")
    folder = repo.path / ".git"
    lock = folder / "refs/heads/prong/x.lock"
    lock.touch()
    await finish(host, made)
    assert repo.git("branch", "--list", "prong/*") == "prong/x"

    lock.unlink()
    os.utime(folder / "refs/prong/base/x", (1, 1))
    await sweep(host)
    assert "prong" not in repo.git("for-each-ref")


@pytest.mark.spec("W4")
async def test_leftovers_are_swept_only_if_unchanged(repo: Repo, host: LocalHost) -> None:
    """After a crash, worktrees of a dead process are listed; those without work are removed."""
    made = {n: await create(host, n) for n in ("clean", "work", "lost", "live", "kept", "other")}
    Path(made["work"].path, "a.txt").write_text("work\n")
    Path(made["kept"].path, "a.txt").write_text("work\n")
    await finish(host, made["kept"])
    for name in ("clean", "work", "lost"):
        repo.git("worktree", "unlock", made[name].path)
        repo.git("worktree", "lock", "--reason", DEAD, made[name].path)
    repo.git("worktree", "unlock", made["other"].path)
    repo.git("worktree", "lock", "--reason", "mine", made["other"].path)
    repo.git("worktree", "add", "-q", str(repo.path.parent / "own"))
    subprocess.run(["rm", "-r", made["lost"].path], check=True)

    found = {left.slug: left for left in await leftovers(host)}
    swept = await sweep(host)

    assert {n: (f.crashed, f.missing, f.unchanged) for n, f in found.items()} == {
        "clean": (True, False, True),
        "work": (True, False, False),
        "lost": (True, True, True),
        "kept": (False, False, False),
    }
    assert [left.slug for left in swept] == ["clean", "lost"]
    branches = repo.git("branch", "--format=%(refname:short)").split()
    assert {b for b in branches if b.startswith("prong/")} == {
        f"prong/{n}" for n in ("work", "live", "kept", "other")
    }
    assert Path(made["work"].path, "a.txt").read_text() == "work\n"
    assert await sweep(host) == []


@pytest.mark.spec("W4")
async def test_a_broken_leftover_is_listed_and_left_alone(repo: Repo, host: LocalHost) -> None:
    """A worktree that git cannot read is not taken for an empty one."""
    broken, clean = [await create(host, name) for name in ("broken", "clean")]
    for made in (broken, clean):
        repo.git("worktree", "unlock", made.path)
        repo.git("worktree", "lock", "--reason", DEAD, made.path)
    Path(broken.path, ".git").write_text("gitdir: /nowhere\n")

    assert [left.slug for left in await sweep(host)] == ["clean"]
    assert Path(broken.path, "a.txt").exists()
    assert [left.unchanged for left in await leftovers(host)] == [False]


@pytest.mark.spec("W4")
@pytest.mark.parametrize("packed", [False, True])
async def test_names_that_were_taken_for_nothing(
    repo: Repo, host: LocalHost, *, packed: bool
) -> None:
    """A name whose worktree was never made is free again, once nobody can be about to use it."""
    head = repo.git("rev-parse", "HEAD")
    used, kept = [await create(host, name) for name in ("used", "kept")]
    Path(kept.path, "a.txt").write_text("work\n")
    await finish(host, kept)
    for name in ("bare", "begun", "work", "shown", "fresh"):
        repo.git("update-ref", f"refs/prong/base/{name}", head)
    repo.git("branch", "prong/begun")
    repo.git("branch", "prong/work", repo.git("commit-tree", "-m", "w", "-p", head, "HEAD^{tree}"))
    repo.git("worktree", "add", "-q", "-b", "prong/shown", str(repo.path.parent / "own"))
    folder = repo.path / ".git"
    if packed:
        repo.git("pack-refs", "--all")
        repo.git("update-ref", "-d", "refs/prong/base/fresh")
        repo.git("update-ref", "refs/prong/base/fresh", head)
    for file in (folder / "packed-refs", *(folder / "refs/prong/base").glob("*")):
        if file.exists() and file.name != "fresh":
            os.utime(file, (1, 1))

    assert await sweep(host) == []
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/prong/base", "refs/heads/prong")
    assert set(refs.split()) == {
        *(f"refs/prong/base/{name}" for name in ("used", "kept", "work", "shown", "fresh")),
        *(f"refs/heads/prong/{name}" for name in ("used", "kept", "work", "shown")),
    }
    assert (await create(host, "bare")).slug == "bare"
    assert Path(used.path, "a.txt").exists()


@pytest.mark.spec("W4")
async def test_a_killed_process_leaves_a_lock_that_is_known_as_dead(
    repo: Repo, host: LocalHost
) -> None:
    """What a process killed by -9 made is swept by the next one."""
    script = (
        "import anyio, os, sys\n"
        "from prong.host import LocalHost\n"
        "from prong.host.worktree import create\n"
        "anyio.run(lambda: create(LocalHost(sys.argv[1]), 'x'))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(repo.path)], check=False)
    assert Path(repo.path, ".prong/worktrees/x").is_dir()

    assert [left.slug for left in await sweep(host)] == ["x"]
    assert not Path(repo.path, ".prong/worktrees/x").exists()


@pytest.mark.spec("F14")
async def test_a_fork_is_told_where_it_is(repo: Repo, host: LocalHost) -> None:
    """The notice names both folders and asks to read files again."""
    made = await create(host, "x")
    text = notice(made, str(repo.path))
    assert made.cwd in text
    assert f"refers to {repo.path}, the folder" in text
    assert "Read a file again" in text
