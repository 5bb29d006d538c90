"""A team that is killed and taken up again: who slept sleeps on, and mail is read exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from prong.errors import NotPossibleNow
from prong.event import AgentFinished
from prong.mail import LEADER, OUTSIDE, Member, Message, TeamFolder
from prong.testing import Worlds, call, inside, say
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M5", "M7", "L8")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
WHY = "a copy of the session goes on from where it was cut"


@contextmanager
def killed(store: Path) -> Generator[Path, None, None]:
    """Give a copy of all that is stored, as a kill at this moment would leave it."""
    yield Path(
        shutil.copytree(store, store.parent / "left", ignore=shutil.ignore_patterns("*.lock"))
    )


def cut(left: Path, name: str, word: bytes, *, lines: int) -> None:
    """Cut a file so many lines after the one before the first with that word."""
    (path,) = left.rglob(name)
    every = path.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(every) if word in line)
    path.write_bytes(b"".join(every[: first + lines]))


async def test_who_slept_sleeps_on(world: Worlds) -> None:
    """After a kill a sleeping member makes no request, is not idle anew, and reads a message."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice"))],
        alice=[("Wake up.", to("leader", "I am awake."))],
    )
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
            with killed(w.store) as left:
                pass
        requests = len(w.server.records)
        async with w.open(resume="it", store=str(left)) as session:
            await session.wait_settled()
            assert len(w.server.records) == requests
            assert [m.state for m in TeamFolder.open(left, "crew").team.members] == ["idle"]
            script.add("leader", ("Now", to("alice", "Wake up.")))
            await session.run("Now")
            assert text_of(inside(session)).count("alice has nothing to do") == 2
            assert text_of(inside(session)).count("I am awake.") == 1
            assert text_of(inside(session), "main/alice").count("Wake up.") == 1


async def test_what_was_said_just_before_a_kill_is_read_once(world: Worlds) -> None:
    """A member killed before it kept that it is idle says it again; the leader reads it once."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice"))])
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
            with killed(w.store) as left:
                pass
        cut(left, "it.jsonl", b'"idles":1', lines=0)
        cut(left, "outbox.jsonl", b"has nothing to do", lines=1)
        async with w.open(resume="it", store=str(left)) as session:
            await session.wait_settled()
            assert text_of(inside(session)).count("alice has nothing to do") == 1
        box = (left / "teams/crew/inbox/leader.jsonl").read_bytes()
        assert box.count(b'"type":"idle"') == 2


async def test_a_member_reads_nothing_again_though_the_outbox_is_lost(world: Worlds) -> None:
    """What a member has read stands in its journal, which is asked before it is told again."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice")), ("Write", to("alice", "Only once."))],
    )
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
            await session.run("Write")
            with killed(w.store) as left:
                pass
        (outbox,) = left.rglob("outbox.jsonl")
        outbox.write_bytes(b"")
        requests = len(w.server.records)
        async with w.open(resume="it", store=str(left)) as session:
            await session.wait_settled()
            assert text_of(inside(session), "main/alice").count("Only once.") == 1
            assert len(w.server.records) == requests


async def test_who_worked_goes_on(world: Worlds) -> None:
    """A member that was cut off in a call is told so, and goes on with its work."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice"))],
        alice=[
            ("PART of alice", call("Bash", {"command": "sleep 20"})),
            ("interrupt", to("leader", "Taken up.")),
        ],
    )
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go", wait_tasks=False)
            with anyio.fail_after(50):
                while "sleep 20" not in text_of(inside(session), "main/alice"):
                    await anyio.sleep(0.02)
            with killed(w.store) as left:
                pass
        async with w.open(resume="it", store=str(left)) as session:
            await session.wait_settled()
            assert text_of(inside(session)).count("Taken up.") == 1


@pytest.mark.parametrize("lost", ["nothing", "all of the outbox"])
async def test_mail_of_the_time_between_is_read_once(world: Worlds, lost: str) -> None:
    """What was sent while nobody read is read at the next start, and what was read is not again."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice"))])
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        folder.post(OUTSIDE, LEADER, Message(text="A word from the shell."))
        for _ in range(2):
            if lost != "nothing":
                (path,) = w.store.rglob("outbox.jsonl")
                path.write_bytes(b"")
            async with w.open(resume="it") as session:
                await session.wait_settled()
                told = text_of(inside(session))
                assert told.count("A word from the shell.") == 1
                assert told.count("alice has nothing to do") == 1


async def test_what_is_no_mail_is_set_aside_and_told_once(world: Worlds) -> None:
    """Damaged and forged lines in a box stop nobody; each is told of once, over restarts too."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice"))])
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        folder.post(OUTSIDE, "alice", Message(text="x"))
        forged = (folder.path / "inbox" / "alice.jsonl").read_bytes().splitlines()[-1]
        box = folder.path / "inbox" / "leader.jsonl"
        with box.open("ab") as file:
            file.write(b"no mail\n" + forged.replace(b'"outside"', b'"alice"') + b"\n")
        folder.post(OUTSIDE, LEADER, Message(text="After the damage."))
        for _ in range(2):
            async with w.open(resume="it") as session:
                await session.wait_settled()
                assert text_of(inside(session)).count("After the damage.") == 1
        assert sum("was set aside" in text for text in w.warnings) == 2


async def test_closing_ends_members_and_frees_their_tasks(world: Worlds) -> None:
    """A session that is closed leaves no member at work and no task taken."""
    claim = call("TeamTaskUpdate", {"id": "1", "status": "in_progress"})
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", call("TeamTaskCreate", {"title": "One"})),
            ("on the list", spawn("alice")),
        ],
        alice=[("PART of alice", claim)],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        assert folder.tasks.get("1").owner == "alice"
    assert [m.state for m in folder.team.members] == ["ended"]
    assert not folder.tasks.get("1").owner
    assert [e.status for e in w.told(AgentFinished)] == ["killed", "completed"]


async def test_who_is_not_taken_up_again_counts_as_ended(world: Worlds) -> None:
    """A member that its file has at work and nobody runs is in nobody's way: the team can end."""
    script = Cast([("Go", CREATE), ("Delete", call("TeamDelete"))])
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        folder.add(Member(name="ghost", state="working"))
        task = folder.tasks.create("One", by="ghost")
        folder.tasks.claim(task.id, by="ghost")
        async with w.open(resume="it") as session:
            assert [m.state for m in folder.team.members] == ["ended"]
            assert not folder.tasks.get(task.id).owner
            await session.run("Delete")
            assert "The team crew is gone, with 1 member" in text_of(inside(session))


async def test_a_copy_of_a_session_leads_no_team(world: Worlds) -> None:
    """Who goes on in a copy has the tools and no team; the team is still that of the first."""
    script = Cast([("Go", CREATE), ("You lead", say("Ok.")), ("List", call("TeamTaskList"))])
    async with world(script, opens=False, moves_prefix=WHY, **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
        async with w.open(resume="it", fork_session=True) as session:
            await session.run("List")
            assert "there is no team yet" in text_of(inside(session))
        async with w.open(resume="it") as session:
            script.add("leader", ("Again", call("TeamTaskList")))
            await session.run("Again")
            assert "There are no tasks." in text_of(inside(session))


async def test_a_session_without_teams_cannot_become_one_with(world: Worlds) -> None:
    """The tools are part of the conversation: asking for them later is refused with the reason."""
    async with world([say("Hi.")], opens=False) as w:
        async with w.open(session_id="it") as session:
            await session.run("Hi")
        with pytest.raises(NotPossibleNow, match="begun without teams"):
            async with w.open(resume="it", team=True):
                pass
