"""A terminal whose program was ended by force, in a real tmux."""

from __future__ import annotations

import os
import shutil
import signal
import termios
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
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
AS_IT_WAS = ["0", "0", "1"]


def told(screen: Any, form: str) -> str:
    """Give what tmux says of the window."""
    return screen.tmux("display-message", "-p", "-t", "it", form).strip()


def watchers(screen: Any) -> list[str]:
    """Give the watchers of the screen's own terminal that run; others may be watched meanwhile."""
    tty = told(screen, "#{pane_tty}")
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"prong-terminal" in words and str((path.parent / "fd/1").readlink()) == tty:
                found.append(path.parent.name)
    return found


def keys_are_signals(screen: Any) -> bool:
    """Whether the terminal that a screen shows is as a shell has it, and as no face of ours."""
    fd = os.open(told(screen, "#{pane_tty}"), os.O_RDONLY | os.O_NOCTTY)
    try:
        return bool(termios.tcgetattr(fd)[3] & termios.ISIG)
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
            while (told(screen, FLAGS)[0] == "1") != shown:
                await anyio.sleep(0.05)
        while keys_are_signals(screen):
            await anyio.sleep(0.05)
        (lock,) = w.store.rglob("*.lock")
        os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
        # What the shell says next may be on the screen that is put away just then, and would stand
        # between what is typed and what is given back.
        with anyio.fail_after(40):
            while not keys_are_signals(screen):
                await anyio.sleep(0.02)
            while told(screen, FLAGS).split()[:3] != AS_IT_WAS:
                await anyio.sleep(0.02)
            while told(screen, "#{pane_current_command}") != "cat":
                await anyio.sleep(0.02)
        screen.type("typed afterwards")
        # The terminal shows what is typed, and what reads it gives it back.
        await screen.see("typed afterwards\ntyped afterwards")


async def test_nothing_watches_once_all_is_over(world: Worlds, terminal: Terminal) -> None:
    """A program that ends in order leaves no watcher, and one line of an exit code."""
    async with (
        world([say("First.")], opens=False) as w,
        terminal(w, "--full", "Begin", TERM="screen-256color") as screen,
    ):
        await screen.see("First.")
        assert watchers(screen)
        screen.type("/quit")
        await screen.see("exit=0")
        assert not watchers(screen)
