"""A leader in a real terminal, and alice, a member of its team in a pane."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from prong.mail import Member, TeamFolder
from prong.testing import Options, World, call, say
from prong.testing.service import Record
from shared.cast import CREATE, Cast, spawn, to

Terminal = Callable[..., AbstractAsyncContextManager[Any]]
TOUCH = call("Bash", {"command": "touch made"})
SEVERAL = Options(several=True)
TYPED = {"subagent_type": "general-purpose"}


def play(**more: Any) -> Cast:
    """Play a leader that starts alice, who touches a file and tells of it."""
    return Cast(
        [
            ("Begin", CREATE),
            ("You lead", spawn("alice", **more)),
            ("works in a pane", say("Alice is at work.")),
            ("I made it", say("Heard of it.")),
            ("has ended", say("Gone then.")),
        ],
        alice=[
            ("PART of alice", TOUCH),
            ("no output", to("leader", "I made it.")),
            ("Sent to leader", say("That was my part.")),
            ("asks you to end", to("leader", "", approve=True)),
        ],
    )


def alice(w: World) -> Member:
    """Give the member as the team's file has it."""
    member = TeamFolder.open(w.store, "crew").team.member("alice")
    assert member is not None
    return member


def first_of_alice(w: World) -> Record:
    """Give the member's first request; what it was started with stands in its leader's as well."""
    return next(one for one in w.server.records if b"You are alice of the team" in one.body)


def panes(screen: Any) -> list[str]:
    """Name the members whose panes are there."""
    shown = screen.tmux("list-panes", "-a", "-F", "#{@prong}").split()
    return [mark.rpartition("/")[2] for mark in shown]


async def begin(screen: Any) -> None:
    await screen.see("> ")
    screen.type("Begin")
    asked = ("[main/alice] may it? touch made", "[main/alice] Bash: [y]es")
    await screen.see("alice works in a pane of tmux", *asked)


async def kill_leader(screen: Any) -> None:
    """Kill the program that the terminal was opened with; its panes stay."""
    shell = int(screen.tmux("display-message", "-p", "-t", "it:0", "#{pane_pid}"))
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text()
    os.kill(int(children.split()[0]), signal.SIGKILL)
    await screen.see("exit=137")
