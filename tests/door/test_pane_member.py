"""Members of a team in panes of a real tmux: asked, answered, killed, and found again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from prong.mail import TeamFolder
from prong.mail.socket_folder import BELL, VIEW, socket_paths
from prong.system.identity import is_alive
from prong.testing import World, Worlds, call, say
from prong.testing.program import Program
from prong.testing.repository import Repo
from shared.cast import CREATE, Cast, spawn, to
from shared.pane_team import (
    SEVERAL,
    TYPED,
    Terminal,
    alice,
    begin,
    first_of_alice,
    kill_leader,
    panes,
    play,
)
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door]


def sockets(w: World) -> list[Path]:
    """Find the sockets of alice."""
    folder = w.store / "teams" / "crew"
    every = [path for kind in (BELL, VIEW) for path in socket_paths(folder, "alice", kind)]
    return [path for path in every if path.exists()]


def settled(w: World) -> bool:
    return not any((w.store / "teams/crew/start").iterdir())


@pytest.mark.spec("M6", "M9")
async def test_a_member_in_a_pane_asks_in_the_leaders_dialog(
    world: Worlds, terminal: Terminal
) -> None:
    """It works in a pane of its own; the answer given to the leader counts there; mail comes back.

    Nothing of how it was started is left, and when it has agreed to end its pane is gone.
    """
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        assert panes(screen) == ["alice"]
        assert settled(w)
        assert sockets(w)
        pane = screen.tmux("list-panes", "-a", "-f", "#{!=:#{@prong},}", "-F", "#{pane_id}").strip()
        assert "alice of crew" in screen.tmux("display-message", "-p", "-t", pane, "#{pane_title}")
        above = screen.tmux("show-options", "-p", "-t", pane, "pane-border-format")
        assert f"fg={alice(w).colour}" in above
        first = next(one for one in w.server.records if b"You are alice" in one.body)
        assert b"Nobody reads your text" in first.body
        screen.type("y")
        await screen.see("Heard of it.")
        assert (w.root / "made").exists()
        await until(lambda: alice(w).state == "idle")
        screen.type("/team stop alice")
        await screen.see("Gone then.")
        await until(lambda: not panes(screen))
        assert alice(w).state == "ended"


@pytest.mark.spec("M6", "P3")
async def test_what_the_leader_allows_for_the_session_holds_for_the_member(
    world: Worlds, terminal: Terminal
) -> None:
    """Its dialog offers the same rules as the member's own; one that is given is not asked again."""
    cast = play(**TYPED)
    cast.add("alice", ("Once more", call("Bash", {"command": "touch again"})))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("s")
        await screen.see("Heard of it.")
        await until(lambda: alice(w).state == "idle")
        screen.type("/tell alice Once more")
        await screen.see("Sent to alice.")
        await until((w.root / "again").exists)


@pytest.mark.spec("M6")
async def test_the_first_answer_counts(world: Worlds, terminal: Terminal) -> None:
    """What is answered in the member's own pane is asked of the leader no more."""
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        pane = screen.tmux("list-panes", "-a", "-f", "#{!=:#{@prong},}", "-F", "#{pane_id}").strip()
        await until(lambda: "[y]" in screen.tmux("capture-pane", "-p", "-t", pane))
        await anyio.sleep(1)
        screen.tmux("send-keys", "-t", pane, "y", "Enter")
        await screen.see("Heard of it.")
        assert (w.root / "made").exists()
        # Mail and what is seen of a member come by two ways.
        await until(lambda: screen.rows()[-1:] == [">"])
        screen.type("y")
        await screen.see("> y")


@pytest.mark.spec("M7", "M6")
async def test_a_leader_that_was_killed_finds_its_team_again(
    world: Worlds, terminal: Terminal, program: Program
) -> None:
    """The member goes on without it; what it asked is asked again, and the answer reaches it."""
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        session = TeamFolder.open(w.store, "crew").team.leader
        await kill_leader(screen)
        assert panes(screen) == ["alice"]
        told = (await program.run(w, "team", "show", "crew")).stdout.decode()
        assert f"its leader is not open: prong --resume {session}" in told
        assert "alice        working" in told
        async with terminal(w, "--resume", session) as again:
            await again.see("[main/alice] may it? touch made")
            again.type("y")
            await again.see("Heard of it.")
            assert (w.root / "made").exists()


@pytest.mark.spec("M7", "M9")
async def test_the_leader_is_told_of_a_member_that_was_killed(
    world: Worlds, terminal: Terminal
) -> None:
    """Once, and its pane, its question and its place in the team are gone."""
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        await until(lambda: alice(w).pid)
        os.kill(alice(w).pid, signal.SIGKILL)
        shown = await screen.see("Gone then.")
        assert shown.count("Gone then.") == 1
        await until(lambda: not panes(screen))
        assert alice(w).state == "ended"
        assert not (w.root / "made").exists()
        assert not sockets(w)


