"""Children in worktrees of their own: what they are told, where they write, what is left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.event import CacheMissed, TaskFinished, Warned
from prong.testing import Script, Step, World, Worlds, call, calls, delay, fail, forks, report, say
from prong.testing.repository import Repo

pytestmark = pytest.mark.anyio

COMMIT = call("Bash", {"command": "git add -A && git commit -qm 'change it'"})


def write(name: str, text: str = "theirs\n") -> Step:
    return call("Write", {"file_path": name, "content": text})


@asynccontextmanager
async def repository(
    world: Worlds, script: Any, **given: Any
) -> AsyncGenerator[tuple[World, Repo], None]:
    """Open a session in a repository with a commit and a change that is not committed."""
    given = {"mode": "bypassPermissions", **given}
    async with world(script, opens=False, **given) as w:
        repo = Repo(w.root)
        repo.git("init", "-q", "-b", "main")
        repo.git("config", "user.name", "Tester")
        repo.git("config", "user.email", "tester@example.invalid")
        repo.write("a.txt", "one\n")
        repo.write("b.txt", "two\n")
        repo.commit("first")
        repo.write("b.txt", "two, and more\n")
        async with w.open():
            yield w, repo


def told(w: World, key: str) -> list[Any]:
    """Give the messages of the requests that the child of a directive has made."""
    found = [r.json["messages"] for r in w.server.records]
    return [m for m in found if any(f"Directive:\n{key}" in _text(one) for one in m)]


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


def notices(w: World) -> str:
    """Give all that the main agent was told by notices."""
    return "\n".join(_text(m) for m in w.bodies()[-1]["messages"] if "notification" in _text(m))


def summaries(w: World) -> list[str]:
    return [e.summary for e in w.told(TaskFinished)]


@pytest.mark.spec("F14", "W2", "W3", "W4", "F4", "F6")
async def test_forks_change_their_own_files_and_no_others(world: Worlds, tmp_path: Path) -> None:
    """Each fork edits in its worktree, by the parent's paths too; what the user has is as it was.

    The base stays shared: nothing is missed in the cache, and the server sees every prefix kept.
    """
    inherited = f"{tmp_path}/project/b.txt"
    script = Script(
        [
            call("Read", {"file_path": "b.txt"}),
            forks("P1", "P2", isolation="worktree"),
            say("waiting"),
            say("done"),
        ],
        {
            "P1": [
                write(inherited),
                call("Read", {"file_path": inherited}),
                write(inherited),
                COMMIT,
                report(),
            ],
            "P2": [report()],
        },
    )
    async with repository(world, script) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")
        first, second = w.session.supervisor.children
        place = w.root / ".prong/worktrees/part-1"

        assert repo.fingerprint() == before
        assert (place / "b.txt").read_text() == "theirs\n"
        assert (place / "a.txt").read_text() == "one\n"
        assert repo.git("show", "prong/part-1:b.txt") == "theirs"
        assert not (w.root / ".prong/worktrees/part-2").exists()
        assert not repo.git("branch", "--list", "prong/part-2")
        assert first.fan is second.fan
        assert not w.told(CacheMissed)
        directive = _text(told(w, "P1")[0][-1])
        assert f"Your root is {place}; its branch is prong/part-1." in directive
        assert f"refers to {w.root}," in directive
        assert directive.index("P1") < directive.index("Your root is")
        unread, seen = told(w, "P1")[1:3]
        assert "ead" in str(unread[-1]["content"][0]["content"])
        assert unread[-1]["content"][0]["is_error"]
        assert "two, and more" in str(seen[-1])
        said = notices(w)
        assert f"[Its worktree is kept: {place}\nBranch: prong/part-1\nCommits: " in said
        assert "Files changed: b.txt]" in said
        assert "[Nothing was changed in its worktree, so that is gone again.]" in said


@pytest.mark.spec("W3")
async def test_nothing_outside_is_written(world: Worlds, tmp_path: Path) -> None:
    """A path outside is refused in the freest mode, and a command that names it needs an answer."""
    outside = tmp_path / "outside.txt"
    script = Script(
        [forks("P1", isolation="worktree"), say("waiting"), say("done")],
        {
            "P1": [
                write(str(outside)),
                call("Bash", {"command": f"echo x > {tmp_path}/project/a.txt"}),
                call("Bash", {"command": "pwd"}),
                report(),
            ]
        },
    )
    async with repository(world, script) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")
        _, wrote, ran, stood = told(w, "P1")

        assert "is outside your worktree; write below" in str(wrote[-1])
        assert "is outside the agent's worktree" in str(ran[-1])
        assert str(w.root / ".prong/worktrees/part-1") in str(stood[-1])
        assert not outside.exists()
        assert repo.fingerprint() == before


@pytest.mark.spec("W4")
async def test_two_of_one_name_and_a_slug_from_words(world: Worlds) -> None:
    """Worktrees of one name get numbers; one that is uncommitted is kept as well."""
    one = {"description": "Fix: the parser/lexer!", "prompt": "P1", "isolation": "worktree"}
    script = Script(
        [calls(("Agent", one), ("Agent", {**one, "prompt": "P2"})), say("w"), say("done")],
        {"P1": [write("new.txt"), report()], "P2": [write("new.txt"), report()]},
    )
    async with repository(world, script) as (w, _):
        await w.session.run("Go")
        kept = sorted(p.name for p in (w.root / ".prong/worktrees").iterdir() if p.is_dir())

        assert kept == ["fix-the-parser-lexer", "fix-the-parser-lexer-2"]
        assert notices(w).count("Commits: none\nFiles changed: new.txt") == 2
        assert notices(w).count("Not all of this is committed]") == 2


@pytest.mark.spec("W4", "S1")
async def test_without_a_repository_the_child_fails_and_says_why(world: Worlds) -> None:
    """Where git has nothing to offer, the notice says so, and what to do; remote is refused."""
    remote = {"description": "far", "prompt": "P2", "isolation": "remote"}
    script = Script(
        [forks("P1", isolation="worktree"), call("Agent", remote), say("w"), say("done")], {}
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go")

        (summary,) = summaries(w)
        assert f"{w.root} is not in a git repository: run 'git init' there" in summary
        assert "there are no remote workers; use" in str(w.bodies())
        assert not told(w, "P1")


@pytest.mark.spec("W4")
async def test_failed_and_stopped_children_keep_their_work(world: Worlds) -> None:
    """Neither a failure nor a stop costs anything that was written."""
    script = Script(
        [forks("P1", "P2", isolation="worktree"), say("w"), say("done"), say("done")],
        {
            "P1": [write("x.txt"), delay(60, then=report())],
            "P2": [write("y.txt"), fail(400, "invalid_request_error", "no")],
        },
    )
    async with repository(world, script, attended=True) as (w, _):
        await w.session.say("Go")
        place = w.root / ".prong/worktrees"
        with anyio.fail_after(20):
            while len(told(w, "P1")) < 2:
                await anyio.sleep(0.01)
        first, _second = w.session.supervisor.children
        await w.session.tasks.stop(first.spec.task_id)
        await w.session.wait_settled()

        assert (place / "part-1/x.txt").exists()
        assert (place / "part-2/y.txt").exists()
        results = [w.session.supervisor.result(c) for c in w.session.supervisor.children]
        assert [r.status for r in results] == ["killed", "failed"]
        assert [r.branch for r in results] == ["prong/part-1", "prong/part-2"]
        assert [r.files for r in results] == [("x.txt",), ("y.txt",)]


@pytest.mark.spec("F22", "W4")
async def test_a_message_brings_a_child_back_to_its_worktree(world: Worlds) -> None:
    """A child that is woken finds its files; one whose worktree is gone is given another."""
    script = Script(
        [say("Hi."), say("ok"), say("ok"), say("ok")],
        {"P1": [write("x.txt"), report(), call("Bash", {"command": "ls"}), report()]},
    )
    script.routes["P2"] = [report(), write("z.txt"), report()]
    async with repository(world, script) as (w, _):
        await w.session.run("Hello")
        kept, gone = await w.session.fork(["P1", "P2"], isolation="worktree")
        assert (kept.worktree, gone.worktree) == (f"{w.root}/.prong/worktrees/fork-1", "")
        for name in (kept.task_id, gone.task_id):
            await w.session.message(name, "Look again.")
        await w.session.wait_settled()
        again = w.session.supervisor.child(gone.task_id)
        assert again is not None

        assert "x.txt" in str(told(w, "P1")[-1][-1])
        assert "Your root is" in str(told(w, "P2")[1][-1])
        assert w.session.supervisor.result(again).files == ("z.txt",)


@pytest.mark.spec("W4")
async def test_a_resumed_session_knows_its_worktrees(world: Worlds) -> None:
    """After a resume a child goes on in the worktree it had."""
    script = Script(
        [say("Hi."), say("ok"), say("ok")],
        {"P1": [write("x.txt"), report(), call("Bash", {"command": "ls"}), report()]},
    )
    async with repository(world, script) as (w, _):
        await w.session.run("Hello")
        (kept,) = await w.session.fork(["P1"], isolation="worktree")
        session = w.session.id
    async with w.open(resume=session):
        await w.session.message(kept.task_id, "Look again.")
        await w.session.wait_settled()
        child = w.session.supervisor.child(kept.task_id)
        assert child is not None

        assert "x.txt" in str(told(w, "P1")[-1][-1])
        assert w.session.supervisor.result(child).worktree == kept.worktree
