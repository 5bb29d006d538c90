"""Commands that the user runs, and messages that wait for a turn."""

from __future__ import annotations

import anyio
import pytest

from prong.command import Accepted, Interrupt, Refused, RunShell, Say, TakeUp, Unsay
from prong.event import MessageQueued, MessageUnqueued, ToolFinished, ToolOutput, ToolStarted
from prong.testing import Clock, Script, Worlds, call, delay, say
from prong.view import Called

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]


async def test_the_model_is_told_what_the_user_ran(world: Worlds) -> None:
    """Nobody is asked, nothing is sent; the next message carries the command and its output."""
    async with world([say("Seen.")], mode="plan") as w:
        assert await w.session.send(RunShell("echo one; echo two > made")) == Accepted()
        assert (w.root / "made").read_text() == "two\n"
        assert w.server.records == []
        called = w.session.view().main.transcript[0]
        assert isinstance(called, Called)
        assert (called.name, called.title, called.state) == (
            "Shell",
            "!echo one; echo two > made",
            "done",
        )
        assert "one" in called.text
        await w.session.run("What did I do?")
        sent = str(w.server.records[-1].json["messages"])
        assert sent.index("echo one; echo two") < sent.index("needs no answer")
        assert sent.index("needs no answer") < sent.index("What did I do?")


async def test_a_command_of_the_user_wakes_nobody_after_a_restart(world: Worlds) -> None:
    """It stands in the stored conversation, and a resumed session has nothing to take up."""
    async with world([say("Hello."), say("Yes.")], opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
            await session.send(RunShell("echo marked"))
        async with w.open(continue_last=True) as again:
            assert isinstance(await again.send(TakeUp()), Refused)
            await again.run("Go on")
        assert "echo marked" in str(w.server.records[-1].json["messages"])


async def test_an_interrupt_stops_the_command(world: Worlds) -> None:
    """The process ends, the model is told so and what it had printed, and the session goes on."""
    async with world([say("Well.")]) as w:
        outcomes: list[object] = []

        async def run() -> None:
            outcomes.append(await w.session.send(RunShell("echo half; exec sleep 600")))

        events = w.session.events(since=None)
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not any(isinstance(e.event, ToolOutput) for e in events.drain()):
                await anyio.sleep(0.01)
            assert await w.session.send(Interrupt()) == Accepted()
        assert outcomes == [Refused("the command was stopped")]
        ends = [e.event for e in w.session.events().drain() if isinstance(e.event, ToolFinished)]
        assert [(end.interrupted, end.shown) for end in ends] == [(True, "half\n")]
        await w.session.run("And?")
        assert "half\\nThe user stopped it." in w.server.records[-1].body.decode()


async def test_what_cannot_be_run(world: Worlds) -> None:
    """Nothing to run, or a turn that runs: refused, and nothing has changed."""
    script = [call("Bash", {"command": "until [ -e go ]; do sleep 0.02; done"}), say("Done.")]
    async with world(script, mode="bypassPermissions") as w:
        assert isinstance(await w.session.send(RunShell("  ")), Refused)
        await w.session.send(Say("Go"))
        while not any(isinstance(e.event, ToolStarted) for e in w.session.events().drain()):
            await anyio.sleep(0.01)
        refused = await w.session.send(RunShell("touch never"))
        assert isinstance(refused, Refused)
        assert "while a turn runs" in refused.why
        (w.root / "go").touch()
        await w.session.wait_settled()
        assert not (w.root / "never").exists()


async def test_a_message_steers_the_turn_at_its_next_step(world: Worlds) -> None:
    """It is queued, seen in the view, and taken in with the results of the calls at hand."""
    script = [call("Bash", {"command": "until [ -e go ]; do sleep 0.02; done"}), say("Done.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.send(Say("Go"))
        while not any(isinstance(e.event, ToolStarted) for e in w.session.events().drain()):
            await anyio.sleep(0.01)
        outcome = await w.session.send(Say("Mind the tests"))
        assert isinstance(outcome, Accepted)
        (name,) = outcome.ids
        assert [one.text for one in w.session.view().queued.values()] == ["Mind the tests"]
        (w.root / "go").touch()
        await w.session.wait_settled()
        assert not w.session.view().queued
        assert "Mind the tests" in w.server.records[1].request.last_text
        ends = [e.event for e in w.session.events().drain() if isinstance(e.event, MessageUnqueued)]
        assert ends == [MessageUnqueued(message_id=name, outcome="taken")]


async def test_a_message_can_be_taken_back_until_it_is_taken_in(world: Worlds) -> None:
    """The last one without a name, any by its id; the model never sees it."""
    script, clock = Script([delay(1.0, then=say("One."))], forever=say("More.")), Clock()
    async with world(script, clock=clock) as w:
        first = await w.session.send(Say("Go"))
        assert first == Accepted()
        while not w.server.records:
            await anyio.sleep(0.01)
        one = await w.session.send(Say("First thought"))
        await w.session.send(Say("Second thought"))
        assert isinstance(one, Accepted)
        assert await w.session.send(Unsay()) == Accepted("Second thought", ids=("message-2",))
        assert await w.session.send(Unsay(*one.ids)) == Accepted("First thought", ids=one.ids)
        assert isinstance(await w.session.send(Unsay()), Refused)
        assert isinstance(await w.session.send(Unsay("message-9")), Refused)
        clock.advance(1.0)
        await w.session.wait_settled()
        assert len(w.server.records) == 1


async def test_a_message_that_still_waits_at_the_end_is_told_of(world: Worlds) -> None:
    """Whoever leaves while a message waits can see in the record that it was lost."""
    async with world([delay(600, then=say("Never."))]) as w:
        await w.session.send(Say("Go"))
        while not w.server.records:
            await anyio.sleep(0.01)
        await w.session.send(Say("Too late"))
        events = w.session.events()
    told = [e.event for e in events.drain()]
    assert MessageQueued(message_id="message-1", text="Too late") in told
    assert MessageUnqueued(message_id="message-1", outcome="lost") in told
