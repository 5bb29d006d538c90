"""Interrupts: wherever one strikes, the conversation stays valid."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from prong.command import Accepted, Interrupt, Refused
from prong.event import TextDelta, ToolFinished, ToolOutput, ToolStarted, TurnFinished
from prong.testing import Step, World, Worlds, call, calls, delay, inside, say, stall, think
from prong.view import Called

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1")]

APIS = ["anthropic", "responses", "chat", "gemini"]
FOREVER = {"command": "echo begun > begun; sleep 600"}


async def _interrupt_when(w: World, ready: Callable[[], object]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(w.session.run, "Go")
        while not ready():
            await anyio.sleep(0.01)
        assert isinstance(await w.session.send(Interrupt()), Accepted)
    assert w.session.last is not None
    assert w.session.last.why == "interrupted"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "then",
    [
        say("This takes a long, long while. " * 20),
        think("Hmm. " * 40, then=say("So.")),
        call("Bash", {"command": "touch never"}),
    ],
)
async def test_in_the_middle_of_streaming(world: Worlds, api: str, then: Step) -> None:
    """A half-streamed reply is not stored, the connection is closed, the next turn works."""
    async with world([stall(600, then=then), say("Better.")], api=api) as w:
        await _interrupt_when(w, lambda: w.server.records and w.server.records[0].status == 200)
        kinds = [kind for kind, _ in w.parts.agent.conversation.prompt.entries()]
        assert kinds == ["user", "reminder"]
        assert (await w.session.run("Again")).text == "Better."
        assert w.server.records[0].outcome == "gone"
        assert "interrupted" in w.server.records[1].body.decode()


async def test_before_the_first_byte(world: Worlds) -> None:
    """An interrupt also strikes while the server is silent."""
    async with world([delay(600), say("Better.")]) as w:
        await _interrupt_when(w, lambda: w.server.records)
        assert (await w.session.run("Again")).text == "Better."


@pytest.mark.parametrize("api", APIS)
async def test_in_the_middle_of_a_tool(world: Worlds, api: str) -> None:
    """Every call of the reply gets a result, the process dies, the next turn works."""
    step = calls(
        ("Bash", {"command": "echo first"}), ("Bash", FOREVER), ("Bash", {"command": "touch never"})
    )
    async with world([step, say("Better.")], api=api, mode="bypassPermissions") as w:
        await _interrupt_when(w, (w.root / "begun").exists)
        kinds = [kind for kind, _ in w.parts.agent.conversation.prompt.entries()]
        assert kinds == ["user", "reply", "results", "reminder"]
        assert not (w.root / "never").exists()
        assert (await w.session.run("Again")).text == "Better."
        body = w.server.records[1].body.decode()
        assert "first" in body
        assert body.count("interrupted: the call was stopped") == 2


@pytest.mark.spec("X2")
async def test_what_a_call_has_printed_outlives_it(world: Worlds) -> None:
    """The end of a call that was cut off has what it printed for people, and none of it later."""
    printing = {"command": "seq 3; sleep 600"}
    step = calls(("Bash", printing), ("Bash", {"command": "touch never"}))
    async with world([step, say("Better.")], mode="bypassPermissions") as w:
        await _interrupt_when(w, lambda: any("3\n" in e.text for e in w.told(ToolOutput)))
        (first,) = w.told(ToolFinished)
        assert (first.interrupted, first.shown) == (True, "1\n2\n3\n")
        assert "interrupted: the call was stopped" in first.text
        called = w.session.view().main.transcript[-2]
        assert isinstance(called, Called)
        assert called.shown == "1\n2\n3\n"
        assert w.parts.agent.context.outputs == {}


@pytest.mark.spec("X2")
async def test_much_output_of_a_call_that_was_cut_off(world: Worlds) -> None:
    """Of very much output the end is kept, and that something is missing is seen."""
    printing = {"command": "seq 100000; echo begun > begun; sleep 600"}
    async with world([call("Bash", printing)], mode="bypassPermissions") as w:
        await _interrupt_when(w, (w.root / "begun").exists)
        (first,) = w.told(ToolFinished)
        assert first.shown.startswith("…")
        assert len(first.shown) < 5_000


async def test_cancelling_the_caller_interrupts(world: Worlds) -> None:
    """Whoever gives up waiting stops the turn; the session lives on."""
    async with world([call("Bash", FOREVER), say("Better.")], mode="bypassPermissions") as w:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def stop() -> None:
                    while not (w.root / "begun").exists():
                        await anyio.sleep(0.01)
                    scope.cancel()

                group.start_soon(stop)
                await w.session.run("Go")
        assert (await w.session.run("Again")).text == "Better."


async def test_cancelling_the_whole_session(world: Worlds) -> None:
    """When everything around a session is cancelled it ends, with a valid conversation stored."""
    script = [call("Bash", FOREVER), say("Better.")]
    async with world(script, mode="bypassPermissions", opens=False) as w:
        with anyio.CancelScope() as scope:
            async with w.open() as session:
                await session.say("Go")
                while not (w.root / "begun").exists():
                    await anyio.sleep(0.01)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert [e.why for e in w.told(TurnFinished)] == ["interrupted"]
        async with w.open(continue_last=True) as session:
            assert (await session.run("Again")).text == "Better."
            assert "interrupted: the call was stopped" in w.server.records[1].body.decode()


async def test_leaving_the_session_in_mid_turn(world: Worlds) -> None:
    """Leaving the block interrupts what runs."""
    async with world([call("Bash", FOREVER)], mode="bypassPermissions") as w:
        await w.session.say("Go")
        while not (w.root / "begun").exists():
            await anyio.sleep(0.01)
    assert [e.why for e in w.told(TurnFinished)] == ["interrupted"]
    assert len(w.told(ToolStarted)) == 1
    assert [e.interrupted for e in w.told(ToolFinished)] == [True]


async def test_an_interrupt_when_nothing_runs(world: Worlds) -> None:
    """There is nothing to stop, and that is said."""
    async with world([say("Hi.")]) as w:
        assert isinstance(await w.session.send(Interrupt()), Refused)
        await w.session.run("Hi")
        assert isinstance(await w.session.send(Interrupt()), Refused)


@pytest.mark.spec("K1")
async def test_what_an_interrupted_request_read_is_in_the_ledger(world: Worlds) -> None:
    """A reply that was stopped half-way has a row of its own, marked as broken, with its tokens."""
    async with world([say("One."), stall(600, then=say("Two. " * 40))]) as w:
        await w.session.run("First")
        await _interrupt_when(w, lambda: any("Two." in d.text for d in w.told(TextDelta)))

        rows = w.parts.ledger.rows
        assert [row.broken for row in rows] == [False, True]
        assert rows[1].usage.read >= rows[0].usage.written > 0


@pytest.mark.spec("K1", "L3")
async def test_an_interrupted_request_is_no_turn_after_a_resume_either(world: Worlds) -> None:
    """What was spent before a restart is counted as it was then: tokens all, turns if answered."""
    script = [say("One."), stall(600, then=say("Two. " * 40))]
    async with world(script, opens=False) as w:
        async with w.open() as session:
            await session.run("First")
            async with anyio.create_task_group() as group:
                group.start_soon(session.run, "Go")
                while not any("Two." in told.text for told in w.told(TextDelta)):
                    await anyio.sleep(0.01)
                await session.send(Interrupt())
            before = inside(session).agent.client.billing.budget
        async with w.open(continue_last=True) as session:
            after = inside(session).agent.client.billing.budget

    assert (after.turns, after.tokens, after.usd) == (before.turns, before.tokens, before.usd)
    assert before.turns == 1
