"""The full screen as a user sees it in a real tmux."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES

from prong.face.cell import cells
from prong.face.full.output_thread import OutputThread
from prong.testing import Script, Worlds, call, say, stall
from prong.testing.ssh_host import ssh_host
from shared.running import runs
from shared.ssh import needs_sshd

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X2"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

Terminal = Callable[..., AbstractAsyncContextManager[Any]]
HEAD = "prong  claude-sonnet-5-5"


async def test_one_session_in_both_faces(world: Worlds, terminal: Terminal) -> None:
    """Ctrl+O prints the conversation and goes on line by line in the same session, and returns."""
    later = {"Third words": [say("Third.")], "Last words": [say("Last.")]}
    async with world(Script([], later, forever=say("Aye.")), opens=False) as w:
        async with terminal(w, "--full", TERM="screen-256color") as screen:
            await screen.see(HEAD, "Ctrl+O")
            screen.type("First words")
            await screen.see("Aye.")
            screen.put("begun here")
            await screen.see("> begun here")
            screen.key("C-o")
            while "Shift+Tab mode" in "\n".join(screen.rows()):
                await anyio.sleep(0.05)
            shown = await screen.see("> First words", "Aye.", "> begun here")
            assert shown.index("> First words") < shown.index("> begun here")
            screen.key("Enter")
            await screen.see("> begun here\nAye.")
            screen.key("C-o")
            await screen.see(HEAD, "Ctrl+O line by line")
            screen.type("Third words")
            await screen.see("Third.")
            screen.key("C-o")
            # What was said there the first time is in sight again before anything is printed.
            last = "(line by line; Ctrl+O brings the full screen back)\n> "
            shown = await screen.see(f"> Third words\n\nThird.\n{last}")
            for words in ("First words", "begun here", "Third words"):
                assert shown.count(f"> {words}\n") == 1, "nothing is printed twice"
            screen.key("C-o")
            await screen.see(HEAD, "Ctrl+O line by line")
            screen.type("Last words")
            await screen.see("Last.")
            screen.type("/quit")
            shown = await screen.see("exit=0")
            told = shown.rstrip().rpartition("> Last words\n\nLast.\n")[2]
            assert re.fullmatch(r"\(\$0\.\d+; prong --resume \S+ goes on with it\)\nexit=0", told)
            screen.type("typed after the end")
            await screen.see("typed after the end\ntyped after the end")
        sessions = {record.request.last_text for record in w.server.records}
        assert {"First words", "begun here"} <= {text.splitlines()[-1] for text in sessions}


@pytest.mark.parametrize("face", ["--full", "--plain"])
async def test_what_is_typed_before_it_is_there(
    world: Worlds, terminal: Terminal, face: str
) -> None:
    """Words and Enter that were typed while the program still started are sent."""
    async with (
        world(Script(forever=say("Aye.")), opens=False) as w,
        terminal(w, face, TERM="screen-256color") as screen,
    ):
        screen.type("Hi there")
        await screen.see("> Hi there", "Aye.")


async def test_a_terminal_that_changes(world: Worlds, terminal: Terminal) -> None:
    """Another size is filled at once; a hang-up in the midst of a turn ends the session in order."""
    script = [stall(600, then=say("Slowly, " * 40))]
    async with world(script, opens=False) as w:
        async with terminal(w, "--full", "Begin", TERM="screen-256color") as screen:
            await screen.see(HEAD, "> Begin", "Slowly,")
            screen.resize(130, 30)
            await screen.see("─" * 130)
            pid = screen.tmux("display-message", "-p", "-t", "it", "#{pane_pid}").strip()
            children = (await anyio.run_process(["pgrep", "-P", pid])).stdout.split()
            os.kill(int(children[0]), signal.SIGTERM)
            await screen.see("exit=0")
        async with terminal(w, "--full", "-c", TERM="screen-256color") as screen:
            await screen.see(HEAD, "> Begin")


def test_writing_to_a_terminal_that_is_gone_ends() -> None:
    """What is written to a terminal that is gone is lost, and nobody waits for it."""
    master, slave = os.openpty()
    writer = OutputThread(os.fdopen(os.dup(slave), "w", closefd=False))

    def write() -> None:
        writer.start()
        os.close(master)
        for _ in range(10 * MAX_QUEUED_WRITES):
            writer.write("lost")
        writer.stop()

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(50)
    os.close(slave)
    assert not writing.is_alive()


async def select_these(screen: Any) -> None:
    """Select a word of the answer with the mouse, once it stays where it is, until that is drawn."""
    await screen.rest()
    row = next(n for n, row in enumerate(screen.rows(), 1) if " these words" in row)

    def drawn() -> str:
        return screen.tmux("capture-pane", "-p", "-e", "-t", "it").splitlines()[row - 1]

    before = drawn()
    for code in (f"\x1b[<0;6;{row}M", f"\x1b[<32;10;{row}M", f"\x1b[<0;10;{row}m"):
        screen.put(code)
    with anyio.fail_after(45):
        while drawn() == before:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("before", ["Take", "漢字", "👨\u200d👩"])
async def test_copying_in_tmux(world: Worlds, terminal: Terminal, before: str) -> None:
    """What is selected with the mouse is copied by Ctrl+C, in tmux by tmux, and that is said; it is
    what the mouse was over, also behind wide characters.
    """
    async with (
        world([say(f"{before} these words.")], opens=False) as w,
        terminal(w, "--full", "Hi", TERM="screen-256color") as screen,
    ):
        await screen.see(" these words.")
        await select_these(screen)
        screen.key("C-c")
        await screen.see("characters by tmux")
        assert screen.tmux("show-buffer") == "these"


@needs_sshd
async def test_copying_over_ssh(world: Worlds, terminal: Terminal, tmp_path: Path) -> None:
    """What is copied on another machine reaches the terminal that one sits at, by OSC 52."""
    with ssh_host(tmp_path / "far") as far:
        async with (
            world([say("Take these words.")], opens=False) as w,
            terminal(w, "--full", "Hi", ssh=far.bin / "ssh", TERM="screen-256color") as screen,
        ):
            # As a terminal that lets programs set its clipboard.
            screen.tmux("set-option", "-g", "set-clipboard", "on")
            await screen.see(" these words.")
            await select_these(screen)
            screen.key("C-c")
            await screen.see("characters by the terminal (OSC 52")
            assert screen.tmux("show-buffer") == "these"
            screen.type("/quit")
            await screen.see("exit=0")


@pytest.mark.parametrize(
    ("env", "why"), [({"TERM": "dumb"}, "TERM is dumb"), ({"PRONG_UI": "line"}, "")]
)
async def test_line_by_line_where_it_must_be(
    world: Worlds, terminal: Terminal, env: dict[str, str], why: str
) -> None:
    """Where no full screen can be, or none is wanted, one talks line by line; why is said."""
    words = ["--full"] if why else []
    async with world([say("Aye.")], opens=False) as w, terminal(w, *words, **env) as screen:
        await screen.see("/help", "> ", f"(line by line: {why})" if why else "")
        screen.type("Hi")
        await screen.see("Aye.")


async def test_a_question_over_ctrl_o(world: Worlds, terminal: Terminal) -> None:
    """A question that waits is put in the other face too, and answered there."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with (
        world(script, opens=False) as w,
        terminal(w, "--full", "Touch it", TERM="screen-256color") as screen,
    ):
        await screen.see("may it? touch made", "[y] once")
        screen.key("C-o")
        await screen.see("[y]es")
        screen.type("y")
        await screen.see("Done.")
        assert (w.root / "made").exists()


