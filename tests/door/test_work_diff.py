"""What was changed, as a diff, with real git."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.errors import NotPossibleNow, UnknownName
from prong.face.slash import Show
from prong.face.wish import shown
from prong.host import LocalHost
from prong.host.work_diff import children_diff, work_diff
from prong.host.worktree import create, finish
from prong.testing import Script, Worlds, call, report, say
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W5")]


def lines(diff: str) -> list[str]:
    """Give the lines that were added or taken away."""
    return [
        line
        for line in diff.splitlines()
        if line[:1] in {"+", "-"} and not line.startswith(("+++", "---"))
    ]


async def test_all_that_is_not_committed_is_shown(repo: Repo, host: LocalHost) -> None:
    """Changed, added and new files are there, ignored ones are not, and nothing is touched."""
    repo.write("a.txt", "other\n")
    repo.write("new.txt", "new\n")
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "noise\n")
    repo.git("add", "new.txt")
    before = repo.fingerprint()
    found = await work_diff(host)
    assert {"+other", "+new", "+*.log"} <= {*lines(found)}
    assert "noise" not in found
    assert repo.fingerprint() == before


async def test_the_settings_of_a_repository_run_nothing(
    repo: Repo, host: LocalHost, tmp_path: Path
) -> None:
    """A program that the repository names for drawing differences is not run."""
    ran = tmp_path / "ran"
    repo.git("config", "diff.external", f"touch {ran};:")
    repo.git("config", "diff.odd.command", f"touch {ran};:")
    repo.write(".gitattributes", "*.txt diff=odd\n")
    repo.write("a.txt", "other\n")
    assert "+other" in lines(await work_diff(host))
    assert not ran.exists()


async def test_a_child_is_compared_with_where_it_began(repo: Repo, host: LocalHost) -> None:
    """What it committed and what it left are there, what the user has changed before is not."""
    repo.write("a.txt", "mine\n")
    made = await create(host, "part")
    Path(made.path, "done.txt").write_text("done\n")
    repo.commit("did it", cwd=made.path)
    Path(made.path, "left.txt").write_text("left\n")
    await finish(host, made)
    assert lines(await work_diff(host, "part")) == ["+done", "+left"]
    repo.git("worktree", "remove", "--force", made.path)
    assert lines(await children_diff(host)) == ["+done"]
    with pytest.raises(UnknownName, match="there are: part"):
        await work_diff(host, "port")


async def test_children_are_shown_by_their_names(repo: Repo, host: LocalHost) -> None:
    """Of several only those that are named, one after the other; one that did nothing is nothing."""
    for slug in ("one", "two", "idle"):
        made = await create(host, slug)
        if slug != "idle":
            Path(made.path, "a.txt").rename(Path(made.path, f"{slug}.txt"))
            repo.commit("did it", cwd=made.path)
    one = await children_diff(host, ["one"])
    assert "rename to one.txt" in one
    assert "two.txt" not in one
    assert await children_diff(host, ["idle", "one", "idle"]) == one


async def test_a_repository_without_commits(tmp_path: Path) -> None:
    """Everything is new; where there is no repository, that is said."""
    folder = tmp_path / "young"
    folder.mkdir()
    host = LocalHost(str(folder))
    with pytest.raises(NotPossibleNow, match="not in a git repository"):
        await work_diff(host)
    Repo(folder).git("init", "-q")
    (folder / "a.txt").write_text("first\n")
    assert lines(await work_diff(host)) == ["+first"]
    await host.close()


async def test_the_command_shows_it(repo: Repo, host: LocalHost) -> None:
    """`prong merge --diff` prints what children have done, and merges nothing."""
    made = await create(host, "part")
    Path(made.path, "left.txt").write_text("left\n")
    await finish(host, made)
    head = repo.git("rev-parse", "HEAD")

    def prong(*words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "prong", "merge", "--diff", *words]
        done = subprocess.run(
            argv, cwd=repo.path, env=os.environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, out = prong("part")
    assert (code, lines(out)) == (0, ["+left"])
    assert prong() == (0, out)
    assert prong("--undo")[0] == 2
    assert repo.git("rev-parse", "HEAD") == head


async def test_it_is_shown_at_the_prompt(world: Worlds) -> None:
    """`/diff` shows the folder's changes, `/diff ID` those of a fork in a worktree."""
    write = call("Write", {"file_path": "new.txt", "content": "new\tone\n"})
    script = Script([say("Hi.")], {"P1": [write, report()]}, forever=say("Well."))
    async with world(script, opens=False, mode="bypassPermissions") as w:
        repo = Repo(w.root)
        repo.git("init", "-q")
        repo.git("config", "user.name", "Tester")
        repo.git("config", "user.email", "tester@example.invalid")
        repo.write("a.txt", "one\n")
        repo.commit("first")
        async with w.open() as session:
            await session.run("Hi")
            assert await shown(session, Show("diff")) == ["nothing was changed"]
            await session.fork(["P1"], isolation="worktree")
            (fork,) = (one.task_id for one in session.view().agents.values() if one.task_id)
            found = await shown(session, Show("diff", fork))
            assert lines("\n".join(found)) == ["+new    one"]
