"""A member in a pane whose plan its leader approves, and answers that come too late."""

from __future__ import annotations

import os
import signal

import pytest

from prong.mail import TeamFolder
from prong.testing import Step, Worlds, call, say
from prong.testing.script import Call, Text
from shared.cast import CREATE, Cast, spawn
from shared.pane_team import SEVERAL, TYPED, Terminal, alice, begin, kill_leader, play
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door]

WRITE = call("Write", {"file_path": "made.txt", "content": "x"})
PROPOSE = Step((Text("Step one: write made.txt."), Call("ExitPlanMode", {})))


@pytest.mark.spec("P5", "M6", "M7")
async def test_a_plan_goes_to_the_leader_and_waits(world: Worlds, terminal: Terminal) -> None:
    """It only reads until then; feedback reaches it, and a yes lets it work.

    A leader that is killed in between finds the plan open. Nobody is asked in the member's pane.
    """
    cast = Cast(
        [
            ("Begin", CREATE),
            ("You lead", spawn("alice", plan=True, **TYPED)),
            ("works in a pane", say("Alice is at work.")),
            ("asks you to approve", say("The user decides.")),
            ("asks you to approve", say("It is better now.")),
        ],
        alice=[
            ("PART of alice", WRITE),
            ("into the plan", PROPOSE),
            ("Name the test", PROPOSE),
            ("is approved", WRITE),
        ],
    )
    edits = ("--permission-mode", "acceptEdits")
    async with (
        world(cast, opens=False, serving=SEVERAL) as w,
        terminal(w, "--team", *edits) as screen,
    ):
        await screen.see("> ")
        screen.type("Begin")
        await screen.see("The user decides.")
        await until(lambda: alice(w).state == "idle")
        pane = screen.tmux("list-panes", "-a", "-f", "#{!=:#{@prong},}", "-F", "#{pane_id}")
        assert "[y]" not in screen.tmux("capture-pane", "-p", "-t", pane.strip())
        screen.type("/team reject alice Name the test")
        await screen.see("It is better now.")
        await until(lambda: alice(w).state == "idle")
        session = TeamFolder.open(w.store, "crew").team.leader
        await kill_leader(screen)
        async with terminal(w, "--resume", session) as again:
            await again.see("> ")
            assert not (w.root / "made.txt").exists()
            again.type("/team")
            await again.see("alice: its plan waits; /team approve alice")
            again.type("/team approve alice")
            await until((w.root / "made.txt").exists)


@pytest.mark.spec("M6", "M7")
async def test_an_answer_after_the_member_was_killed(world: Worlds, terminal: Terminal) -> None:
    """It allows nothing: not then, and not when the member is resumed."""
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        await until(lambda: alice(w).pid)
        os.kill(alice(w).pid, signal.SIGKILL)
        screen.type("y")
        await screen.see("Gone then.")
        async with terminal(w, "--resume", alice(w).session) as own:
            await own.see("> ")
            await until(lambda: alice(w).runs == 2 and alice(w).state == "idle")
            assert not (w.root / "made").exists()
