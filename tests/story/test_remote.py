"""Agents that work on another machine: the same events, questions and receipts, and a branch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.command import Stop
from prong.cost.receipt import describe
from prong.event import (
    AgentStarted,
    CacheMissed,
    PermissionAsked,
    QuestionAsked,
    ReceiptIssued,
    ToolFinished,
    WorkKept,
    WorktreeEntered,
)
from prong.face.draw.tree import Aspect, draw_tree
from prong.host import LocalHost
from prong.host.merge import merge
from prong.question import Answer
from prong.testing import Script, Worlds, call, forks, report, say
from prong.testing.ssh_host import HAS_SSH, ssh_host
from shared.remote import copies, remote_world
from shared.typed import agent

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1", "R4")]

COMMIT = call("Bash", {"command": "git add -A && git commit -qm 'change it'"})


def write(name: str, text: str = "made\n") -> Any:
    return call("Write", {"file_path": name, "content": text})


ENGINE = """#!/bin/sh
# Stands for a container engine: runs what it is told to on this machine.
[ "$1" = run ] || exit 125
while [ "$1" != --entrypoint ]; do shift; done
program=$2
shift 3
exec "$program" "$@"
"""


@pytest.fixture(params=["process", "ssh", "container"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Give a target: this machine as another, and the same behind a real sshd."""
    if request.param == "process":
        yield {}
        return
    if request.param == "container":
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "podman").write_text(ENGINE)
        (folder / "podman").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        given = {"launcher": "container", "image": "prong:1", "engine": "podman"}
        yield {**given, "python": sys.executable}
        return
    if not HAS_SSH:
        pytest.skip("there is no sshd here: openssh-server")
    with ssh_host(tmp_path / "ssh") as host:
        monkeypatch.setenv("PATH", f"{host.bin}:{os.environ['PATH']}")
        yield {"launcher": "ssh", "host": host.name, "python": sys.executable}


async def test_forks_work_elsewhere_and_come_back(
    world: Worlds, tmp_path: Path, target: dict[str, str]
) -> None:
    """Forks see the files as they are, share their parent's bytes, and come back as branches."""
    script = Script(
        [forks("P1", "P2", isolation="remote"), say("waiting"), say("done"), say("done")],
        {
            "P1": [
                call("Read", {"file_path": "sub/b.txt"}),
                write("new.txt"),
                COMMIT,
                write("more.txt"),
                report("one"),
            ],
            "P2": [call("Bash", {"command": "pwd"}), report("two")],
        },
    )
    far = tmp_path / "far"
    async with remote_world(world, script, far, target=target) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")

        children = w.parts.supervisor.children
        assert [(one.status, one.run.detail) for one in children] == [("completed", "")] * 2
        assert [one.report.result for one in children] == ["one", "two"]
        assert repo.fingerprint() == before
        began = [one for one in w.told(AgentStarted) if one.kind == "fork"]
        assert [(one.isolation, one.target) for one in began] == [("remote", "box")] * 2
        assert all(Path(one.path).is_relative_to(far) for one in w.told(WorktreeEntered))
        (kept,) = w.told(WorkKept)
        assert (kept.path, kept.branch, len(kept.commits)) == ("", "prong/part-1", 2)
        assert kept.files == ("more.txt", "new.txt")
        assert not copies(far)
        told = [one.text for one in w.told(ToolFinished)]
        assert any("two, and more" in text for text in told)
        assert any(str(far) in text for text in told)
        assert not w.told(CacheMissed)
        receipts = [w.parts.supervisor.registry.receipt(one) for one in children]
        assert len(w.told(ReceiptIssued)) == 2
        assert [one.target for one in receipts] == ["box", "box"]
        assert all(min(one.bytes_sent, one.bytes_received) > 1_000 for one in receipts)
        assert "box: " in describe(receipts[0])
        assert all("bytes to and from box" in one.text for one in w.told(ReceiptIssued))
        rows = [row.text for row in draw_tree(w.session.view(), Aspect(width=100))]
        assert any("on box: done, work kept on prong/part-1" in row for row in rows)
        assert 'isolation: "remote"` is a working copy' in str(w.bodies()[0]["tools"])

        found = await merge(LocalHost(str(w.root)))
        assert [step.status for step in found.steps] == ["merged"]
        assert (w.root / "more.txt").read_text() == "made\n"


