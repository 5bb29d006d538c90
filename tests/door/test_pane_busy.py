"""What members in panes ask while their leader is at work, and answers that come twice."""

from __future__ import annotations

import os
import signal

import pytest

from prong.mail import Cursor, PermissionRequest, PermissionResponse, TeamFolder
from prong.testing import World, Worlds, call, say, stall
from shared.pane_team import SEVERAL, TYPED, Terminal, alice, begin, play
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door]

AGAIN = call("Bash", {"command": "mkdir again"})


def asked(w: World) -> list[str]:
    """Give the ids of what alice has asked, in order."""
    found = TeamFolder.open(w.store, "crew").read("leader", Cursor()).mails
    return [m.body.request_id for m, _ in found if isinstance(m.body, PermissionRequest)]


@pytest.mark.spec("M6", "M7")
@pytest.mark.parametrize("allowed", [True, False], ids=["yes", "no"])
async def test_a_leader_that_works_is_asked_and_answers(
    world: Worlds, terminal: Terminal, allowed: bool
) -> None:
    """The answer is given and heeded in the midst of its turn; what it brings waits for the end."""
    cast = play(**TYPED)
    cast.rules["leader"][2] = ("works in a pane", stall(600, then=say("Never said.")))
    cast.add("alice", ("not today", call("SendMessage", {"to": "leader", "message": "I made it."})))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("y" if allowed else "not today")
        await until(lambda: alice(w).state == "idle")
        assert (w.root / "made").exists() is allowed
        assert "Heard of it." not in screen.text()
        screen.key("Escape")
        await screen.see("interrupted", "Heard of it.")
        assert alice(w).state == "idle"


@pytest.mark.spec("M6")
async def test_a_question_waits_for_a_leader_that_works_until_it_is_interrupted(
    world: Worlds, terminal: Terminal
) -> None:
    """An interrupt of the leader's turn takes nothing back that a member has asked."""
    cast = play(**TYPED)
    cast.rules["leader"][2] = ("works in a pane", stall(600))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.key("C-c")
        await screen.see("interrupted")
        assert not (w.root / "made").exists()
        screen.type("y")
        await screen.see("Heard of it.")
        assert (w.root / "made").exists()


@pytest.mark.spec("M6")
async def test_a_second_answer_of_the_leader_counts_for_nothing(
    world: Worlds, terminal: Terminal
) -> None:
    """Not for what was answered, and not for what the member asks next."""
    cast = play(**TYPED)
    cast.add("alice", ("Once more", AGAIN), ("too late", say("Then not.")))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        (first,) = asked(w)
        # In a container the next process may well have this number again.
        assert not first.startswith(f"{alice(w).pid}.")
        screen.type("y")
        await screen.see("Heard of it.")
        await until(lambda: alice(w).state == "idle")
        folder = TeamFolder.open(w.store, "crew")
        for answer in (
            PermissionResponse(request_id=first, allow=True, always=True),
            PermissionResponse(request_id=first, allow=False, text="No!"),
        ):
            folder.post("leader", "alice", answer)
        screen.type("/tell alice Once more")
        await screen.see("[main/alice] may it? mkdir again")
        assert len({*asked(w)}) == 2
        screen.type("that is too late")
        await until(lambda: alice(w).state == "idle")
        assert not (w.root / "again").exists()
        assert not any(b"No!" in one.body for one in w.server.records)


@pytest.mark.spec("M6", "M7")
async def test_an_answer_to_what_was_asked_before_a_kill_answers_nothing_else(
    world: Worlds, terminal: Terminal
) -> None:
    """The member that was killed counts its questions anew; an old yes is no yes to a new one."""
    cast = play(**TYPED)
    cast.add("alice", ("Once more", AGAIN))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        (first,) = asked(w)
        os.kill(alice(w).pid, signal.SIGKILL)
        await screen.see("Gone then.")
        async with terminal(w, "--resume", alice(w).session):
            await until(lambda: alice(w).runs == 2 and alice(w).state == "idle")
            screen.type("/tell alice Once more")
            await screen.see("[main/alice] may it? mkdir again")
            folder = TeamFolder.open(w.store, "crew")
            folder.post("leader", "alice", PermissionResponse(request_id=first, allow=True))
            # It stands in the box before the leader's own.
            screen.type("not that")
            await until(lambda: any(b"not that" in one.body for one in w.server.records))
            assert not (w.root / "again").exists()
