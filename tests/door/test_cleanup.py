"""Removing the worktrees and branches of children whose work is merged, with real git."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.command import Accepted, Fork, MergeBranches, Refused
from prong.errors import UsageError
from prong.host import LocalHost, owner
from prong.host.cleanup import clean
from prong.host.merge import merge, undo
from prong.host.worktree import create, finish
from prong.testing import Script, Worlds, call, report
from prong.testing.repository import Repo, make_repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W4", "W5")]


async def child(repo: Repo, host: LocalHost, slug: str, *, commit: bool = True) -> Path:
    """Let a child write a file of its own, and end; gives its worktree."""
    made = await create(host, slug)
    Path(made.path, f"{slug}.txt").write_text(f"{slug}\n")
    if commit:
        repo.commit(cwd=made.path)
    await finish(host, made)
    return Path(made.path)


def prongs(repo: Repo) -> list[str]:
    """Name all refs of ours."""
    refs = repo.git("for-each-ref", "--format=%(refname)").splitlines()
    return [ref for ref in refs if "/prong/" in ref]


async def test_what_is_merged_goes_and_nothing_of_it_is_left(repo: Repo, host: LocalHost) -> None:
    """Committed, left uncommitted, begun from uncommitted changes: folder, branch and refs go."""
    paths = [await child(repo, host, "one"), await child(repo, host, "two", commit=False)]
    repo.write("a.txt", "not committed\n")
    paths.append(await child(repo, host, "three"))
    await merge(host)

    shown = await clean(host, dry_run=True)
    assert [item.removed for item in shown.items] == [True, True, True]
    assert all(path.is_dir() for path in paths)
    found = await clean(host)

    assert {item.slug: item.why for item in found.items} == dict.fromkeys(
        ("one", "two", "three"), "merged"
    )
    assert not any(path.exists() for path in paths)
    assert prongs(repo) == []
    assert found.undo == repo.git("rev-parse", "HEAD~3")
    with pytest.raises(UsageError, match="no merge to take back"):
        await undo(host)
    assert all((repo.path / f"{slug}.txt").exists() for slug in ("one", "two", "three"))
    assert (await clean(host)).items == ()


async def test_work_that_is_nowhere_else_stays(repo: Repo, host: LocalHost) -> None:
    """Not merged, not committed since, ignored, given up, merged and taken back: each is kept."""
    repo.write(".gitignore", "*.notes\n")
    repo.commit()
    merged = {name: await child(repo, host, name) for name in ("more", "ignored", "reset")}
    Path(merged["reset"], "x.txt").write_text("x\n")
    repo.commit(cwd=merged["reset"])
    repo.git("reset", "-q", "--hard", "HEAD~", cwd=merged["reset"])
    await merge(host)
    Path(merged["more"], "later.txt").write_text("later\n")
    Path(merged["ignored"], "my.notes").write_text("notes\n")
    await child(repo, host, "new")
    before = prongs(repo)

    found = await clean(host)

    assert {item.slug: (item.removed, item.why.partition(";")[0]) for item in found.items} == {
        "more": (False, "it has uncommitted changes"),
        "ignored": (False, "it has ignored files of its own, such as my.notes"),
        "reset": (False, "it had commits that were given up"),
        "new": (False, "it has commits that are in no branch of yours"),
    }
    assert prongs(repo) == before
    assert Path(merged["more"], "later.txt").exists()
    assert set(await undo(host)) == {"more", "ignored", "reset"}


@pytest.mark.parametrize("how", ["reset", "undo"])
async def test_a_merge_that_was_taken_back_is_none(repo: Repo, host: LocalHost, how: str) -> None:
    """What was merged and is in no branch any more counts as not merged."""
    repo.write("a.txt", "not committed\n")
    path = await child(repo, host, "one")
    await merge(host)
    if how == "undo":
        await undo(host)
    else:
        repo.git("reset", "-q", "--hard", "HEAD~")

    (item,) = (await clean(host)).items

    assert not item.removed
    assert (path / "one.txt").exists()


@pytest.mark.parametrize("how", ["merge", "cherry-pick", "elsewhere"])
async def test_what_the_user_brought_in_by_hand_counts(
    repo: Repo, host: LocalHost, how: str
) -> None:
    """By git's own merge, by cherry-pick, or into another branch than the current one."""
    path = await child(repo, host, "one")
    repo.write("b.txt", "b\n")
    repo.commit()
    if how == "elsewhere":
        repo.git("branch", "mine", "prong/one")
    else:
        repo.git(how, *(["--no-edit"] if how == "merge" else []), "prong/one")

    (item,) = (await clean(host)).items

    assert item.removed, item.why
    assert not path.exists()
    assert not any("heads" in ref for ref in prongs(repo))


