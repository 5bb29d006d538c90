"""Typing in the line-by-line terminal, as a user does it in a real tmux."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.testing import Clock, Script, Worlds, call, calls, delay, report, say, stall
from shared.picture import PNG

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X2"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
Terminal = Callable[..., AbstractAsyncContextManager[Any]]
UNTIL_GO = {"command": "until [ -e go ]; do sleep 0.05; done"}
BYPASS = ("--permission-mode", "bypassPermissions")


def said(w: Any) -> list[str]:
    """What the user has said in the last request, message by message."""
    return [r.request.last_text for r in w.server.records]


async def wait_request(w: Any, count: int) -> None:
    with anyio.fail_after(50):
        while len(w.server.records) < count:
            await anyio.sleep(0.02)


async def wait_until(screen: Any, holds: Callable[[], bool]) -> None:
    """Wait for more than that something is on the screen; tells what was there instead."""
    with anyio.move_on_after(50):
        while not holds():
            await anyio.sleep(0.05)
        return
    raise AssertionError(f"not as it should be:\n{screen.text()}")


async def test_a_paste_of_several_lines_is_one_message(world: Worlds, terminal: Terminal) -> None:
    """It stands in the line as pasted, Enter sends all of it; a long one is folded, and sent whole."""
    async with world(Script(forever=say("Aye.")), opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.paste("first line\nsecond\tline\n  third")
        await screen.see("> first line\n  second    line\n    third")
        assert w.server.records == []
        screen.put(" end")
        screen.key("Enter")
        await screen.see("Aye.")
        assert said(w)[0].endswith("first line\nsecond\tline\n  third end")
        text = "\n".join(f"row {n}" for n in range(120))
        screen.put("look: ")
        screen.paste(text)
        await screen.see("> look: [pasted 120 lines #1]")
        screen.key("Enter")
        await wait_request(w, 3)
        assert any(f"look: {text}" in one for one in said(w))
        assert "row 77" not in screen.text()


async def test_several_lines_can_be_typed(world: Worlds, terminal: Terminal) -> None:
    """Alt+Enter, Ctrl+J and a backslash make lines; afterwards every key means what it did."""
    async with world(Script(forever=say("Aye.")), opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.put("one")
        screen.key("M-Enter")
        screen.put("two")
        screen.key("C-j")
        screen.put("three\\")
        screen.key("Enter")
        screen.put("four")
        await screen.see("> one\n  two\n  three\n  four")
        screen.key("C-a")
        screen.put("X")
        screen.key("C-k", "C-u", "Up", "End")
        screen.put("!")
        screen.key("Enter")
        await screen.see("Aye.")
        assert said(w)[0].endswith("one\ntwo\nthree!\n")


async def test_what_is_typed_steers_the_turn(world: Worlds, terminal: Terminal) -> None:
    """While a turn runs a message is shown as waiting, and the model has it at its next step."""
    script = Script([call("Bash", UNTIL_GO)], forever=say("Well done."))
    async with world(script, opens=False) as w, terminal(w, *BYPASS) as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("* until", "Ctrl+C interrupts")
        screen.type("Mind the tests")
        await screen.see("waits: Mind the tests")
        screen.type("/tasks")
        await screen.see("nothing has run in the background")
        assert len(w.server.records) == 1
        (w.root / "go").touch()
        await screen.see("> Mind the tests", "Well done.")
        assert "Mind the tests" in said(w)[1]
        await wait_until(screen, lambda: "waits:" not in screen.text())


async def test_a_message_that_waits_is_taken_back(world: Worlds, terminal: Terminal) -> None:
    """The arrow up brings it into the line, where it can be changed and sent again."""
    script = Script([call("Bash", UNTIL_GO)], forever=say("Well done."))
    async with world(script, opens=False) as w, terminal(w, *BYPASS) as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("* until")
        screen.type("Mind the tests")
        await screen.see("waits: Mind the tests")
        screen.key("Up")
        await screen.see("\n> Mind the tests")
        await wait_until(screen, lambda: "waits:" not in screen.text())
        screen.type(" twice")
        await screen.see("waits: Mind the tests twice")
        (w.root / "go").touch()
        await screen.see("Well done.")
        assert "Mind the tests twice" in said(w)[1]
        assert said(w)[1].count("Mind the tests") == 1


async def test_ctrl_c(world: Worlds, terminal: Terminal) -> None:
    """It clears a line, interrupts a turn, and leaves only if pressed twice with nothing between."""
    script = Script([say("One."), call("Bash", UNTIL_GO), say("Two.")], forever=say("More."))
    async with world(script, opens=False) as w, terminal(w, *BYPASS) as screen:
        await screen.see("> ")
        screen.put("half a line")
        await screen.see("> half a line")
        screen.key("C-c")
        with anyio.fail_after(50):
            while "half a line" in screen.text():
                await anyio.sleep(0.05)
        screen.key("C-y")
        await screen.see("> half a line")
        screen.key("C-c", "C-c")
        await screen.see("once more")
        screen.type("First")
        await screen.see("One.\n>")
        screen.key("C-c")
        with anyio.fail_after(50):
            while screen.text().count("once more") < 2:
                await anyio.sleep(0.05)
        screen.type("Second")
        await screen.see("* until")
        screen.put("thought")
        screen.key("C-c", "C-c")
        await screen.see("(interrupted")
        screen.key("C-c", "C-c")
        await screen.see("exit=0")


async def test_the_screen_does_not_tear(world: Worlds, terminal: Terminal) -> None:
    """Forks report, text streams and a window shrinks while a line is typed: it stays whole."""
    words = " ".join(f"word{n}" for n in range(120))
    script = Script(
        [say("Hello."), say(words)],
        {"Part": [call("Bash", {"command": "sleep 0.2; echo x"}), report("done " * 40)]},
        forever=say(f"Heard {words}"),
    )
    async with world(script, opens=False) as w, terminal(w, *BYPASS, NO_COLOR="1") as screen:
        screen.resize(80, 24)
        await screen.see("> ")
        screen.type("Hi")
        await screen.see("Hello.")
        screen.type("/fork Part one / Part two / Part three")
        typed = ""
        for piece in ("what I ", "type meanwhile ", "is never ", "torn apart"):
            screen.put(piece)
            typed += piece
            await anyio.sleep(0.3)
        await screen.see("fork-1 completed", "fork-2 completed", "fork-3 completed")
        await screen.see(f"> {typed}")
        screen.resize(50, 20)
        await anyio.sleep(0.5)
        screen.put("!")
        await screen.see(f"> {typed}!", "word119")
        await wait_until(
            screen, lambda: not any("·" in row and "Ctrl+C" in row for row in screen.rows())
        )
        await wait_until(screen, lambda: screen.rows()[-1] == f"> {typed}!")
        await wait_until(screen, lambda: screen.text().count(typed) == 1)
        screen.key("Enter")
        with anyio.fail_after(50):
            while not any(f"{typed}!" in one for one in said(w)):
                await anyio.sleep(0.05)


async def test_a_line_longer_than_the_window(world: Worlds, terminal: Terminal) -> None:
    """It is broken into rows, the cursor goes through them, and one copy is left of it."""
    long = "abcdefghij" * 25
    async with world(Script(forever=say("Aye.")), opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.put(long)
        screen.key("C-a")
        screen.put("日本 ")
        await wait_until(screen, lambda: any(row.startswith("> 日本 abc") for row in screen.rows()))
        await wait_until(screen, lambda: len(screen.rows()) == 5)
        screen.key("Enter")
        await screen.see("Aye.")
        assert said(w)[0].endswith(f"日本 {long}")
        assert screen.text().count("日本") == 1


async def test_what_was_said_comes_back(world: Worlds, terminal: Terminal) -> None:
    """In another session the arrow up and a search find it, and a resumed one tells its past."""
    async with world(Script(forever=say("A long story.")), opens=False) as w:
        async with terminal(w) as screen:
            await screen.see("> ")
            screen.type("fix the parser")
            # An answer is seen before its turn has ended, and in its midst nobody leaves.
            await screen.see("> fix the parser\nA long story.\n>")
            screen.type("and the lexer")
            await screen.see("> and the lexer\nA long story.\n>")
            screen.key("C-d")
            await screen.see("exit=0")
        async with terminal(w, "--continue") as screen:
            await screen.see("(earlier)", "> and the lexer", "A long story.", "resumed")
            screen.key("Up", "Up")
            await screen.see("\n> fix the parser")
            screen.key("Down", "Down", "C-r")
            screen.put("pars")
            await screen.see("search: pars", "  fix the parser")
            screen.key("Enter")
            with anyio.fail_after(50):
                while not any("fix the parser" in one for one in said(w)[2:]):
                    await anyio.sleep(0.05)
        assert (w.store / "history.jsonl").stat().st_mode & 0o777 == 0o600


async def test_completion(world: Worlds, terminal: Terminal) -> None:
    """Tab completes commands with their help, arguments, and files that git does not ignore."""
    files = {
        "src/parser.py": "",
        "src/lexer.py": "",
        "build/parser.o": "",
        ".gitignore": "build/\n",
    }
    files[".git/HEAD"] = "ref: refs/heads/main\n"
    async with world([], files=files, opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.put("/mo")
        screen.key("Tab")
        await screen.see("> /mode", "show the permission mode")
        screen.put(" acc")
        screen.key("Tab")
        await screen.see("> /mode acceptEdits")
        screen.key("C-c")
        screen.put("see @par")
        screen.key("Tab")
        await screen.see("> see @src/parser.py")
        assert "parser.o" not in screen.text()


async def test_a_command_of_the_user(world: Worlds, terminal: Terminal) -> None:
    """What begins with ! runs at once, is shown, and goes to the model with the next message."""
    async with world([say("I see.")], opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        screen.type("!touch made; echo out")
        await screen.see("* !touch made; echo out", "  out")
        assert (w.root / "made").exists()
        assert w.server.records == []
        screen.type("Look")
        await screen.see("I see.")
        assert "touch made; echo out" in str(w.server.records[0].json["messages"])


async def test_the_message_in_an_editor(world: Worlds, terminal: Terminal, tmp_path: Path) -> None:
    """Ctrl+G opens the user's editor with what was typed, and takes over what it leaves."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nstty -a | grep -q " icanon" && echo cooked >> "$1"\n')
    editor.chmod(0o755)
    async with (
        world(Script(forever=say("Aye.")), opens=False) as w,
        terminal(w, EDITOR=str(editor)) as screen,
    ):
        await screen.see("> ")
        screen.put("begun")
        screen.key("C-g")
        await screen.see("> begun\n  cooked")
        screen.key("Enter")
        await screen.see("Aye.")
        assert said(w)[0].endswith("begun\ncooked")


