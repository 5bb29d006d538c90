"""What a leader's tools meet when something is wrong: a clear error, with the remedy, and no loss."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.command import LeadTeam, Refused
from prong.errors import JournalFull
from prong.event import ToolStarted
from prong.journal.lock import remedy
from prong.mail import TeamFolder, locked_file, mailbox, team_folder
from prong.testing import Options, Step, Worlds, call, say
from prong.testing.script import Call, Text
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("M1", "M5", "M9")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
PANE = {"subagent_type": "general-purpose", "backend": "tmux"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder whose tmux server is the test's own, and end that server."""
    folder = Path(tempfile.mkdtemp(prefix="pt"))
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(folder))
    yield folder
    _end(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _end(folder: Path) -> None:
    for socket in folder.glob("tmux-*/*"):
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True)


async def test_a_name_that_is_taken(world: Worlds) -> None:
    """Another session's team and a member of that name are left alone; the call says so."""
    script = Cast(
        [
            ("Go", CREATE),
            ("there is a team crew already", say("I see.")),
            ("Now", CREATE),
            ("You lead", spawn("alice")),
            ("More", spawn("alice")),
        ]
    )
    async with world(script, **GIVEN) as w:
        other = TeamFolder.create(w.store, "crew", session="another")
        await w.session.run("Go")
        assert "take another name, or delete it first" in text_of(w.parts)
        assert other.team.leader == "another"
        other.delete()
        await w.session.run("Now")
        await w.session.run("More")
        assert "'alice' is taken already; choose another name" in text_of(w.parts)
        assert len(TeamFolder.open(w.store, "crew").team.members) == 1


async def test_a_message_of_ten_megabytes(world: Worlds) -> None:
    """It is not sent, whoever sends is told what to do instead, and the next one arrives."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice"))])
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        outcome = await w.session.send(LeadTeam("send", "alice", "x" * 10_000_000))
        assert isinstance(outcome, Refused)
        assert "write it to a file and send its path" in outcome.why
        await w.session.send(LeadTeam("send", "alice", "It is in a file."))
        await w.session.wait_settled()
        assert text_of(w.parts, "main/alice").count("It is in a file.") == 1


async def test_a_team_file_of_a_newer_version_is_led_again_later(world: Worlds) -> None:
    """A leader that cannot read its team says so and goes on; once it can, the team is its own."""
    script = Cast([("Go", CREATE), ("Tasks", say("There is none now."))])
    async with world(script, opens=False, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
        path = w.store / "teams/crew/team.json"
        known = path.read_bytes()
        path.write_bytes(msgspec.json.encode(msgspec.json.decode(known) | {"version": 2}))
        async with w.open(resume="it") as session:
            await session.run("Tasks")
            assert session.view().agents["main"].ended == ""
        assert any("a newer Prong" in text and "update Prong" in text for text in w.warnings)
        path.write_bytes(known)
        script.add("leader", ("Spawn", spawn("alice")))
        async with w.open(resume="it") as session:
            await session.run("Spawn")
            assert [one.name for one in TeamFolder.open(w.store, "crew").team.members] == ["alice"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("tmux 2.9", r"tmux 2.9 is too old: 3.2 is needed"),
        ("", r"tmux is not installed; install it"),
    ],
    ids=["old", "missing"],
)
async def test_a_tmux_that_cannot_be_used(
    world: Worlds, server: Path, monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    """A member that was to have a pane is refused with the remedy, and is in no list."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice", **PANE))])
    for name in ("env", "sh", "git", "bash", "rg"):
        if found := shutil.which(name):
            (server / name).symlink_to(found)
    if said:
        (server / "tmux").write_text(f"#!/bin/sh\necho {said}\n")
        (server / "tmux").chmod(0o755)
    async with world(script, **GIVEN) as w:
        with monkeypatch.context() as patched:
            patched.setenv("PATH", str(server))
            await w.session.run("Go")
        assert why in text_of(w.parts)
        assert not TeamFolder.open(w.store, "crew").team.members


