"""A member is a child like any other: where it runs and works, whom it asks, what stops it."""

from __future__ import annotations

import anyio
import pytest

from prong.event import AgentFinished, Event, PermissionAsked
from prong.mail import TeamFolder
from prong.question import Answer
from prong.testing import Worlds, call, fail
from prong.testing.repository import make_repo
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M4", "M6", "M7")]

WRITE = call("Write", {"file_path": "made.txt", "content": "x"})


async def test_a_question_of_a_member_is_in_the_leaders_dialog(world: Worlds) -> None:
    """It is asked with the member's path, and the answer goes back to that member alone."""
    asked: list[tuple[str, str]] = []

    async def respond(path: str, question: Event) -> Answer | None:
        assert isinstance(question, PermissionAsked)
        asked.append((path, question.tool))
        return Answer(question.request_id)

    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", "bob"))],
        alice=[("PART of alice", WRITE)],
    )
    async with world(script, team=True, respond=respond) as w:
        await w.session.run("Go")
        assert asked == [("main/alice", "Write")]
        assert (w.root / "made.txt").exists()


@pytest.mark.parametrize("kind", ["fork", "general-purpose"])
async def test_a_member_runs_in_a_process_of_its_own_too(world: Worlds, kind: str) -> None:
    """With workers it writes, sleeps, is woken and ends as it does inline."""
    more = {} if kind == "fork" else {"subagent_type": kind}
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice", **more)),
            ("Wake", to("alice", "Wake up.")),
            ("End", to("alice", "", shutdown=True)),
        ],
        alice=[
            ("PART of alice", WRITE),
            ("Wake up.", to("leader", "I am awake.")),
            ("asks you to end", to("leader", "", approve=True)),
        ],
    )
    settings = '{"agents": {"backend": "process"}}'
    async with world(script, team=True, mode="bypassPermissions", settings=settings) as w:
        await w.session.run("Go")
        assert (w.root / "made.txt").exists()
        assert w.session.view().agents["main/alice"].state == "idle"
        await w.session.run("Wake")
        assert text_of(w.parts).count("I am awake.") == 1
        await w.session.run("End")
        assert [event.status for event in w.told(AgentFinished)] == ["completed"]


async def test_a_member_works_in_a_worktree_of_its_own(world: Worlds) -> None:
    """What it writes is there and not here, while it sleeps and until it ends."""
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice", isolation="worktree")),
            ("End", to("alice", "", shutdown=True)),
        ],
        alice=[
            ("PART of alice", WRITE),
            ("asks you to end", to("leader", "", approve=True)),
        ],
    )
    async with world(script, opens=False, team=True, mode="bypassPermissions") as w:
        w.root.rmdir()
        make_repo(w.root)
        async with w.open() as session:
            await session.run("Go")
            assert not (w.root / "made.txt").exists()
            (made,) = w.root.rglob("made.txt")
            await session.run("End")
            assert made.exists()
            assert "Its worktree is kept" in text_of(w.parts)


async def test_the_death_of_one_touches_no_other(world: Worlds) -> None:
    """A member whose model fails ends as failed, with a notice; the other sleeps and wakes on."""
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice", "bob")),
            ("Ask bob", to("bob", "Are you there?")),
        ],
        alice=[("PART of alice", fail(400, "invalid_request_error", "no"))],
        bob=[("Are you there?", to("leader", "I am."))],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert [event.status for event in w.told(AgentFinished)] == ["failed"]
        assert text_of(w.parts).count("<task-id>alice</task-id>") == 1
        folder = TeamFolder.open(w.store, "crew")
        assert {m.name: m.state for m in folder.team.members} == {"alice": "ended", "bob": "idle"}
        await w.session.run("Ask bob")
        assert text_of(w.parts).count("I am.") == 1


async def test_a_team_whose_folder_is_gone_is_said_to_be(world: Worlds) -> None:
    """Somebody removes the folder under a running team: it is told once, and the session lives."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice")), ("Hi", to("alice", "Hi"))])
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        TeamFolder.open(w.store, "crew").delete(force=True)
        with anyio.fail_after(50):
            while sum("cannot be read any more" in text for text in w.warnings) < 2:
                await anyio.sleep(0.05)
        # A message to who is just being stopped would end with it.
        await until(lambda: w.told(AgentFinished))
        turn = await w.session.run("Hi")
        assert turn.ok
        told = text_of(w.parts)
        assert 'teammate alice "a part" was stopped' in told
        assert "failed: there is no team crew" in told