async def test_a_picture_is_attached(world: Worlds, terminal: Terminal) -> None:
    """The path of a dropped picture becomes its name, and the picture goes with the message."""
    async with world(Script(forever=say("A dot.")), opens=False) as w, terminal(w) as screen:
        (w.root / "my dot.png").write_bytes(PNG)
        await screen.see("> ")
        screen.put("What is ")
        screen.paste(f"'{w.root}/my dot.png'")
        await screen.see("> What is [image my_dot.png #1]")
        screen.key("Enter")
        await screen.see("A dot.")
        assert '"image"' in str(w.server.records[0].json["messages"]).replace("'", '"')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_the_terminal_is_as_it_was(
    world: Worlds, terminal: Terminal, number: signal.Signals
) -> None:
    """However the program is asked to end, the terminal echoes and collects lines again."""
    async with (
        world([stall(600, then=say("Never."))], opens=False) as w,
        terminal(w, "Begin") as screen,
    ):
        await wait_request(w, 1)
        await screen.see("Ctrl+C interrupts")
        (lock,) = w.store.rglob("*.lock")
        pid = int(lock.read_text().split()[0])
        os.kill(pid, number)
        if number == signal.SIGINT:
            await screen.see("(interrupted")
            screen.key("C-d")
        await screen.see("exit=")
        screen.type("typed after the end")
        await screen.see("typed after the end\ntyped after the end")
        screen.paste("plain")
        await screen.see("plain")
        assert "200~" not in screen.text()


