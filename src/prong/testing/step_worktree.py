"""Killed while worktrees are made, left, taken up and swept: work stays, and nothing else does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from prong.host import LocalHost
from prong.host.worktree import (
    BASES,
    Kept,
    Worktree,
    create,
    finish,
    leftovers,
    making,
    reopen,
    sweep,
)
from prong.testing.repository import Repo
from prong.testing.step_ground import StepGround, StepOperation

_WORK = "work.txt"


def _note(repo: Repo, worktree: Worktree) -> None:
    """Write down that there is work in a worktree; it must be found ever after."""
    Path(worktree.path, _WORK).write_text(worktree.slug)
    # Ignored by all, and no file of the user's.
    notes = repo.path / ".git/noted"
    notes.mkdir(exist_ok=True)
    (notes / worktree.slug).write_bytes(msgspec.json.encode(worktree))


def _noted(repo: Repo) -> dict[str, Worktree]:
    found = sorted((repo.path / ".git/noted").glob("*"))
    return {one.name: msgspec.json.decode(one.read_bytes(), type=Worktree) for one in found}


def _read(worktree: Worktree) -> str:
    return Path(worktree.path, _WORK).read_text()


async def _dirty(repo: Repo) -> None:
    repo.write(".gitignore", ".env\n")
    repo.write(".worktreeinclude", ".env\n")
    repo.commit()
    repo.write(".env", "secret\n")
    repo.write("a.txt", "changed\n")
    repo.write("src/b.txt", "staged\n")
    repo.git("add", "src/b.txt")
    repo.write("new.txt", "new\n")


async def _nothing(repo: Repo) -> None:
    host = LocalHost(repo.path)
    await finish(host, await create(host, "x"))


async def _work(repo: Repo) -> None:
    host = LocalHost(repo.path)
    made = await create(host, "x")
    _note(repo, made)
    await finish(host, made)


async def _leave(repo: Repo) -> None:
    """Make worktrees and end without letting go of them: one has work, one has not."""
    await _dirty(repo)
    host = LocalHost(repo.path)
    for slug in ("empty", "work"):
        made = await create(host, slug)
        (repo.path / f".git/{slug}.json").write_bytes(msgspec.json.encode(made))
    _note(repo, made)


async def _take_up(repo: Repo) -> None:
    host = LocalHost(repo.path)
    for slug in ("empty", "work"):
        made = msgspec.json.decode((repo.path / f".git/{slug}.json").read_bytes(), type=Worktree)
        assert await reopen(host, made)
        _note(repo, made)
        await finish(host, made)


async def _leave_all(repo: Repo) -> None:
    """Leave one of everything that a crash can leave."""
    await _leave(repo)
    host = LocalHost(repo.path)
    kept, lost, half = [await create(host, slug) for slug in ("kept", "lost", "half")]
    _note(repo, kept)
    await finish(host, kept)
    shutil.rmtree(lost.path)
    start = half.snapshot_commit
    repo.git("update-ref", f"{making()}half", start)
    shutil.rmtree(f"{half.path}/src")
    repo.git("update-ref", f"{BASES}bare", start)
    repo.git("update-ref", f"{BASES}begun", start)
    repo.git("update-ref", "refs/heads/prong/begun", start)
    _age(repo)


async def _sweep(repo: Repo) -> None:
    await sweep(LocalHost(repo.path))


def _age(repo: Repo) -> None:
    """Let all names have been taken long ago."""
    for file in (repo.path / ".git/refs/prong").rglob("*"):
        if file.is_file():
            os.utime(file, (1, 1))


def _different(ground: StepGround, before: dict[str, str], *, left: bool) -> str:
    """Say in what the user's part has changed; second indexes count only if they are left."""
    after = ground.repo.fingerprint()
    keys = sorted(key for key in before | after if before.get(key) != after.get(key))
    return ", ".join(key for key in keys if left or key != "left")


async def _judge(ground: StepGround) -> str:
    repo = ground.repo
    ground.save("killed")
    ground.restore("start")
    before = repo.fingerprint()
    ground.restore("killed")
    if wrong := _different(ground, before, left=False):
        return f"the kill changed {wrong}"
    _age(repo)
    host = LocalHost(repo.path)
    await sweep(host)
    work = _noted(repo)
    places = {one.name for one in (repo.path / ".prong/worktrees").glob("*")} - {".gitignore"}
    if places != set(work):
        return f"there are {places} after a sweep, and work in {set(work)}"
    if bad := [slug for slug, made in work.items() if _read(made) != slug]:
        return f"the work in {bad} is not what it was"
    words = ("for-each-ref", "--format=%(refname)", "refs/prong", "refs/heads/prong")
    wanted = {f"{kind}{slug}" for slug in work for kind in (BASES, "refs/heads/prong/")}
    if (refs := set(repo.git(*words).split())) != wanted:
        return f"refs without use, or lost: {refs ^ wanted}"
    if wrong := _different(ground, before, left=True):
        return f"the sweep changed {wrong}"
    return await _go_on(host, work)


async def _go_on(host: LocalHost, work: dict[str, Worktree]) -> str:
    """Use everything once more."""
    if any(left.unchanged or left.missing for left in await leftovers(host)):
        return "what was kept counts as unchanged"
    for slug, made in work.items():
        if not await reopen(host, made) or not isinstance(await finish(host, made), Kept):
            return f"{slug} cannot be taken up again"
    again = await create(host, "x")
    if again.slug != ("x-2" if "x" in work else "x"):
        return f"the name x is not free: {again.slug}"
    await finish(host, again)
    return ""


OPERATIONS = {
    "make": StepOperation(_dirty, _nothing, _judge),
    "work": StepOperation(_dirty, _work, _judge),
    "reopen": StepOperation(_leave, _take_up, _judge),
    "sweep": StepOperation(_leave_all, _sweep, _judge),
}
"""All of them by name."""
