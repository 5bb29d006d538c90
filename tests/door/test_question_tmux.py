"""Questions in the line-by-line terminal: which line answers which of them."""

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

from prong.testing import Script, Worlds, call, report, say, stall

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X1", "L5"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
Terminal = Callable[..., AbstractAsyncContextManager[Any]]
UNTIL_GO = {"command": "until [ -e go ]; do sleep 0.05; done", "run_in_background": True}


def last_line(screen: Any) -> str:
    return screen.text().rstrip().splitlines()[-1]


async def test_a_line_that_is_begun_answers_nothing(world: Worlds, terminal: Terminal) -> None:
    """What is typed at `> ` stays a message, though a question comes before Enter is pressed."""
    script = Script(
        [call("Bash", UNTIL_GO), say("Started."), call("Bash", {"command": "touch made"})],
        forever=say("Well."),
    )
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("Started.")
        screen.tmux("send-keys", "-t", "it", "-l", "yes")
        await screen.see("> yes")
        (w.root / "go").touch()
        await screen.see("asks, after this line: ", "\n> yes")
        screen.key("Enter")
        await screen.see(
            "may it? ", "touch made", "Bash: [y]es, [s]ession, [a]lways, [n]o, or why not: "
        )
        assert not (w.root / "made").exists()
        screen.type("y")
        await screen.see("Well.")
        assert (w.root / "made").exists()
        assert any(r.request.last_text.endswith("yes") for r in w.server.records)


async def test_what_is_typed_ahead_answers_nothing(world: Worlds, terminal: Terminal) -> None:
    """Half a line typed while a turn runs is no answer to the question that the turn then asks."""
    script = Script(
        [
            call("Bash", {"command": "until [ -e go ]; do sleep 0.05; done"}),
            call("Bash", {"command": "touch made"}),
        ],
        forever=say("Well."),
    )
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("* until")
        screen.tmux("send-keys", "-t", "it", "-l", "yes")
        await screen.see("Ctrl+C interrupts", "\n> yes")
        (w.root / "go").touch()
        await screen.see("asks, after this line: ", "> yes")
        screen.key("Enter")
        await screen.see("may it? touch made", "Bash: [y]es")
        assert not (w.root / "made").exists()
        screen.type("n")
        await screen.see("Well.")
        assert not (w.root / "made").exists()
        assert any(r.request.last_text.endswith("yes") for r in w.server.records)


async def test_an_untouched_prompt_gives_way(world: Worlds, terminal: Terminal) -> None:
    """With nothing typed the question takes the prompt over, and a line there answers it."""
    script = Script(
        [call("Bash", UNTIL_GO), say("Started."), call("Bash", {"command": "touch made"})],
        forever=say("Well."),
    )
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("Started.")
        (w.root / "go").touch()
        await screen.see("may it? touch made")
        await screen.see("\nBash: [y]es, [s]ession, [a]lways, [n]o, or why not: ")
        screen.type("y")
        await screen.see("Well.")
        assert (w.root / "made").exists()


async def test_questions_come_one_at_a_time(world: Worlds, terminal: Terminal) -> None:
    """Each is stated above its own prompt, others are counted, and commands work in between."""
    script = Script(
        [say("Hello.")],
        {
            part: [call("Bash", {"command": f"touch {part}"}), report(f"{part} is there")]
            for part in ("left", "right")
        },
        forever=say("ok"),
    )
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Hi")
        await screen.see("Hello.")
        screen.type("/fork Make left / Make right")
        await screen.see("(1 more waiting)", "[y]es")
        screen.type("/tasks")
        await screen.see("fork-1  running", "fork-2  running")
        assert not (w.root / "left").exists()
        assert not (w.root / "right").exists()
        with anyio.fail_after(50):
            while "[y]es" not in (shown := screen.text().rstrip().splitlines())[-1]:
                await anyio.sleep(0.05)
        first = shown[-1].split("]")[0].removeprefix("[main/")
        stated = [line for line in shown if "may it?" in line][-1]
        assert stated.startswith(f"[main/{first}] may it? touch ")
        made = stated.split()[-1]
        other = {"left": "right", "right": "left"}[made]
        screen.type("y")
        await screen.see(f"{made} is there", f"may it? touch {other}")
        assert (w.root / made).exists()
        with anyio.fail_after(50):
            while "[y]es" not in last_line(screen):
                await anyio.sleep(0.05)
        screen.type("n")
        await screen.see(f"{other} is there")
        assert not (w.root / other).exists()
        screen.type("/quit")
        await screen.see("exit=0")