async def test_a_tmux_server_that_is_killed(world: Worlds, server: Path) -> None:
    """Its members end with it; the leader is told of each once, and may start them again."""
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice", **PANE)),
            ("has ended", say("I heard.")),
            ("Again", spawn("bob", **PANE)),
        ]
    )
    async with world(script, serving=Options(several=True), **GIVEN) as w:
        await w.session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        with anyio.fail_after(40):
            while not folder.team.members[0].pid:
                await anyio.sleep(0.05)
        _end(server)
        with anyio.fail_after(40):
            while "I heard." not in text_of(w.parts):
                await anyio.sleep(0.05)
        assert text_of(w.parts).count("alice has ended") == 1
        assert [one.state for one in folder.team.members] == ["ended"]
        await w.session.run("Again")
        assert "bob works in a pane of tmux" in text_of(w.parts)


async def test_a_team_on_a_network_file_system(
    world: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is told that it cannot be there and where it could; the session goes on."""
    monkeypatch.setattr(team_folder, "network_type", lambda folder: "nfs4")
    script = Cast([("Go", CREATE), ("network file system (nfs4)", say("Then without."))])
    async with world(script, **GIVEN) as w:
        turn = await w.session.run("Go")
        assert turn.text == "Then without."
        assert "set PRONG_HOME to a folder of this machine" in text_of(w.parts)


def _refuse(*given: object) -> None:
    del given
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _refuse_file(path: Path, data: bytes) -> None:
    del data
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise JournalFull(f"{path} cannot be written ({error}); {remedy(error)}")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[object]]:
    """Give what fills the disk that teams are on, for a while."""

    @contextmanager
    def fill() -> Generator[None]:
        with monkeypatch.context() as disk:
            disk.setattr(locked_file, "_write", _refuse)
            disk.setattr(mailbox, "write_whole", _refuse_file)
            yield

    return fill


@pytest.mark.parametrize(
    "step",
    [
        spawn("bob"),
        to("alice", "It is lost."),
        to("*", "It is lost."),
        to("alice", "", shutdown=True),
        call("TeamTaskCreate", {"title": "It is lost."}),
    ],
    ids=["spawn", "send", "broadcast", "end", "task"],
)
async def test_a_disk_that_is_full(world: Worlds, full: Any, step: Step) -> None:
    """The leader is told with the remedy, its turn goes on, and later the same works."""
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice")),
            ("Now", step),
            ("free some", say("I see.")),
            ("Again", step),
        ]
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        with full():
            turn = await w.session.run("Now")
        assert turn.text == "I see."
        turn = await w.session.run("Again")
        assert turn.why == "done"
        assert text_of(w.parts).count("free some") == 1


async def test_a_disk_that_is_full_before_there_is_a_team(world: Worlds, full: Any) -> None:
    """The team is not there, not in parts either, and can be made once there is room."""
    script = Cast([("Now", CREATE), ("free some", say("I see.")), ("Again", CREATE)])
    async with world(script, **GIVEN) as w:
        with full():
            turn = await w.session.run("Now")
        assert turn.text == "I see."
        assert not any((w.store / "teams").iterdir())
        await w.session.run("Again")
        assert TeamFolder.open(w.store, "crew").team.members == ()


WAITS = "until test -e full; do sleep 0.02; done; echo It is full"


@pytest.mark.parametrize(
    ("first", "begun"),
    [
        (to("leader", "It is lost."), LeadTeam("send", "alice", "Hello.")),
        (to("leader", "", approve=True), LeadTeam("end", "alice")),
        (Step((Text("Step one."), Call("ExitPlanMode", {}))), None),
    ],
    ids=["send", "agree", "propose"],
)
async def test_a_disk_that_is_full_for_a_member(
    world: Worlds, full: Any, first: Step, begun: LeadTeam | None
) -> None:
    """It is told with the remedy and goes on; a plan that was not sent can be proposed again."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", plan=begun is None))],
        alice=[
            ("The time has come", call("Bash", {"command": WAITS})),
            ("It is full", first),
            ("free some", say("I see.")),
            ("And now", first),
            ("asks you to end", say("In a moment.")),
        ],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        if begun is not None:
            await w.session.send(begun)
            await w.session.wait_settled()
        await w.session.send(LeadTeam("send", "alice", "The time has come"))
        with anyio.fail_after(40):
            while not [one for one in w.told(ToolStarted) if one.title.startswith("until")]:
                await anyio.sleep(0.02)
        with full():
            w.write("full", "")
            await w.session.wait_settled()
        assert "free some" in text_of(w.parts, "main/alice")
        await w.session.send(LeadTeam("send", "alice", "And now"))
        await w.session.wait_settled()
        assert text_of(w.parts, "main/alice").count("free some") == 1