async def test_a_dumb_terminal_has_plain_lines(world: Worlds, terminal: Terminal) -> None:
    """Without erasing and colours everything is still said, and nothing but text is sent."""
    script = Script([say("Hello."), call("Bash", {"command": "touch made"})], forever=say("Well."))
    async with world(script, opens=False) as w, terminal(w, TERM="dumb") as screen:
        await screen.see("> ")
        screen.type("Hi")
        await screen.see("Hello.")
        screen.type("Touch it")
        await screen.see("may it?", "[y]es")
        screen.type("y")
        await screen.see("Well.")
        assert (w.root / "made").exists()
        screen.key("C-d")
        shown = await screen.see("exit=0")
        assert "Ctrl+C interrupts" not in shown
        assert "[K" not in shown


async def test_a_dumb_terminal_is_left_as_any_other(world: Worlds, terminal: Terminal) -> None:
    """Ctrl+C says that once more leaves, and the prompt again; the second tells the way back."""
    async with world([say("Hello.")], opens=False) as w, terminal(w, TERM="dumb") as screen:
        await screen.see("> ")
        screen.type("Hi")
        await screen.see("Hello.\n>")
        screen.key("C-c")
        await screen.see("once more, /quit or Ctrl+D leaves)\n>")
        screen.key("C-c")
        shown = await screen.see("exit=0")
        assert "\n> ^C\n($" in shown
        assert "goes on with it)\nexit=0" in shown