async def test_a_typed_agent_is_always_in_the_background(world: Worlds, tmp_path: Path) -> None:
    """Its parent goes on at once, also if it did not ask for that, and is told of its report."""
    elsewhere = agent("WORK", "general-purpose", isolation="remote")
    script = Script(
        [elsewhere, say("I go on."), say("I see.")],
        {"WORK": [write("new.txt"), say("it is done")]},
    )
    given = tmp_path / "far"
    async with remote_world(world, script, given) as (w, repo):
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        assert (child.status, child.spec.notify) == ("completed", True)
        assert "works in the background" in str(w.bodies()[-1])
        assert "it is done" in str(w.bodies()[-1])
        assert "come back as the branch prong/" in str(w.bodies()[-1])
        assert repo.git("show", f"{w.told(WorkKept)[0].branch}:new.txt") == "made"


@pytest.mark.parametrize("allow", [True, False])
async def test_its_questions_are_asked_here(
    world: Worlds, tmp_path: Path, target: dict[str, str], *, allow: bool
) -> None:
    """What it may do is decided by the session's rules, and asked of whoever sits there."""
    asked: list[str] = []

    async def respond(path: str, request: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(request, PermissionAsked)
        asked.append(f"{path} {request.title}")
        return Answer(request.request_id, allow=allow)

    script = Script(
        [say("hello")],
        {"P1": [call("Bash", {"command": "touch made"}), report("one")]},
        forever=say("ok"),
    )
    options = {"mode": "default", "respond": respond}
    async with remote_world(world, script, tmp_path / "far", target=target, **options) as (w, _):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert asked == [f"main/{found.task_id} touch made"]
        assert found.status == "completed"
        assert found.files == (("made",) if allow else ())


async def test_paths_there_are_judged_like_those_of_a_worktree(
    world: Worlds, tmp_path: Path
) -> None:
    """A path of the parent means the workspace's, and nothing is written anywhere else."""
    root = tmp_path / "project"
    steps = [
        write(str(root / "new.txt")),
        write(str(tmp_path / "elsewhere.txt")),
        call("Bash", {"command": f"touch {root}/theirs.txt"}),
        report("one"),
    ]
    script = Script([say("hello")], {"P1": steps}, forever=say("ok"))
    async with remote_world(world, script, tmp_path / "far") as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "completed", found.detail
        assert repo.git("show", f"{found.branch}:new.txt") == "made"
        assert not (root / "new.txt").exists()
        assert not (root / "theirs.txt").exists()
        assert not (tmp_path / "elsewhere.txt").exists()
        made, outside, named = [one.text for one in w.told(ToolFinished)]
        assert made.startswith("made new.txt")
        assert "is outside your worktree" in outside
        assert "which is outside the agent's worktree" in named


async def test_links_there_are_decided_on_as_what_they_lead_to(
    world: Worlds, tmp_path: Path
) -> None:
    """The session cannot see links over there, and yet asks about the file that would be read."""
    asked: list[str] = []

    async def respond(path: str, request: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(request, PermissionAsked)
        asked.append(f"{path}: {request.why}")
        return Answer(request.request_id, allow=False)

    secret = tmp_path / "secret.txt"
    secret.write_text("KEEP OUT\n")
    steps = [
        call("Read", {"file_path": "link.txt"}),
        call("Bash", {"command": "cat link.txt"}),
        write("out/through.txt"),
        call("Read", {"file_path": "plain.txt"}),
        report("one"),
    ]
    script = Script([say("hello")], {"P1": steps}, forever=say("ok"))
    options = {"mode": "acceptEdits", "respond": respond}
    async with remote_world(world, script, tmp_path / "far", **options) as (w, _):
        (w.root / "link.txt").symlink_to(secret)
        (w.root / "out").symlink_to(tmp_path)
        (w.root / "plain.txt").symlink_to("a.txt")
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "completed", found.detail
        told = [one.text for one in w.told(ToolFinished)]
        assert not any("KEEP OUT" in text for text in told)
        assert not (tmp_path / "through.txt").exists()
        assert len(asked) == 2
        assert all(str(secret) in why for why in asked)
        assert f"{tmp_path / 'through.txt'} is outside your worktree" in told[2]
        assert "one" in told[3]


async def test_it_is_stopped_and_goes_on(
    world: Worlds, tmp_path: Path, target: dict[str, str]
) -> None:
    """What was done before a stop comes back; a message lets it go on from there."""
    wait = call("Bash", {"command": "touch began; while true; do sleep 0.05; done"})
    script = Script(
        [say("hello")],
        {
            "Directive:\nP1": [
                write("new.txt"),
                wait,
                call("Bash", {"command": "cat new.txt"}),
                report("one"),
            ]
        },
        forever=say("ok"),
    )
    far = tmp_path / "far"
    async with remote_world(world, script, far, target=target) as (w, repo):
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["P1"], isolation="remote")
        with anyio.fail_after(50):
            while not list(far.glob("*/.prong/worktrees/*/began")):
                await anyio.sleep(0.02)
        await w.session.send(Stop(task))
        await w.session.wait_settled()
        (child,) = w.parts.supervisor.children
        assert child.status == "killed"
        assert repo.git("ls-tree", "--name-only", w.told(WorkKept)[-1].branch).split() == [
            "a.txt",
            "began",
            "new.txt",
            "sub",
        ]
        assert not copies(far)

        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()

        assert (child.status, child.run.detail) == ("completed", "")
        assert [one.text for one in w.told(ToolFinished)][-1].startswith("made")
        assert child.spec.lease == 6


async def test_nothing_is_started_where_it_is_known_to_fail(world: Worlds, tmp_path: Path) -> None:
    """A target that does not exist, and plan mode, refuse the call; LFS fails the task at once."""
    script = Script(
        [forks("P1", isolation="remote"), say("waiting"), say("done")], {"P1": [report("one")]}
    )
    async with remote_world(world, script, tmp_path / "far") as (w, repo):
        repo.write(".gitattributes", "*.psd filter=lfs\n")
        repo.write("art.psd", "x")
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "git LFS, such as art.psd" in child.run.detail
        assert repo.git("for-each-ref", "refs/prong") == ""
        assert not (tmp_path / "far").exists()


async def test_an_agent_there_starts_no_others(world: Worlds, tmp_path: Path) -> None:
    """What works on another machine does its work itself: it has no tool to start agents."""
    script = Script(
        [agent("OUTER", "general-purpose", isolation="remote"), say("I go on."), say("I see.")],
        {"OUTER": [agent("INNER", "Explore"), say("alone then")]},
    )
    async with remote_world(world, script, tmp_path / "far") as (w, _):
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        assert (child.status, child.text) == ("completed", "alone then")
        assert "there is no tool 'Agent'" in w.told(ToolFinished)[-1].text


async def test_only_variables_that_are_named_go_along(
    world: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: dict[str, str]
) -> None:
    """Commands over there have the variables that the target names; others stay here."""
    monkeypatch.setenv("NAMED", "goes")
    script = Script(
        [say("hello")],
        {"P1": [call("Bash", {"command": "echo [$NAMED]"}), report("one")]},
        forever=say("ok"),
    )
    given = {**target, "env": ["NAMED", "NOT_SET"]}
    async with remote_world(world, script, tmp_path / "far", target=given) as (w, _):
        await w.session.run("Hi")
        await w.session.fork(["P1"], isolation="remote")

        assert [one.text for one in w.told(ToolFinished)] == ["[goes]"]