@pytest.mark.spec("L8")
async def test_an_interrupted_question_leaves_no_prompt(world: Worlds, terminal: Terminal) -> None:
    """After Ctrl+C the prompt is `> ` again and the next line a message."""
    script = [call("Bash", {"command": "touch made"}), say("Hello again.")]
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("[y]es")
        screen.key("C-c")
        await screen.see("(interrupted")
        with anyio.fail_after(50):
            while last_line(screen).strip() != ">":
                await anyio.sleep(0.05)
        screen.type("y")
        await screen.see("Hello again.")
        assert not (w.root / "made").exists()
        assert any(r.request.last_text.endswith("y") for r in w.server.records)


async def test_the_change_is_seen_before_the_answer(world: Worlds, terminal: Terminal) -> None:
    """A permission question for Edit shows the diff; a wrong number is asked for again."""
    change = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    options = [{"label": "red"}, {"label": "blue"}]
    script = [
        call("Read", {"file_path": "a.py"}),
        call("Edit", change),
        call("AskUserQuestion", {"questions": [{"question": "Colour?", "options": options}]}),
        say("Fine."),
    ]
    async with (
        world(script, files={"a.py": "x = 1\n"}, opens=False) as w,
        terminal(w, NO_COLOR="1") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("-x = 1", "+x = 2", "[y]es")
        assert (w.root / "a.py").read_text() == "x = 1\n"
        screen.type("n")
        await screen.see("* Edit a.py", "failed: the user refused", "1. red", "\n? ")
        screen.type("7")
        await screen.see("there is no option 7")
        screen.type("2")
        await screen.see("Fine.")
        assert any("blue" in r.request.last_text for r in w.server.records)


async def test_leaving_says_what_it_stops(world: Worlds, terminal: Terminal) -> None:
    """Ctrl+C at the prompt and /quit name the tasks that run; /tasks lists commands by id."""
    script = [call("Bash", UNTIL_GO), say("Started.")]
    async with (
        world(script, opens=False) as w,
        terminal(w, "--permission-mode", "bypassPermissions") as screen,
    ):
        await screen.see("> ")
        screen.type("/clear")
        await screen.see("there is nothing to clear")
        screen.type("/compact")
        await screen.see("there is nothing to compact")
        screen.type("Go")
        await screen.see("Started.")
        screen.type("/tasks")
        await screen.see("task-1  running  ")
        # An answer is seen before its turn has ended, which Ctrl+C would interrupt.
        with anyio.fail_after(50):
            while any("Ctrl+C interrupts" in row for row in screen.rows()):
                await anyio.sleep(0.05)
        screen.key("C-c")
        await screen.see("(1 background task runs; once more or /quit leaves and stops it)")
        screen.type("/quit")
        await screen.see("task-1 is stopped: ", "exit=0")


async def test_nothing_follows_an_interrupt(world: Worlds, terminal: Terminal) -> None:
    """After a turn that was stopped no title is asked for."""
    script = Script([stall(600, then=say("Slowly, " * 40))], forever=say("A title"))
    async with world(script, opens=False) as w, terminal(w, "Begin") as screen:
        await screen.see("Slowly,")
        screen.key("C-c")
        await screen.see("(interrupted")
        screen.type("/cost")
        await screen.see("session: ")
        screen.type("/quit")
        await screen.see("exit=0")
        assert len(w.server.records) == 1


async def test_an_interrupt_ends_retries(world: Worlds, terminal: Terminal) -> None:
    """With a server that cannot be reached, Ctrl+C is the end of all tries."""
    # As many tries as it takes to see one, each of them soon.
    many = '{"retry": {"connect": 10000, "tries": 10000, "longest": 0.5}}'
    async with (
        world(opens=False) as w,
        terminal(w, "--settings", many, "Begin", ANTHROPIC_BASE_URL="http://127.0.0.1:9") as screen,
    ):
        await screen.see("; again ")
        screen.key("C-c")
        await screen.see("(interrupted")
        tries = screen.text().count("; again ")
        screen.type("/cost")
        await screen.see("session: ")
        await anyio.sleep(1.0)
        assert screen.text().count("; again ") == tries
        screen.type("/quit")
        await screen.see("exit=0")


@pytest.mark.spec("F20")
async def test_a_resumed_session_names_its_forks(world: Worlds, terminal: Terminal) -> None:
    """After a crash the forks that go on are named, and their reports are shown."""
    script = Script(
        [say("Hello.")],
        {"Look": [stall(600, then=say("Slowly.")), report("It was found")]},
        forever=say("ok"),
    )
    async with world(script, opens=False) as w:
        async with terminal(w) as screen:
            await screen.see("> ")
            screen.type("Hi")
            await screen.see("Hello.")
            screen.type("/fork Look for it")
            with anyio.fail_after(50):
                while not any("Look for it" in r.request.last_text for r in w.server.records):
                    await anyio.sleep(0.05)
            shell = screen.tmux("display-message", "-p", "-t", "it", "#{pane_pid}").strip()
            children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
            await screen.see("exit=137")
        async with terminal(w, "--continue") as screen:
            await screen.see("fork-1 goes on: Look for it", "It was found")
