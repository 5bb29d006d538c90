"""Notes for later sessions, as the command line and the terminal show and switch them."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from prong.testing import Script, Worlds, say, stall

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("F20")]

Terminal = Callable[..., AbstractAsyncContextManager[Any]]
ASKED = "Later sessions of this project"


async def test_a_script_keeps_shows_and_clears(world: Worlds, program: Any) -> None:
    """The answer stands alone, what was kept is told beside it; then it is shown and deleted."""
    play = Script([say("Hello.")], {ASKED: [say("ADD: Run make check.")]})
    async with world(play, opens=False) as w:
        done = await program.run(w, "-p", "Hi", "--memory", "on")
        assert done.stdout == b"Hello.\n"
        assert b"kept 1 note for later sessions in" in done.stderr
        path = (await program.run(w, "memory", "path")).stdout.decode().strip()
        shown = (await program.run(w, "memory")).stdout.decode()
        assert "neither kept nor read" in shown
        assert "  - Run make check." in shown
        found = json.loads((await program.run(w, "memory", "--json")).stdout)
        assert found["path"] == path
        assert not found["on"]
        assert b"deleted" in (await program.run(w, "memory", "clear")).stdout
        assert b"(none yet)" in (await program.run(w, "memory")).stdout
        wrong = await program.run(w, "-p", "Hi", "--memory", "on", "--bare")
        assert wrong.returncode == 2


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_the_terminal_switches_and_keeps(world: Worlds, terminal: Terminal) -> None:
    """/memory shows, switches and keeps; on leaving, what is new is kept and told."""
    answers = [say("ADD: Run make check."), say("ADD: Use tabs.")]
    play = Script([say("Hello."), say("More.")], {ASKED: answers})
    async with world(play, opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.type("/memory now")
        await screen.see("notes for later sessions are off")
        screen.type("/memory on")
        await screen.see("are kept and read", "(none yet)")
        screen.type("Hi")
        # An answer is seen before its turn has ended.
        await screen.see("Hello.\n>")
        screen.type("/memory now")
        await screen.see("kept 1 note for later sessions")
        screen.type("/memory")
        await screen.see("- Run make check.")
        screen.type("Go on")
        await screen.see("More.\n>")
        screen.type("/quit")
        shown = await screen.see("Ctrl+C leaves without", "exit=0")
        assert shown.count("kept 1 note") == 2


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_leaving_need_not_wait(world: Worlds, terminal: Terminal) -> None:
    """Ctrl+C while notes are asked for on leaving leaves at once, in order."""
    play = Script([say("Hello.")], {ASKED: [stall(600, then=say("ADD: never " * 40))]})
    async with world(play, opens=False) as w, terminal(w, "--memory", "on") as screen:
        await screen.see("> ")
        screen.type("Hi")
        await screen.see("Hello.\n>")
        screen.type("/quit")
        await screen.see("Ctrl+C leaves without")
        while not any(r.headers.get("x-prong-sidecar") == "memory" for r in w.server.records):
            await anyio.sleep(0.02)
        screen.key("C-c")
        await screen.see("exit=0")
        assert not list(w.store.rglob("notes.md"))


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT])
async def test_what_was_cut_off_is_kept_once_by_the_next(
    world: Worlds, program: Any, which: signal.Signals
) -> None:
    """Killed or interrupted while it is asked: nothing is written, and a later session keeps it."""
    answers = [stall(600, then=say("ADD: never " * 40)), say("ADD: Run make check.")]
    play = Script([say("Hello."), say("More.")], {ASKED: answers})
    async with world(play, opens=False) as w:
        process: Process = await program.start(w, "-p", "Hi", "--memory", "on")
        async with process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            while not any(r.headers.get("x-prong-sidecar") == "memory" for r in w.server.records):
                await anyio.sleep(0.02)
            process.send_signal(which)
            answer = b"".join([piece async for piece in process.stdout])
            await process.wait()
        assert answer == (b"Hello.\n" if which is signal.SIGINT else b"")
        assert not list(w.store.rglob("notes.md"))
        done = await program.run(w, "-p", "Go on", "--continue", "--memory", "on")
        assert done.stdout == b"More.\n", done.stderr
        (notes,) = w.store.rglob("notes.md")
        assert notes.read_text().count("- Run make check.") == 1
        assert not list(w.store.rglob("*.tmp"))