@pytest.mark.parametrize("swapped", [False, True], ids=["full", "line by line"])
async def test_a_hang_up_leaves_no_process(
    world: Worlds, terminal: Terminal, *, swapped: bool
) -> None:
    """When the terminal goes away the program ends, whichever face it is in by then."""
    async with world([say("Aye.")], opens=False) as w:
        async with terminal(w, "--full", "Hi", TERM="screen-256color") as screen:
            await screen.see(HEAD, "Aye.")
            pid = screen.tmux("display-message", "-p", "-t", "it", "#{pane_pid}").strip()
            (child,) = (await anyio.run_process(["pgrep", "-P", pid])).stdout.split()
            if swapped:
                screen.key("C-o")
                while "Shift+Tab mode" in "\n".join(screen.rows()):
                    await anyio.sleep(0.05)
        with anyio.fail_after(45):
            while runs(int(child)):
                await anyio.sleep(0.05)


@pytest.mark.spec("L8")
@pytest.mark.parametrize("face", ["--full", "--plain"])
async def test_what_was_said_before_a_kill_is_shown(
    world: Worlds, terminal: Terminal, face: str
) -> None:
    """Killed while the model answers, a session that is taken up shows the message, and its answer
    below it.
    """
    script = [say("First."), stall(600, then=say("Never.")), say("Answered.")]
    async with world(script, opens=False) as w:
        w.write("../home/.prong/settings.json", '{"titles": false}')
        async with terminal(w, face, "Begin", TERM="screen-256color") as screen:
            await screen.see("First.")
            screen.type("Precious words")
            while len(w.server.records) < 2:
                await anyio.sleep(0.02)
            (lock,) = w.store.rglob("*.lock")
            pid = int(lock.read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            # What the shell says next may be on the screen that is put away just then.
            while runs(pid):
                await anyio.sleep(0.05)
        async with terminal(w, face, "--continue", TERM="screen-256color") as screen:
            shown = await screen.see(
                "no answer to 'Precious words'", "> Precious words", "Answered."
            )
            assert shown.index("> Precious words") < shown.index("Answered.")


@pytest.mark.parametrize("face", ["--full", "--plain"])
async def test_the_cursor_stands_behind_what_is_typed(
    world: Worlds, terminal: Terminal, face: str
) -> None:
    """Wide characters, joined emoji, skin tones, flags and accents: the terminal's own cursor is
    where the next character goes.
    """
    async with (
        world([], opens=False) as w,
        terminal(w, face, TERM="screen-256color", LANG="C.UTF-8") as screen,
    ):
        await screen.see("> ")
        screen.put("日本 👨\u200d👩\u200d👧 👍🏽 e\u0301 🇩🇪 ❤\ufe0f x")
        await screen.see("❤ x")
        row = next(row for row in screen.rows() if row.startswith("> 日本"))
        # The cursor is put there behind the text.
        at = -1
        with anyio.move_on_after(50):
            while at != cells(row):
                await anyio.sleep(0.02)
                at = int(screen.tmux("display-message", "-p", "-t", "it", "#{cursor_x}"))
        assert at == cells(row)


async def test_a_copy_says_that_it_is_one(world: Worlds, terminal: Terminal) -> None:
    """After /branch and /rewind the new screen tells of the copy, and has the message to change."""
    async with world(Script(forever=say("Aye.")), opens=False) as w:
        w.server.moves_prefix = "the copy goes on from before a message"
        async with terminal(w, "--full", "first words", TERM="screen-256color") as screen:
            await screen.see("Aye.")
            await screen.rest()
            screen.type("/branch")
            await screen.see("this is a copy; ", "stays as it is", "> first words", "Aye.")
            screen.type("/rewind 1")
            await screen.see("Say what is to be done.", "this is a copy; ", "\n> first words")


async def test_a_paste_with_escape_codes_is_text(world: Worlds, terminal: Terminal) -> None:
    """A trace that was copied with its colours waits in the line: no key in it is pressed."""
    full = {"TERM": "screen-256color"}
    async with (
        world(Script(forever=say("Aye.")), opens=False) as w,
        terminal(w, "--full", **full) as screen,
    ):
        await screen.see(HEAD)
        screen.paste('File \x1b[35m"y.py"\x1b[0m, line 3\n\x1b[31mError\x1b[0m\x07\x03 bad')
        await screen.see('> File "y.py", line 3', "\n  Error bad")
        assert w.server.records == []


async def test_an_editor_that_fails_gives_the_screen_back(
    world: Worlds, terminal: Terminal
) -> None:
    """Ctrl+G with an editor that cannot do it says so, and the line is as it was."""
    full = {"TERM": "screen-256color", "EDITOR": "false", "VISUAL": ""}
    async with (
        world(Script(forever=say("Aye.")), opens=False) as w,
        terminal(w, "--full", **full) as screen,
    ):
        await screen.see(HEAD)
        screen.put("begun")
        await screen.see("> begun")
        screen.key("C-g")
        await screen.see("the message is as it was: false ended with code 1", "> begun")
        screen.put(" anew")
        screen.key("Enter")
        await screen.see("> begun anew", "Aye.")
