"""A terminal whose program was ended by force, in a real tmux."""

from __future__ import annotations

import os
import shutil
import signal
import termios
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.testing import Worlds, say, stall

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X2"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

Terminal = Callable[..., AbstractAsyncContextManager[Any]]
FLAGS = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{bracket_paste_flag}"


def watchers() -> list[str]:
    """Give the watchers of terminals that run, by their first words."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"prong-terminal" in words:
            found.append(path.parent.name)
    return found


def settings(screen: Any) -> str:
    """Give the settings of the terminal that a screen shows."""
    name = screen.tmux("display-message", "-p", "-t", "it", "#{pane_tty}").strip()
    fd = os.open(name, os.O_RDONLY | os.O_NOCTTY)
    try:
        return repr(termios.tcgetattr(fd))
    finally:
        os.close(fd)


@pytest.mark.parametrize("face", ["--full", "--plain"])
@pytest.mark.parametrize("swapped", [False, True], ids=["at once", "after Ctrl+O"])
async def test_a_kill_leaves_the_terminal_as_it_was(
    world: Worlds, terminal: Terminal, face: str, swapped: bool
) -> None:
    """Its modes, its settings and its cursor; what is typed next is seen once."""
    shown = face == "--full"
    async with (
        world([say("First."), stall(600)], opens=False) as w,
        terminal(w, face, "Begin", TERM="screen-256color") as screen,
    ):
        await screen.see("First.")
        if swapped:
            screen.key("C-o")
            shown = not shown
            while (screen.tmux("display-message", "-p", "-t", "it", FLAGS)[0] == "1") != shown:
                await anyio.sleep(0.05)
        raw = settings(screen)
        (lock,) = w.store.rglob("*.lock")
        os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
        await screen.see("exit=137")
        with anyio.fail_after(10):
            while settings(screen) == raw:
                await anyio.sleep(0.02)
            flags = screen.tmux("display-message", "-p", "-t", "it", FLAGS).split()
        assert flags[:3] == ["0", "0", "1"]
        screen.type("typed afterwards")
        # The terminal shows what is typed, and what reads it gives it back.
        await screen.see("typed afterwards\ntyped afterwards")


async def test_nothing_watches_once_all_is_over(world: Worlds, terminal: Terminal) -> None:
    """A program that ends in order leaves no watcher, and one line of an exit code."""
    before = {*watchers()}
    async with (
        world([say("First.")], opens=False) as w,
        terminal(w, "--full", "Begin", TERM="screen-256color") as screen,
    ):
        await screen.see("First.")
        assert {*watchers()} - before
        screen.type("/quit")
        await screen.see("exit=0")
        assert not {*watchers()} - before
