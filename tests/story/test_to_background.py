"""A command that is waited for goes on in the background when the user wishes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from prong.command import Accepted, Background, Outcome, Refused, RunShell, Stop
from prong.event import (
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    Warned,
)
from prong.testing import Clock, Script, Step, World, Worlds, call, calls, delay, say
from shared.fullscreen import opened
from shared.typed import agent, of, result

pytestmark = [pytest.mark.anyio, pytest.mark.spec("T2", "T5")]

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"
FREE = '{"fork": {"enabled": false}, "background": true}'


def bash(command: str, **more: object) -> Step:
    return call("Bash", {"command": command, **more})


async def printed(w: World, words: str) -> None:
    """Wait until a command has shown something."""
    shown = ""
    with anyio.fail_after(50), w.session.events() as events:
        async for envelope in events:
            if isinstance(envelope.event, ToolOutput):
                shown += envelope.event.text
                if words in shown:
                    return


async def exists(path: Path) -> None:
    """Wait for a file, and until what its maker had printed before is read."""
    with anyio.fail_after(50):
        while not path.exists():
            await anyio.sleep(0.01)
    for _ in range(20):
        # The loop looks at the pipe each time.
        await anyio.lowlevel.checkpoint()


async def moved(w: World, name: str | None = None) -> Outcome:
    """Give up the wait as soon as there is one."""
    with anyio.fail_after(50):
        while isinstance(outcome := await w.session.send(Background(name)), Refused):
            await anyio.sleep(0.01)
    return outcome


async def ended(w: World, kind: type = TurnFinished, number: int = 1) -> None:
    with anyio.fail_after(50):
        while len(w.told(kind)) < number:
            await anyio.sleep(0.01)


def ahead(now: Callable[[], float], seconds: float) -> float:
    return now() + seconds


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat", "gemini"])
async def test_the_model_goes_on_and_the_command_too(world: Worlds, api: str) -> None:
    """The call's result says where it goes on and what it printed; its end is one notice."""
    command = (
        f"echo one; echo $$ >> pids; printf half; touch up; {UNTIL_GO}; echo ' a line'; echo two"
    )
    script = [bash(command), say("Going on."), say("I see.")]
    async with world(script, api=api, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            assert await moved(w) == Accepted(ids=("task-1",))
            await ended(w)
            (w.root / "go").touch()
        (task,) = w.told(TaskStarted)
        told = w.server.records[1].request.last_text
        assert "Goes on in the background as task-1 (the user wished it)" in told
        assert f"goes to {task.output_file}." in told
        assert told.endswith("Printed so far:\none\nhalf")
        assert Path(task.output_file).read_text() == "one\nhalf a line\ntwo\n"
        notice = w.server.records[2].request.last_text
        assert "completed (exit code 0)" in notice
        assert "half a line\ntwo\n[output file" in notice
        assert w.server.records[2].body.decode().count("<task-notification>") == 1
        assert len((w.root / "pids").read_text().split()) == 1, "nothing was restarted"
        assert [e.text for e in w.told(TurnFinished)] == ["Going on.", "I see."]
        assert [e.failed for e in w.told(ToolFinished)] == [False]


async def test_an_interrupt_that_comes_next_does_not_end_it(world: Worlds) -> None:
    """Ctrl+B and then Esc, with nothing in between: the turn ends, the command goes on."""
    script = [bash(f"touch up; {UNTIL_GO}; echo whole"), say("I see.")]
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            assert w.parts.supervisor.to_background() == ["task-1"]
            assert w.parts.life.interrupt()
        assert w.session.last is not None
        assert w.session.last.why == "interrupted"
        (w.root / "go").touch()
        await w.session.wait_settled()
        assert [e.status for e in w.told(TaskFinished)] == ["completed"]
        assert "whole" in w.server.records[1].request.last_text


async def test_an_agent_that_was_sent_away_survives_an_interrupt(world: Worlds) -> None:
    """The same of an agent: the wait for it has ended, so an interrupt does not reach it."""
    script = Script(
        [agent("BRIEF", "general-purpose", name="bob"), say("Heard.")],
        {"BRIEF": [delay(1.0, then=say("Late."))]},
        forever=say("Heard."),
    )
    clock = Clock()
    async with world(script, clock=clock, settings=FREE, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while not clock.sleepers:
                await anyio.sleep(0.01)
            assert w.parts.supervisor.to_background() == ["bob"]
            assert w.parts.life.interrupt()
        clock.advance(1.0)
        await w.session.wait_settled()
        assert [e.status for e in w.told(TaskFinished)] == ["completed"]
        assert "Late." in w.server.records[-1].request.last_text


async def test_it_has_no_time_limit_any_more(
    world: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of the call does not hold for what goes on."""
    script = [
        bash(f"touch up; {UNTIL_GO}; echo done", timeout=600_000),
        say("Going on."),
        say("I see."),
    ]
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            await moved(w)
            await ended(w)
            # All timers that were set before are due at once.
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "time", partial(ahead, loop.time, 700.0))
            await anyio.sleep(0.2)
            (w.root / "go").touch()
        assert [e.status for e in w.told(TaskFinished)] == ["completed"]


async def test_all_of_a_long_output_is_in_its_file(world: Worlds) -> None:
    """What the result has to leave out is in the file of the task, before what comes later."""
    command = f"seq 40000; touch up; {UNTIL_GO}; seq 40001 40010"
    async with world(
        [bash(command), say("Going on."), say("I see.")], mode="bypassPermissions"
    ) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await printed(w, "40000\n")
            await moved(w)
            await ended(w, TaskStarted)
            (w.root / "go").touch()
        told = w.server.records[1].request.last_text
        assert "characters left out here" in told
        assert told.endswith("39999\n40000")
        (task,) = w.told(TaskStarted)
        numbers = Path(task.output_file).read_text().split()
        assert numbers == [str(n) for n in range(1, 40011)]


@pytest.mark.spec("T4")
@pytest.mark.parametrize("lines", [3, 40_000])
async def test_what_the_call_has_told_is_not_told_again(world: Worlds, lines: int) -> None:
    """TaskOutput tells what came since; the notice is short if nothing was left out before."""
    look = call("TaskOutput", {"task_id": "task-1", "block": True, "timeout": 60_000})
    script = Script(
        [bash(f"seq {lines}; touch up; {UNTIL_GO}; echo last"), look], forever=say("I see.")
    )
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await printed(w, f"{lines}\n")
            await moved(w)
            while len(w.server.records) < 2:
                await anyio.sleep(0.01)
            (w.root / "go").touch()
        assert result(w, 2).split("\n")[1:] == ["last"]
        last = str(w.bodies()[-1])
        assert last.count("<task-notification>") == 1
        assert ("You have read all of this by TaskOutput already" in last) == (lines == 3)


async def test_hooks_are_told_once(world: Worlds) -> None:
    """PostToolUse fires when the call is answered, and not again at the command's end."""
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "cat >> fired"}]}
    settings = msgspec.json.encode({"hooks": {"PostToolUse": [hook]}}).decode()
    script = [bash(f"touch up; {UNTIL_GO}"), say("Going on."), say("I see.")]
    async with world(script, settings=settings, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            await moved(w)
            await ended(w)
            (w.root / "go").touch()
        fired = (w.root / "fired").read_text()
        assert fired.count('"hook_event_name"') == 1
        assert "Goes on in the background" in fired


async def test_what_it_leaves_running_is_ended_and_told(world: Worlds) -> None:
    """At its end its jobs are stopped, as of every command that was waited for, and that is said."""
    command = f"sleep 600 & echo $! > pid; touch up; {UNTIL_GO}; exit 3"
    script = [bash(command), say("Going on."), say("I see.")]
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            await moved(w)
            await ended(w)
            (w.root / "go").touch()

        assert not alive(int((w.root / "pid").read_text()))
        notice = w.server.records[2].request.last_text
        assert "failed (exit code 3)" in notice
        assert "[The processes that it left running were stopped.]" in notice


async def test_it_is_stopped_by_its_id_and_with_the_session(world: Worlds) -> None:
    """It is a task like others: TaskStop ends it, and so does the end of the session."""
    command = "echo $$ > pid; touch up; exec sleep 600"
    script = [bash(command), say("One."), say("Stopped."), bash(command), say("Two.")]
    async with world(script, mode="bypassPermissions") as w:
        for at, word in enumerate(["One.", "Two."]):
            (w.root / "up").unlink(missing_ok=True)
            async with anyio.create_task_group() as group:
                group.start_soon(partial(w.session.run, word, wait_tasks=False))
                await exists(w.root / "up")
                await moved(w)
            pid = int((w.root / "pid").read_text())
            assert alive(pid)
            if not at:
                assert isinstance(await w.session.send(Stop("task-1")), Accepted)
                assert not alive(pid)
                await w.session.wait_settled()
    assert not alive(int((w.root / "pid").read_text()))
    assert [e.status for e in w.told(TaskFinished)] == ["killed", "killed"]


@pytest.mark.spec("T8")
async def test_a_child_owns_its_command(world: Worlds) -> None:
    """Nobody means a child's command but by name; it is woken by its end, and reports after that."""
    command = f"touch up; {UNTIL_GO}; echo built"
    script = Script(
        [agent("BRIEF", "general-purpose", name="bob", run_in_background=True), say("Started.")],
        {"BRIEF": [bash(command), say("I wait."), say("All is built.")]},
        forever=say("Heard."),
    )
    async with world(script, settings=FREE, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            assert isinstance(await w.session.send(Background()), Refused)
            assert isinstance(await w.session.send(Background("nobody")), Refused)
            assert await moved(w, "bob") == Accepted(ids=("task-1",))
            while len(of(w, "BRIEF")) < 2:
                await anyio.sleep(0.01)
            assert not w.told(TaskFinished)
            (w.root / "go").touch()
        bodies = of(w, "BRIEF")
        assert "Goes on in the background as task-1" in str(bodies[1])
        assert "built" in str(bodies[2]["messages"][-1])
        assert [e.task_id for e in w.told(TaskFinished)] == ["task-1", "bob"]
        assert "All is built." in w.server.records[-1].request.last_text


async def test_one_of_several_is_meant_by_its_call(world: Worlds) -> None:
    """The id of a call names its command, and the calls after it run."""
    script = [
        calls(("Bash", {"command": f"touch up; {UNTIL_GO}"}), ("Bash", {"command": "echo next > next"})),
        say("Going on."),
        say("I see."),
    ]  # fmt: skip
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            (begun,) = w.told(ToolStarted)
            assert await moved(w, begun.call_id) == Accepted(ids=("task-1",))
            await exists(w.root / "next")
            (w.root / "go").touch()
        assert [e.status for e in w.told(TaskFinished)] == ["completed"]


async def test_a_command_of_the_users_own(world: Worlds) -> None:
    """What the user runs goes on too; the model is told with the next message, and of its end."""
    script = [say("I see."), say("Yes.")]
    async with world(script, mode="bypassPermissions") as w:
        outcomes: list[Outcome] = []

        async def run() -> None:
            outcomes.append(await w.session.send(RunShell(f"echo one; touch up; {UNTIL_GO}")))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await exists(w.root / "up")
            await moved(w)
        assert outcomes == [Accepted()]
        (w.root / "go").touch()
        await w.session.wait_settled()
        sent = w.server.records[0].body.decode()
        assert "Goes on in the background as task-1" in sent
        assert sent.count("<task-notification>") == 1


async def test_where_everything_is_waited_for_so_is_this(world: Worlds) -> None:
    """With the setting `background` false the wish is refused and nothing changes."""
    script = [bash(f"touch up; {UNTIL_GO}; echo done"), say("Done.")]
    async with world(script, settings='{"background": false}', mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            assert isinstance(await w.session.send(Background()), Refused)
            (w.root / "go").touch()
        assert result(w) == "done"
        assert not w.told(TaskStarted)


async def test_what_cannot_go_on_is_waited_for(world: Worlds) -> None:
    """If there can be no file for its output, that is said; nothing is ended and nothing is lost."""
    script = [bash(f"echo one; touch up; {UNTIL_GO}; echo two"), say("Done.")]
    async with world(script, mode="bypassPermissions") as w:
        w.parts.tasks.folder.parent.mkdir(parents=True, exist_ok=True)
        w.parts.tasks.folder.touch()
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            await exists(w.root / "up")
            await moved(w)
            await ended(w, Warned)
            (w.root / "go").touch()
        assert result(w) == "one\ntwo"
        assert "cannot go on in the background" in w.told(Warned)[0].text
        assert not w.told(TaskStarted)


@pytest.mark.spec("X2")
async def test_by_a_key_on_the_full_screen(world: Worlds) -> None:
    """Ctrl+B while a command runs: the conversation goes on and the command stands in the list."""
    script = [bash(f"echo compiling; touch up; {UNTIL_GO}"), say("Going on."), say("It is built.")]
    async with (
        world(script, mode="bypassPermissions", attended=True) as w,
        opened(w.session) as hands,
    ):
        await hands.press("ctrl+b")
        await hands.see("nothing is waited for")
        await hands.type("Go")
        await hands.see("compiling")
        await hands.press("ctrl+b")
        await hands.see("Goes on in", "Going on.", "$ echo compiling", "1 in the background")
        (w.root / "go").touch()
        await hands.see("It is built.")


@pytest.mark.spec("X2", "T8")
async def test_a_childs_command_by_a_key_on_the_full_screen(world: Worlds) -> None:
    """On the row of an agent that nobody waits for, `b` means the command that it waits for."""
    script = Script(
        [agent("BRIEF", "general-purpose", name="bob", run_in_background=True), say("Started.")],
        {"BRIEF": [bash(f"touch up; {UNTIL_GO}"), say("I wait."), say("All is built.")]},
        forever=say("Heard."),
    )
    async with (
        world(script, settings=FREE, mode="bypassPermissions", attended=True) as w,
        opened(w.session) as hands,
    ):
        await hands.type("Go")
        await hands.see("Started.")
        await exists(w.root / "up")
        while not w.parts.tasks.foreground.find("bob"):
            await anyio.sleep(0.01)
        await hands.press("tab", "down", "b")
        await ended(w, TaskStarted, 2)
        (w.root / "go").touch()
        await ended(w, TaskFinished, 2)
        assert [e.task_id for e in w.told(TaskFinished)] == ["task-1", "bob"]
