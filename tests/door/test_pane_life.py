"""How members in panes of a real tmux end, come back, and what they leave: each end is told once."""

from __future__ import annotations

import os
import signal

import pytest

from prong.cost import Prices
from prong.cost.receipt import Receipt
from prong.journal.note import ReceiptClosed
from prong.journal.replay import Replay, read_journal
from prong.mail import TeamFolder
from prong.session import Books
from prong.system.identity import is_alive
from prong.testing import World, Worlds, call, say
from prong.testing.program import Program
from shared.pane_team import (
    SEVERAL,
    TYPED,
    Terminal,
    alice,
    begin,
    first_of_alice,
    panes,
    play,
)
from shared.waiting import until

# Several programs are begun one after the other.
pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.timeout(180)]


def leader_journal(w: World) -> Replay:
    """Read what the leader has stored."""
    session = TeamFolder.open(w.store, "crew").team.leader
    (path,) = w.store.rglob(f"{session}.jsonl")
    return read_journal(path)


def receipt(w: World) -> Receipt:
    """Give the one receipt that the leader has of alice."""
    notes = dict(leader_journal(w).each(ReceiptClosed))
    return notes["main/alice"].value


@pytest.mark.spec("M1", "F9", "C1")
@pytest.mark.parametrize("how", ["asked", "killed"])
async def test_a_fork_in_a_pane_has_a_receipt(world: Worlds, terminal: Terminal, how: str) -> None:
    """Its leader is told once what it shared, read and saved, however it ended; it is stored."""
    async with world(play(), opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("y")
        await screen.see("Heard of it.")
        await until(lambda: alice(w).state == "idle")
        if how == "asked":
            screen.type("/team stop alice")
        else:
            os.kill(alice(w).pid, signal.SIGKILL)
        shown = await screen.see("Gone then.")
        assert shown.count("receipt: alice") == 1
        paid = receipt(w)
        first = first_of_alice(w)
        assert paid.read == first.usage.read >= 0.99 * paid.predicted_read > 0
        assert 0 < paid.bytes_shared < paid.bytes_first
        assert (paid.status, paid.miss) == ("completed" if how == "asked" else "killed", "")
        assert paid.saved is not None
        assert paid.saved > 0
        books = Books(leader_journal(w), Prices())
        assert [one.session for one in books.receipts] == [alice(w).session]
        assert [line.agent for line in books.lines()] == ["main", "session"]
        screen.type("/receipt alice")
        await screen.see("what it paid is in the books there")


@pytest.mark.spec("M7")
@pytest.mark.parametrize("by", ["the model", "/stop alice", "/team kill alice"])
async def test_a_member_in_a_pane_is_stopped_at_once(
    world: Worlds, terminal: Terminal, by: str
) -> None:
    """As one in the process is; with its pane, its question and its process, though it hangs."""
    cast = play(**TYPED)
    cast.add("leader", ("Stop it", call("TaskStop", {"task_id": "alice"})))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        await until(lambda: alice(w).pid)
        pid = alice(w).pid
        os.kill(pid, signal.SIGSTOP)
        screen.type("n")
        screen.type("Stop it" if by == "the model" else by)
        await screen.see("alice and everything it started was stopped")
        shown = await screen.see("Gone then.")
        assert shown.count("Gone then.") == 1
        assert not panes(screen)
        assert alice(w).state == "ended"
        assert not is_alive(pid, alice(w).since)


@pytest.mark.spec("M7", "M9")
async def test_a_member_that_is_resumed_by_hand_is_led_again(
    world: Worlds, terminal: Terminal
) -> None:
    """A running leader shows it again, it asks and is answered, and its second end is told too."""
    cast = play(**TYPED)
    cast.add("leader", ("Back again", say("So it is.")), ("has ended", say("Gone for good.")))
    cast.add("alice", ("Go on", call("SendMessage", {"to": "leader", "message": "Back again"})))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        await until(lambda: alice(w).pid)
        os.kill(alice(w).pid, signal.SIGKILL)
        await screen.see("Gone then.")
        async with terminal(w, "--resume", alice(w).session) as own:
            await own.see("> ")
            await until(lambda: (alice(w).state, alice(w).runs) == ("idle", 2))
            await screen.see("alice goes on: a part")
            own.type("Go on")
            await screen.see("So it is.")
            assert not panes(screen)
            os.kill(alice(w).pid, signal.SIGKILL)
            shown = await screen.see("Gone for good.")
            assert shown.count("receipt: alice") == 2


@pytest.mark.spec("M7", "M8")
async def test_a_sleeper_that_is_resumed_by_hand_sleeps_on(
    world: Worlds, terminal: Terminal
) -> None:
    """It is idle at once, without a request, and a task that becomes free wakes it."""
    cast = play(**TYPED)
    cast.add("leader", ("A task", call("TeamTaskCreate", {"title": "Mend it"})))
    cast.add("alice", ("is free", call("SendMessage", {"to": "leader", "message": "I am up"})))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("y")
        await screen.see("Heard of it.")
        await until(lambda: alice(w).state == "idle")
        os.kill(alice(w).pid, signal.SIGKILL)
        await screen.see("Gone then.")
        requests = len(w.server.records)
        async with terminal(w, "--resume", alice(w).session) as own:
            await own.see("> ")
            await until(lambda: (alice(w).state, alice(w).runs) == ("idle", 2))
            assert len(w.server.records) == requests
            screen.type("A task")
            await own.see("Sent to leader.")


@pytest.mark.spec("M7")
async def test_who_ended_while_nobody_led_is_told_of_at_the_resume(
    world: Worlds, terminal: Terminal
) -> None:
    """A leader that is closed and resumed hears once of a member that has left in between."""
    async with world(play(**TYPED), opens=False, serving=SEVERAL) as w:
        async with terminal(w, "--team") as screen:
            await begin(screen)
            screen.type("y")
            # What it has not heard it would hear together with the end, and answer in one.
            await screen.see("Heard of it.")
            await until(lambda: alice(w).state == "idle")
            session = TeamFolder.open(w.store, "crew").team.leader
            screen.type("/quit")
            await screen.see("exit=0")
            os.kill(alice(w).pid, signal.SIGTERM)
            await until(lambda: alice(w).state == "ended")
        for again in range(2):
            async with terminal(w, "--resume", session) as screen:
                await screen.see("> ")
                if again:
                    screen.type("/receipt alice")
                    await screen.see("alice completed")
                else:
                    await screen.see("Gone then.")
                screen.type("/quit")
                await screen.see("exit=0")
        told = [entry for _, entry in leader_journal(w).agents["main"].entries()]
        assert str(told).count("alice has ended.") == 1


@pytest.mark.spec("M1", "M7", "M9")
async def test_a_team_is_deleted_from_another_shell(
    world: Worlds, terminal: Terminal, program: Program
) -> None:
    """Not while a member runs; by force it ends with its pane, and its leader goes on alone."""
    cast = play(**TYPED)
    cast.add("leader", ("Still there?", say("I am.")))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        await until(lambda: alice(w).pid)
        member = alice(w)
        refused = await program.run(w, "team", "delete", "crew")
        assert refused.returncode == 2
        assert b"alice of crew still run" in refused.stderr
        deleted = await program.run(w, "team", "delete", "crew", "--force")
        assert b"crew is deleted, with 1 member," in deleted.stdout
        assert f"prong --resume {member.session}".encode() in deleted.stdout
        assert not is_alive(member.pid, member.since)
        await until(lambda: not panes(screen))
        shown = await screen.see("Gone then.")
        assert shown.count("Gone then.") == 1
        screen.type("Still there?")
        await screen.see("I am.")
        async with terminal(w, "--resume", member.session) as own:
            await own.see("this session goes on without a team")


@pytest.mark.spec("M9")
async def test_a_member_that_cannot_begin_is_told_of_soon(
    world: Worlds, terminal: Terminal
) -> None:
    """A program that fails before it has joined leaves its pane with the reason, and is told."""
    cast = play(**TYPED, model="nosuch:model")
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await screen.see("> ")
        screen.type("Begin")
        await screen.see("Gone then.")
        assert "its pane says why" in str(list(leader_journal(w).agents["main"].entries()))
        assert panes(screen) == ["alice"]
        assert alice(w).state == "ended"
        shown = screen.tmux("list-panes", "-a", "-f", "#{!=:#{@prong},}", "-F", "#{pane_id}")
        assert "nosuch" in screen.tmux("capture-pane", "-p", "-t", shown.strip())
