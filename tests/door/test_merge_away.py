"""What a merge says of work that has not come back from another machine, with real git."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio import to_thread

from prong.errors import UnknownName
from prong.event import ToolFinished
from prong.face.cli import main
from prong.host import LocalHost
from prong.host.away_work import AwayWork
from prong.host.bundle import mark_away, settle
from prong.host.cleanup import clean
from prong.host.git import Git
from prong.host.merge import merge
from prong.host.worktree import Worktree, create, finish, reserve
from prong.session import describe_merge
from prong.testing import Worlds, call, say
from prong.testing.repository import Repo
from shared.remote import prepare_repository

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("R3", "W5")]

WORK = AwayWork(target="box", folder="~/copies", task="fork-1", session="20260101-x")


async def depart(host: LocalHost, slug: str) -> tuple[Git, Worktree]:
    """Let a child begin on another machine."""
    git, worktree = Git(host, host.root), await reserve(host, slug)
    await mark_away(git, worktree, WORK)
    return git, worktree


async def child(repo: Repo, host: LocalHost, slug: str) -> None:
    """Let a child write and commit a file here, and end."""
    made = await create(host, slug)
    Path(made.path, f"{slug}.txt").write_text(f"{slug}\n")
    repo.commit(cwd=made.path)
    await finish(host, made)


async def test_what_is_here_is_merged_and_what_is_not_is_named(
    repo: Repo, host: LocalHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which work, on which machine and where there, and what brings it; the code says it too."""
    git, worktree = await depart(host, "a")
    await child(repo, host, "b")

    report = await merge(host)

    assert [(one.slug, one.status) for one in report.steps] == [("b", "merged"), ("a", "away")]
    assert report.stopped
    text = "\n".join(describe_merge(report))
    assert "prong/a: away\n  the work of fork-1 is still on box, in ~/copies/" in text
    assert (
        "/.prong/worktrees/a: wait until it has ended; if it has, a message brings it: "
        "'/tell fork-1 TEXT' in 'prong --resume 20260101-x'. If that machine is gone for good, "
        "'git update-ref -d refs/prong/away/a' forgets it" in text
    )
    assert "merged so far: prong/b" in text

    monkeypatch.chdir(repo.path)
    assert await to_thread.run_sync(main, ["merge"]) == 1
    out = capsys.readouterr().out
    assert "the work of fork-1 is still on box" in out
    assert "no branch of a child" not in out
    assert await to_thread.run_sync(main, ["merge", "a", "--json"]) == 1
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert (step["branch"], step["status"]) == ("prong/a", "away")
    with pytest.raises(UnknownName, match="there are: b, a"):
        await merge(host, ["c"])
    assert [one.slug for one in (await merge(host, ["b"])).steps] == ["b"]

    await settle(git, worktree, unchanged=True)
    assert not [one for one in (await merge(host)).steps if one.status == "away"]
    assert "refs/prong/away" not in repo.git("for-each-ref")


async def test_a_branch_whose_agent_went_on_elsewhere(repo: Repo, host: LocalHost) -> None:
    """What had come back before is merged, the rest is named, and nothing of it is cleaned."""
    await child(repo, host, "a")
    base = repo.git("rev-parse", "refs/prong/base/a")
    repo.git("worktree", "remove", "--force", ".prong/worktrees/a")
    worktree = Worktree(
        slug="a", path="", cwd="", branch="prong/a", base_commit=base,
        snapshot_commit=base, parent=str(repo.path),
    )  # fmt: skip
    await mark_away(Git(host, host.root), worktree, WORK)

    report = await merge(host)
    assert [(one.slug, one.status) for one in report.steps] == [("a", "merged"), ("a", "away")]
    (kept,) = (await clean(host)).items
    assert not kept.removed
    assert kept.why.startswith("the work of fork-1 is still on box, in ~/copies/")


async def test_a_model_is_told_too(world: Worlds) -> None:
    """The tool names the work, and does not say that it stopped for its sake."""
    script = [call("MergeWorktrees", {"action": "merge"}), say("ok")]
    async with world(script, mode="bypassPermissions") as w:
        prepare_repository(w.root)
        await depart(LocalHost(w.root), "a")
        await w.session.run("Merge")
        (ended,) = w.told(ToolFinished)
        assert "prong/a: away; the work of fork-1 is still on box" in ended.text
        assert "It stopped" not in ended.text


async def test_a_note_that_somebody_else_has_written(repo: Repo, host: LocalHost) -> None:
    """It is named all the same, and no word of it is taken for one of ours."""
    repo.git("update-ref", "refs/prong/away/x", "HEAD")
    (step,) = (await merge(host)).steps
    assert (step.slug, step.status) == ("x", "away")
    assert "nobody knows where" in step.remedy