@pytest.mark.spec("M7", "T5")
async def test_a_leader_looks_what_a_member_in_a_pane_has_done(
    world: Worlds, terminal: Terminal
) -> None:
    """TaskOutput tells of it what is new each time, and waits for its end if it is to."""
    look = {"task_id": "alice"}
    cast = play(**TYPED)
    cast.add(
        "leader",
        ("Look", call("TaskOutput", look)),
        (
            "* touch made\n* SendMessage to leader\nThat was my part.",
            call("TaskOutput", {**look, "block": True, "timeout": 60_000}),
        ),
    )
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("y")
        await screen.see("Heard of it.")
        await until(lambda: alice(w).state == "idle")
        screen.type("Look")
        await screen.see("wait for alice")
        screen.type("/team kill alice")
        await screen.see("alice has ended. Session: ", "(nothing new)", "Gone then.")


@pytest.mark.spec("M1", "F1")
async def test_a_fork_in_a_pane_goes_on_from_the_leaders_bytes(
    world: Worlds, terminal: Terminal
) -> None:
    """Its first request begins with what its leader had sent, and reads that from the cache."""
    async with world(play(), opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        screen.type("y")
        await screen.see("Heard of it.")
        first = first_of_alice(w)
        assert first.usage.read > first.usage.written


@pytest.mark.spec("M9")
async def test_a_members_pane_is_taken_out_of_sight_and_back(
    world: Worlds, terminal: Terminal
) -> None:
    """It works on unseen, is asked for in the leader's dialog, and comes back where it was."""
    async with (
        world(play(**TYPED), opens=False, serving=SEVERAL) as w,
        terminal(w, "--team") as screen,
    ):
        await begin(screen)
        screen.type("y")
        await screen.see("Heard of it.")
        for action, told, name in (
            ("hide", "alice is out of sight", "prong-hidden"),
            ("show", "alice is in sight", "prong-team"),
        ):
            screen.type(f"/team {action} alice")
            await screen.see(told)
            shown = screen.tmux("list-panes", "-a", "-F", "#{window_name} #{@prong}").split("\n")
            assert [line.split()[0] for line in shown if line.endswith("/alice")] == [name]
        screen.type("/team hide nobody")
        await screen.see("there is no member 'nobody' in a pane")


@pytest.mark.parametrize(
    "more", [{"subagent_type": "Explore"}, {**TYPED, "isolation": "worktree"}], ids=["type", "tree"]
)
@pytest.mark.spec("M3", "S7")
async def test_what_a_session_of_its_own_cannot_honour_runs_in_the_process(
    world: Worlds, terminal: Terminal, more: dict[str, str]
) -> None:
    """A member whose type has rules of its own, or that has a worktree, gets no pane."""
    cast = Cast(
        [("Begin", CREATE), ("You lead", spawn("alice", **more))],
        alice=[("PART of alice", to("leader", "I am here."))],
    )
    async with world(cast, opens=False, serving=SEVERAL) as w:
        Repo(w.root).git("init", "-q")
        async with terminal(w, "--team") as screen:
            await screen.see("> ")
            screen.type("Begin")
            await screen.see("[main/alice]   Sent to leader.")
            assert panes(screen) == []
            assert not alice(w).backend


@pytest.mark.spec("M3")
async def test_a_back_end_that_was_named_is_never_replaced(
    world: Worlds, terminal: Terminal
) -> None:
    """A member that was to run by tmux and cannot is refused, with the reason."""
    cast = Cast(
        [
            ("Begin", CREATE),
            ("You lead", spawn("alice", subagent_type="Explore", backend="tmux")),
            ("the type Explore has tools, rules or hooks of its own", say("I was told so.")),
        ]
    )
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await screen.see("> ")
        screen.type("Begin")
        await screen.see("I was told so.")
        assert TeamFolder.open(w.store, "crew").team.member("alice") is None


@pytest.mark.spec("M7")
async def test_a_team_whose_folder_is_gone_costs_the_leader_nothing_else(
    world: Worlds, terminal: Terminal, tmp_path: Path
) -> None:
    """The session says that it is gone, and goes on; a member that has no team any more ends."""
    cast = play(**TYPED)
    cast.add("leader", ("Still there?", say("I am.")))
    async with world(cast, opens=False, serving=SEVERAL) as w, terminal(w, "--team") as screen:
        await begin(screen)
        member = alice(w)
        # At once: whoever finds half of it gone may remove or write something there.
        (w.store / "teams").rename(tmp_path / "gone")
        await screen.see("its mail cannot be read any more: the team crew is gone")
        await screen.see("Gone then.")
        screen.type("Still there?")
        await screen.see("I am.")
        await until(lambda: not is_alive(member.pid, member.since))