async def test_on_a_dumb_terminal_a_prompt_is_not_lost(world: Worlds, terminal: Terminal) -> None:
    """What comes while a line is wanted begins a line of its own, and the prompt is said again."""
    script = Script(
        [
            calls(
                ("Agent", {"description": "one", "prompt": "FIRST"}),
                ("Agent", {"description": "two", "prompt": "SECOND"}),
            ),
            delay(20, then=say("Both work.")),
        ],
        {
            "FIRST": [call("Bash", {"command": "touch made"}), say("I made it.")],
            "SECOND": [delay(10, then=say("Second said."))],
        },
        forever=say("Well."),
    )
    clock = Clock()
    async with (
        world(script, opens=False, clock=clock) as w,
        terminal(w, TERM="dumb") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        # Before the turn ends: a question that comes later waits for the user's line.
        await screen.see("[main/fork-1] Bash: [y]es")
        await wait_until(screen, lambda: clock.sleepers == 2)
        clock.advance(10)
        await screen.see("Second said.")
        clock.advance(10)
        shown = await screen.see("Second said.", "Well.\n[main/fork-1] Bash: [y]es")
        assert "why not: fork" not in shown
        screen.type("y")
        shown = await screen.see("I made it.", "Well.\n>")
        assert (w.root / "made").exists()


async def test_on_a_dumb_terminal_a_repeated_prompt_tells_of_a_question(
    world: Worlds, terminal: Terminal
) -> None:
    """A question that came while a line was wanted is not lost above what was said since."""
    script = Script(
        [
            calls(
                ("Agent", {"description": "one", "prompt": "FIRST"}),
                ("Agent", {"description": "two", "prompt": "SECOND"}),
            ),
            say("Both work."),
        ],
        {
            "FIRST": [delay(10, then=call("Bash", {"command": "touch made"})), say("I made it.")],
            "SECOND": [delay(20, then=say("Second said."))],
        },
        forever=say("Well."),
    )
    clock = Clock()
    async with (
        world(script, opens=False, clock=clock) as w,
        terminal(w, TERM="dumb") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        # Once its turn has ended: a question that comes before that waits for no line.
        await screen.see("Both work.\n> ")
        await wait_until(screen, lambda: clock.sleepers == 2)
        clock.advance(10)
        await screen.see("[main/fork-1] asks, after this line: ")
        await wait_until(screen, lambda: clock.sleepers == 1)
        clock.advance(10)
        await screen.see("Well.\n(a question waits; Enter shows it) >")
        screen.key("Enter")
        await screen.see("may it? touch made", "[main/fork-1] Bash: [y]es")
        screen.type("y")
        await screen.see("I made it.")
        assert (w.root / "made").exists()


async def test_a_slip_in_a_command_is_pointed_out(world: Worlds, terminal: Terminal) -> None:
    """The command that was probably meant is named, and the list of others leaves this one out."""
    async with world([say("Aye.")], opens=False) as w, terminal(w, "Hi") as screen:
        await screen.see("Aye.")
        screen.type("/hlep")
        await screen.see("there is no command /hlep", "did you mean /help?")
        screen.type("/resume")
        shown = await screen.see("/resume ID goes on with one")
        (lock,) = w.store.rglob("*.lock")
        assert shown.count(lock.name.partition(".")[0]) == 1


async def test_escape_interrupts_the_turn_alone(world: Worlds, terminal: Terminal) -> None:
    """The turn stops, what runs in the background goes on."""
    script = Script(
        [
            call("Bash", {"command": "sleep 600", "run_in_background": True}),
            delay(600, then=say("Never.")),
        ],
        forever=say("Well."),
    )
    async with world(script, opens=False) as w, terminal(w, *BYPASS) as screen:
        await screen.see("> ")
        screen.type("Go")
        await wait_request(w, 2)
        screen.key("Escape")
        await screen.see("(interrupted", "1 command")
        screen.type("/tasks")
        await screen.see("task-1  running")


async def test_all_of_a_change_can_be_seen_before_it_is_allowed(
    world: Worlds, terminal: Terminal
) -> None:
    """At 24 rows the file's name stands by the question, and v shows what was left out."""
    content = "".join(f"line {n}\n" for n in range(60))
    script = Script([call("Write", {"file_path": "n.txt", "content": content})], forever=say("Ok."))
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        screen.resize(80, 24)
        await screen.see("> ")
        screen.type("Go")
        await screen.see("more lines; v shows all of them", "Write: [y]es")
        assert any("n.txt" in row for row in screen.rows())
        assert "+line 59" not in screen.text()
        screen.type("v")
        await screen.see("+line 59", "Write: [y]es")
        assert not (w.root / "n.txt").exists()
        screen.type("y")
        await screen.see("Ok.")
        assert (w.root / "n.txt").read_text() == content


@pytest.mark.parametrize("face", ["--full", "--plain"])
async def test_another_model_for_a_stored_session_is_asked_for(
    world: Worlds, terminal: Terminal, face: str
) -> None:
    """Before a session is resumed with another model, from the command line or within, the loss is
    said, and over the set sum the user decides; otherwise it goes on with the model it had.
    """
    script = Script([], {"Still there?": [say("Yes, still.")]}, forever=say("Aye."))
    async with world(script, opens=False) as w:
        w.server.moves_prefix = "the model is changed"
        w.write("../home/.prong/settings.json", '{"confirmAboveUsd": 0.0001}')
        async with w.open() as session:
            await session.run("Hi")
        again = (face, "--resume", session.id, "--model", "claude-opus-5")
        async with terminal(w, *again, NO_COLOR="1") as screen:
            await screen.see("tokens anew: about $", "more; go on? [y]es, [n]o: ")
            screen.type("n")
            await screen.see("claude-sonnet-5-5", "> ")
            screen.type("/quit")
            shown = await screen.see(
                "exit=0", "(left as it was: it goes on with claude-sonnet-5-5)"
            )
            assert "opus" not in shown.partition("left as it was")[2]
        async with terminal(w, face, "--model", "claude-opus-5", NO_COLOR="1") as screen:
            await screen.see("claude-opus-5", "> ")
            screen.type(f"/resume {session.id}")
            await screen.see("more; go on? [y]es, [n]o: ")
            screen.type("y")
            await screen.see(
                "another model has to read all", "from claude-sonnet-5-5 to claude-opus-5"
            )
            screen.type("Still there?")
            await screen.see("Yes, still.")
        assert w.server.records[-1].json["model"] == "claude-opus-5"


async def test_what_costs_much_is_asked_for(world: Worlds, terminal: Terminal) -> None:
    """Before the cache is given up the loss is said; over the set sum the user decides."""
    async with world(Script(forever=say("Aye.")), opens=False) as w:
        w.server.moves_prefix = "the model is changed"
        w.write("../home/.prong/settings.json", '{"confirmAboveUsd": 0.0001}')
        async with terminal(w, NO_COLOR="1") as screen:
            await screen.see("> ")
            screen.type("Hi")
            # An answer is seen before its turn has ended.
            await screen.see("Aye.\n>")
            screen.type("/model claude-opus-5")
            await screen.see("tokens anew: about $", "go on? [y]es, [n]o: ")
            screen.type("n")
            await screen.see("(left as it was)")
            screen.type("/model claude-opus-5")
            with anyio.fail_after(50):
                while screen.text().count("go on?") < 2:
                    await anyio.sleep(0.05)
            screen.key("C-c")
            with anyio.fail_after(50):
                while screen.text().count("(left as it was)") < 2:
                    await anyio.sleep(0.05)
            screen.type("/model claude-opus-5")
            with anyio.fail_after(50):
                while not screen.rows()[-1].startswith("that is $"):
                    await anyio.sleep(0.05)
            screen.type("y")
            await screen.see("from claude-sonnet-5-5 to claude-opus-5")


async def test_going_back_to_an_earlier_message(world: Worlds, terminal: Terminal) -> None:
    """/rewind goes on in a copy with the message ready to be changed."""
    async with world(Script(forever=say("Aye.")), opens=False) as w:
        w.server.moves_prefix = "the copy goes on from before a message"
        async with terminal(w, NO_COLOR="1") as screen:
            await screen.see("> ")
            screen.type("first words")
            # An answer is seen before its turn has ended.
            await screen.see("> first words\nAye.\n>")
            screen.type("second words")
            await screen.see("> second words\nAye.\n>")
            screen.type("/rewind")
            await screen.see("  1  first words", "  2  second words")
            screen.type("/rewind 2")
            await screen.see("going on as", "resumed")
            # What was said before looks the same, but for its place.
            await wait_until(screen, lambda: screen.rows()[-1] == "> second words")
            screen.type(" anew")
            await wait_until(
                screen, lambda: any(one.endswith("second words anew") for one in said(w))
            )
            asked = next(
                one
                for one in w.server.records
                if one.request.last_text.endswith("second words anew")
            )
            assert str(asked.json["messages"]).count("second words") == 1
            screen.key("C-d")
            await screen.see("exit=0")


@pytest.mark.spec("L8")
async def test_a_kill_during_a_command_of_the_user(world: Worlds, terminal: Terminal) -> None:
    """The conversation says that it was begun, nothing runs it again, and nobody is woken."""
    async with world(Script([say("Hello.")], forever=say("I see.")), opens=False) as w:
        async with terminal(w) as screen:
            await screen.see("> ")
            screen.type("Hi")
            await screen.see("Hello.")
            await wait_request(w, 2)
            screen.type("!echo $$ >> begun; exec sleep 600")
            begun = w.root / "begun"
            # Its shell is ended too, and could be between opening the file and writing to it.
            await wait_until(screen, lambda: begun.exists() and bool(begun.read_text()))
            (lock,) = w.store.rglob("*.lock")
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            await screen.see("exit=137")
        async with terminal(w, "--continue") as screen:
            await screen.see("resumed", "\n>")
            screen.type("What now?")
            await screen.see("I see.")
            assert "no answer to" not in screen.text()
        assert len(begun.read_text().split()) == 1
        asked = next(one for one in w.server.records if "What now?" in one.request.last_text)
        assert str(asked.json["messages"]).count("exec sleep 600") == 1
