"""What a terminal is told beside the screen: the window's title, and the bell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from prong.testing import Script, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X2")]

Terminal = Callable[..., AbstractAsyncContextManager[Any]]


async def told(screen: Any, form: str, wanted: str) -> None:
    """Wait until tmux says something of the program's window."""
    with anyio.fail_after(40):
        while screen.tmux("display-message", "-p", "-t", "it:0", form).strip() != wanted:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("face", ["--full", "--plain"])
async def test_a_window_that_nobody_looks_at(world: Worlds, terminal: Terminal, face: str) -> None:
    """Its title is the session's, with a mark while a question waits, and then the bell rings."""
    script = Script([call("Bash", {"command": "touch made"}), say("Done.")], forever=say("Well."))
    async with (
        world(script, opens=False) as w,
        terminal(w, face, TERM="screen-256color") as screen,
    ):
        await told(screen, "#{pane_title}", "prong · project")
        screen.tmux("new-window", "-t", "it:9", "sleep 600")
        screen.tmux("send-keys", "-t", "it:0", "-l", "Go")
        screen.tmux("send-keys", "-t", "it:0", "Enter")
        await told(screen, "#{pane_title}", "? prong · project")
        await told(screen, "#{window_bell_flag}", "1")
        screen.tmux("select-window", "-t", "it:0")
        await screen.see("[y]")
        # A key answers what has been in sight for a while.
        await anyio.sleep(1)
        screen.tmux("send-keys", "-t", "it:0", "-l", "y")
        if face == "--plain":
            screen.key("Enter")
        await screen.see("Done.")
        await told(screen, "#{pane_title}", "prong · A title")


async def test_escape_twice_lists_what_can_be_gone_back_to(
    world: Worlds, terminal: Terminal
) -> None:
    """Line by line too, Esc pressed twice with nothing running names the earlier messages."""
    async with (
        world(Script(forever=say("Aye.")), opens=False) as w,
        terminal(w, "--plain") as screen,
    ):
        await screen.see("> ")
        screen.type("First words")
        await screen.see("Aye.")
        await screen.rest()
        # Together: how long the machine takes between two keys is nobody's pause.
        screen.key("Escape", "Escape")
        await screen.see("  1  First words", "/rewind N goes back")