async def test_what_is_in_use_stays(repo: Repo, host: LocalHost) -> None:
    """An agent at work, the user's own lock, a branch checked out elsewhere, where one stands."""
    running = await create(host, "running")
    locked = await child(repo, host, "locked")
    repo.git("worktree", "lock", str(locked))
    here = await child(repo, host, "here")
    away = await child(repo, host, "away")
    repo.git("merge", "-q", "--no-edit", "prong/locked", "prong/here", "prong/away")
    repo.git("checkout", "-q", "--detach", cwd=away)
    repo.git("worktree", "add", "-q", str(repo.path.parent / "other"), "prong/away")

    found = await clean(LocalHost(here))

    assert {item.slug: (item.removed, item.why.split(",")[0]) for item in found.items} == {
        "running": (False, "an agent works in it"),
        "locked": (False, "an agent works in it"),
        "here": (False, "you are in it"),
        "away": (False, f"away is checked out in {repo.path.parent / 'other'}"),
    }
    assert Path(running.path).is_dir()


async def test_what_dead_sessions_forgot_goes_too(
    repo: Repo, host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock of a process that has ended, a folder that somebody deleted."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    with monkeypatch.context() as patched:
        patched.setattr(owner, "reason", lambda: _held_by(dead.pid))
        crashed = await create(host, "crashed")
    Path(crashed.path, "c.txt").write_text("c\n")
    repo.commit(cwd=crashed.path)
    path = await child(repo, host, "deleted")
    subprocess.run(["rm", "-rf", str(path)], check=True)
    await merge(host)

    found = await clean(host)

    assert [item.removed for item in found.items] == [True, True]
    assert prongs(repo) == []
    assert repo.git("worktree", "list").count("\n") == 0


def _held_by(pid: int) -> str:
    return f"prong: in use by process {pid} (started 1) on {os.uname().nodename}"


@pytest.mark.timeout(240)
async def test_the_command_says_what_it_did(repo: Repo, host: LocalHost) -> None:
    """In prose and as JSON, with what is kept and why; it is given alone."""
    await child(repo, host, "one")
    await merge(host)
    await child(repo, host, "two")

    def prong(*words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "prong", "merge", *words]
        done = subprocess.run(
            argv, cwd=repo.path, env=os.environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert "would remove prong/one and " in prong("--clean", "--dry-run")[1]
    code, out = prong("--clean")
    assert code == 0
    assert "removed prong/one and " in out
    assert "kept prong/two and " in out
    assert "in no branch of yours; 'prong merge' brings them in" in out
    assert "can no longer be taken back" in out
    items = json.loads(prong("--clean", "--json")[1])["items"]
    assert [(item["slug"], item["removed"]) for item in items] == [("two", False)]
    assert prong("--clean", "--undo")[0] == 2
    assert prong("--clean", "two")[0] == 2


@pytest.mark.spec("W5", "F21")
async def test_a_session_merges_and_cleans_by_command(world: Worlds) -> None:
    """Forks in worktrees that commit nothing: merged by one command, removed by another."""
    script = Script(
        routes={
            "Part 1.": [call("Write", {"file_path": "one.txt", "content": "1\n"}), report()],
            "Part 2.": [call("Write", {"file_path": "two.txt", "content": "2\n"}), report()],
        },
        forever=report(),
    )
    async with world(script, mode="bypassPermissions", opens=False) as w:
        w.root.rmdir()
        repo = make_repo(w.root)
        async with w.open() as session:
            assert isinstance(await session.send(MergeBranches("undo")), Refused)
            await session.send(Fork(("Part 1.", "Part 2."), "worktree"))
            await session.wait_settled()
            preview = await session.send(MergeBranches("preview"))
            assert isinstance(preview, Accepted)
            assert preview.text.count("would merge") == 2
            merged = await session.send(MergeBranches())
            assert isinstance(merged, Accepted)
            assert merged.text.count("1 of them committed for it") == 2
            assert (w.root / "one.txt").read_text() == "1\n"
            cleaned = await session.send(MergeBranches("clean"))
            assert isinstance(cleaned, Accepted)
            assert cleaned.text.count("removed prong/") == 2
        assert repo.git("status", "--porcelain") == ""
        assert prongs(repo) == []
