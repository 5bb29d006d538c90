"""The line-by-line terminal, as a user sees it in a real tmux."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from prong.testing import Clock, Script, Worlds, call, delay, say, stall
from shared.claude_file import claude, claude_slug
from shared.running import runs
from shared.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X1"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


Terminal = Callable[..., AbstractAsyncContextManager[Any]]


async def prompted(screen: Any) -> None:
    """Wait for the prompt for messages in the last row: before that no key is read as one."""
    while not screen.rows() or screen.rows()[-1] != ">":
        await anyio.sleep(0.05)


async def resized(screen: Any, columns: int, rows: int) -> None:
    """Resize the window, and wait until its terminal has the size: tmux takes its time."""
    screen.resize(columns, rows)
    device = screen.tmux("display-message", "-p", "-t", "it", "#{pane_tty}").strip()
    fd = os.open(device, os.O_RDONLY | os.O_NOCTTY)
    try:
        with anyio.fail_after(50):
            while os.get_terminal_size(fd) != (columns, rows):
                await anyio.sleep(0.05)
    finally:
        os.close(fd)


async def test_a_conversation(world: Worlds, terminal: Terminal) -> None:
    """Text streams, tool calls and diffs are lines, a question is answered, and the end is clean."""
    script = [
        call("Read", {"file_path": "a.py"}),
        call("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        say("Now it is \x1b[2Jtwo."),
        call("Bash", {"command": "touch never"}),
        say("As you wish."),
    ]
    async with (
        world(script, files={"a.py": "x = 1\n"}, opens=False) as w,
        terminal(w, NO_COLOR="1") as screen,
    ):
        await screen.see("claude-sonnet-5-5", "> ")
        screen.type("Make it 2")
        await screen.see("may it?", "[y]es")
        screen.type("y")
        shown = await screen.see("two.")
        assert "-x = 1" in shown.replace(" ", "").replace("-x=1", "-x = 1")
        assert "·[2J" in shown, "control characters are neutralised"
        assert (w.root / "a.py").read_text() == "x = 2\n"
        screen.type("Touch it")
        await screen.see("touch never", "[y]es, [s]ession, [a]lways, [n]o, or why not: ")
        screen.type("not today")
        await screen.see("As you wish.")
        assert "not today" in w.server.records[-1].request.last_text
        screen.type("/quit")
        await screen.see("exit=0")
        assert "\x1b" not in screen.tmux("capture-pane", "-p", "-e", "-t", "it")


async def test_the_full_screen_needs_the_room_that_is_there_now(
    world: Worlds, terminal: Terminal
) -> None:
    """Ctrl+O says why there can be none, and goes there once the window is large enough."""
    async with world([say("Hello.")], opens=False) as w, terminal(w) as screen:
        await screen.see("> ")
        await resized(screen, 60, 18)
        screen.key("C-o")
        await screen.see("(no full screen: the terminal has 60x18, and 80x24 are needed)")
        await resized(screen, 90, 30)
        screen.key("C-o")
        await screen.see("Ctrl+O line by line")


@pytest.mark.spec("X2")
async def test_markdown_is_drawn_block_by_block(world: Worlds, terminal: Terminal) -> None:
    """A reply is drawn once, each block as it ends, and nothing of the line in work is left."""
    reply = "## Plan\n\nSome **bold** words.\n\n- one\n- two\n\n```py\nx = 1\n```\n\nThe end."
    async with world([say(reply)], opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        shown = await screen.see("The end.\n>")
        lines = [line.rstrip() for line in shown.split("\n")]
        start = lines.index("> Go") + 1
        drawn = [
            "Plan",
            "",
            "Some bold words.",
            "",
            "• one",
            "• two",
            "",
            "  x = 1",
            "",
            "The end.",
        ]
        assert lines[start : start + len(drawn)] == drawn


async def test_commands(world: Worlds, terminal: Terminal) -> None:
    """/help, /cost, /mode, /model, /clear, /resume and an unknown command do what they say."""
    async with world(Script(forever=say("Aye.")), opens=False) as w:
        w.server.moves_prefix = "the conversation is cleared and the model changed"
        async with terminal(w) as screen:
            await screen.see("> ")
            screen.type("/help")
            await screen.see("/compact", "interrupt the turn that runs")
            screen.type("First words")
            await screen.see("Aye.")
            await screen.rest()
            screen.type("/cost")
            await screen.see("session: $")
            screen.type("/mode acceptEdits")
            await screen.see("permission mode acceptEdits")
            screen.type("/model claude-opus-5")
            await screen.see("from claude-sonnet-5-5 to claude-opus-5")
            screen.type("/clear")
            await screen.see("the user cleared it")
            screen.type("/nonsense")
            await screen.see("no command /nonsense")
            screen.type("/resume")
            shown = await screen.see("First words", "/resume ID goes on")
            ours = next(w for w in shown.split() if w.startswith("2") and w.count("-") == 2)
            screen.type("/resume nowhere")
            await screen.see("nowhere")
            screen.type(f"/resume {ours}")
            await screen.see(f"resumed {ours}")
            await prompted(screen)
            screen.key("C-d")
            await screen.see("exit=0")


async def test_a_session_of_another_program_goes_on(world: Worlds, terminal: Terminal) -> None:
    """/resume names those of other programs; with the file of one it is taken over and gone on."""
    async with world([say("I go on.")], opens=False) as w:
        path = w.home / f".claude/projects/{claude_slug(w.root)}/s.jsonl"
        claude(path, cwd=str(w.root))
        async with terminal(w, NO_COLOR="1") as screen:
            await screen.see("> ")
            screen.type("/resume")
            await screen.see("Claude Code: MEND IT", "s.jsonl")
            screen.type(f"/resume {path}")
            await screen.see("4 entries taken over", "new prompt")
            screen.type("And?")
            await screen.see("I go on.")
            screen.key("C-d")
            await screen.see("exit=0")
        assert b"MEND IT" in w.server.records[0].body


async def test_interrupts(world: Worlds, terminal: Terminal) -> None:
    """Ctrl+C stops a stream, which is marked as void, and a tool; twice at an empty prompt it leaves."""
    script = [
        stall(600, then=say("Slowly, " * 40)),
        call("Bash", {"command": "echo half done; echo begun > begun; sleep 600"}),
        say("Back again."),
    ]
    async with (
        world(script, opens=False) as w,
        terminal(w, "--permission-mode", "bypassPermissions", "Begin") as screen,
    ):
        await screen.see("> Begin", "Slowly,")
        screen.key("C-c")
        await screen.see(
            "… broken off; the model does not remember this reply\n"
            "(interrupted: the user stopped it)"
        )
        screen.type("Run it")
        while not (w.root / "begun").exists():
            await anyio.sleep(0.02)
        screen.key("C-c")
        shown = await screen.see("\n  half done\n(interrupted: the user stopped it)")
        assert shown.count("broken off") == 1, "of a reply that called a tool nothing is void"
        screen.type("Still there?")
        await screen.see("Back again.")
        await screen.rest()
        # Together: the second counts for a few seconds, which are nothing to a busy machine.
        screen.key("C-c", "C-c")
        await screen.see("once more", "exit=0")
        screen.type("typed after the end")
        # Once from the terminal, which echoes again, and once from cat.
        await screen.see("typed after the end\ntyped after the end")


async def test_trust_is_asked_once(world: Worlds, terminal: Terminal) -> None:
    """A folder with hooks of its own is named with what it wants, and the answer is kept."""
    hook = {"hooks": {"SessionStart": [{"hooks": [{"command": "touch ran"}]}]}}
    async with world([], opens=False) as w:
        w.write(".prong/settings.json", json.dumps(hook))
        async with terminal(w) as screen:
            await screen.see("touch ran", "trust this folder?")
            screen.type("n")
            await screen.see("not trusted", "! ", "/help")
            await prompted(screen)
            screen.key("C-d")
            await screen.see("exit=0")
        async with terminal(w) as screen:
            shown = await screen.see("/help", "> ")
            assert "trust this folder?" not in shown
        assert not (w.root / "ran").exists()
        (w.store / "trust.json").unlink()
        async with terminal(w) as screen:
            await screen.see("trust this folder?")
            screen.type("y")
            await screen.see("/help", "> ")
            await until((w.root / "ran").exists)


async def test_a_background_task_wakes_the_agent(world: Worlds, terminal: Terminal) -> None:
    """While the prompt waits, a task's end is told and worked on."""
    command = {"command": "until [ -e go ]; do sleep 0.05; done", "run_in_background": True}
    script = [call("Bash", command), say("Started."), say("It has ended.")]
    async with (
        world(script, opens=False) as w,
        terminal(w, "--permission-mode", "bypassPermissions") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("task-1 started", "Started.")
        (w.root / "go").touch()
        await screen.see("task-1 completed", "It has ended.")
        screen.type("/quit")
        await screen.see("exit=0")


@pytest.mark.spec("T8")
async def test_a_closed_terminal_ends_everything(world: Worlds, terminal: Terminal) -> None:
    """When the terminal goes away the session is stored, and no task outlives it."""
    command = {"command": "echo $$ > pid; exec sleep 600", "run_in_background": True}
    script = [call("Bash", command), say("Started."), say("Back.")]
    async with world(script, opens=False) as w:
        async with terminal(w, "--permission-mode", "bypassPermissions") as screen:
            await screen.see("> ")
            screen.type("Go")
            await screen.see("Started.")
            # It runs in the background: nobody has waited for what it writes.
            told = w.root / "pid"
            while not told.exists() or not told.read_text().endswith("\n"):
                await anyio.sleep(0.02)
            pid = int(told.read_text())
            shell = screen.tmux("display-message", "-p", "-t", "it", "#{pane_pid}").strip()
            (program,) = (await anyio.run_process(["pgrep", "-P", shell])).stdout.split()
        with anyio.fail_after(50):
            while runs(pid) or runs(int(program)):
                await anyio.sleep(0.05)
        async with w.open(continue_last=True) as session:
            await session.wait_settled()
            assert session.last is not None
            assert session.last.text == "Back."


async def test_a_process_that_goes_on_is_named_at_the_end(
    world: Worlds, terminal: Terminal
) -> None:
    """Whoever leaves is told of a process that has made itself independent."""
    # Once it is that program, it has its own session as well.
    left = (
        'setsid sleep 1000 & until [ "$(ps -o comm= -p $!)" = sleep ]; do sleep 0.02; done; echo $!'
    )
    script = [call("Bash", {"command": f"{left} > daemon"}), say("Done.")]
    async with (
        world(script, opens=False) as w,
        terminal(w, "--permission-mode", "bypassPermissions", NO_COLOR="1") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("Done.")
        daemon = int((w.root / "daemon").read_text())
        try:
            screen.type("/quit")
            shown = await screen.see("exit=0")
            assert f"process {daemon} (sleep 1000), which it started" in shown
        finally:
            os.kill(daemon, signal.SIGKILL)


@pytest.mark.spec("P1", "P4")
async def test_shift_tab_leads_into_plan_mode(world: Worlds, terminal: Terminal) -> None:
    """The key goes round the modes; in plan mode the plan is shown and its approval ends it."""
    async with world(opens=False) as w:
        path = w.root / ".prong" / "plans" / "count-the-files.md"
        w.server.push(
            call("Bash", {"command": "touch early"}),
            call("Write", {"file_path": str(path), "content": "1. Count them.\n"}),
            call("ExitPlanMode"),
            say("Counting."),
        )
        async with terminal(w, NO_COLOR="1") as screen:
            await screen.see("claude-sonnet-5-5", "> ")
            screen.key("BTab")
            await screen.see("(permission mode acceptEdits)")
            screen.key("BTab")
            await screen.see("(permission mode plan)")
            screen.type("Count the files")
            await screen.see("1. Count them.", "[e]dit and approve")
            screen.type("y")
            await screen.see("Counting.", "(permission mode acceptEdits)")
        assert not (w.root / "early").exists()


@pytest.mark.spec("T5")
@pytest.mark.parametrize("way", ["key", "command"])
async def test_a_waited_for_agent_is_sent_to_the_background(
    world: Worlds, terminal: Terminal, way: str
) -> None:
    """Ctrl+B ends the wait and not the work; so does /background where a line can be typed."""
    brief = {
        "description": "a part",
        "prompt": "BRIEF",
        "subagent_type": "worker",
        "name": "bob",
    }
    ask = call("Bash", {"command": "touch one"})
    script = Script(
        [call("Agent", brief), say("Going on.")],
        {"BRIEF": [*([] if way == "key" else [ask]), delay(2.0, then=say("Late."))]},
        forever=say("Heard of it."),
    )
    waiting = ("--settings", '{"fork": {"enabled": false}}')
    clock = Clock()
    async with world(script, opens=False, clock=clock) as w, terminal(w, *waiting) as screen:
        await screen.see("> ")
        screen.key("C-b")
        screen.type("Begin")
        if way == "key":
            await screen.see("bob started")
            screen.type("And then?")
            screen.key("C-b")
        else:
            await screen.see("[y]es")
            screen.type("/background")
        await screen.see("(the user wished it)", "Going on.")
        if way == "command":
            screen.type("y")
        # Until now its answer was held back.
        while not clock.sleepers:
            await anyio.sleep(0.02)
        clock.advance(2.0)
        await screen.see("Heard of it.")
        if way == "key":
            await screen.see("> And then?")
            assert any("And then?" in str(r.json["messages"]) for r in w.server.records)
        bodies = [r.json for r in w.server.records if "BRIEF" in str(r.json["messages"][0])]
        assert len(bodies) == (1 if way == "key" else 2), "nothing was restarted"
        with anyio.fail_after(50):
            while "Late." not in str(w.server.records[-1].json["messages"]):
                await anyio.sleep(0.02)
        screen.type("/background")
        await screen.see("nothing is waited for")
        screen.key("C-d")
        await screen.see("exit=0")


@pytest.mark.spec("T5")
@pytest.mark.parametrize("way", ["key", "command"])
async def test_a_command_is_sent_to_the_background(
    world: Worlds, terminal: Terminal, way: str
) -> None:
    """Ctrl+B or /background while a command runs: its result says so, and its end comes later."""
    running = "echo compiling; touch up; until [ -e go ]; do sleep 0.02; done; echo built"
    script = [call("Bash", {"command": running}), say("Going on."), say("It is built.")]
    free = ("--permission-mode", "bypassPermissions")
    async with world(script, opens=False) as w, terminal(w, *free) as screen:
        await screen.see("> ")
        screen.type("Build it")
        while not (w.root / "up").exists():
            await anyio.sleep(0.02)
        if way == "key":
            screen.key("C-b")
        else:
            screen.type("/background")
        await screen.see("task-1 started", "Going on.")
        (w.root / "go").touch()
        await screen.see("task-1 completed", "It is built.")
        screen.key("C-d")
        await screen.see("exit=0")


@pytest.mark.spec("L8")
async def test_an_unanswered_message_is_taken_up(world: Worlds, terminal: Terminal) -> None:
    """A session whose turn was killed goes on as soon as it is opened again, and says so."""
    script = [stall(600, then=say("Never.")), say("Answered."), say("More.")]
    async with world(script, opens=False) as w:
        async with terminal(w) as screen:
            await screen.see("> ")
            screen.type("Precious words")
            while not w.server.records:
                await anyio.sleep(0.02)
            (lock,) = w.store.rglob("*.lock")
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            await screen.see("exit=137")
        async with terminal(w, "--continue") as screen:
            await screen.see("no answer to 'Precious words'", "Answered.", "> ")
            screen.type("And now?")
            await screen.see("More.")


async def test_a_status_line_of_ones_own_stands_below_the_line(
    world: Worlds, terminal: Terminal
) -> None:
    """It is there before and after a reply, once, with colours and nothing else of its codes."""
    command = r"printf '\033[32mMINE\033[0m\033[2J %s\n' $COLUMNS"
    settings = json.dumps({"statusLine": {"type": "command", "command": command, "padding": 1}})
    async with world([say("Hello.")], opens=False) as w:
        own = w.home / ".claude/settings.json"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(settings)
        async with terminal(w) as screen:
            await screen.see("> ", " MINE 80")
            screen.type("Hi")
            shown = await screen.see("Hello.", " MINE 80")
            assert shown.count("MINE") == 1
            await screen.rest()
            drawn = ("capture-pane", "-p", "-e", "-t", "it")
            await until(lambda: "\x1b[32mMINE" in screen.tmux(*drawn))
            screen.type("/quit")
            ended = await screen.see("exit=0")
            assert "MINE" not in ended
