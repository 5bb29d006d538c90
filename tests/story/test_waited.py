"""With background work switched off everything is waited for."""

from __future__ import annotations

import pytest

from prong.errors import UsageError
from prong.event import TaskFinished
from prong.testing import Script, Worlds, call, say
from shared.typed import agent, of, result

pytestmark = [pytest.mark.anyio, pytest.mark.spec("T2")]

OFF = '{"background": false}'
TYPES = '{"hidden": {"description": "d", "prompt": "p", "background": true}}'


def tools(body: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {tool["name"]: str(tool) for tool in body["tools"]}


@pytest.mark.parametrize("kind", ["general-purpose", "hidden"])
async def test_every_agent_is_waited_for(world: Worlds, kind: str) -> None:
    """An agent's report is the result of the call, also of a type that is always behind."""
    script = Script([agent("BRIEF", kind), say("Done.")], {"BRIEF": [say("Found it.")]})
    async with world(script, settings=OFF, agents=TYPES, mode="bypassPermissions") as w:
        turn = await w.session.run("Go")

        assert turn.text == "Done."
        assert "Found it." in result(w)
        assert "<task-notification>" not in str(w.bodies())
        assert w.parts.supervisor.to_background() == []


async def test_nothing_is_offered_that_would_not_be_waited_for(world: Worlds) -> None:
    """No tool, of the main agent or of a child, speaks of the background; forks are off."""
    script = Script([agent("BRIEF", "general-purpose"), say("Done.")], {"BRIEF": [say("Found.")]})
    async with world(script, settings=OFF, mode="bypassPermissions") as w:
        await w.session.run("Go")
        offered = {**tools(w.bodies()[0]), **tools(of(w, "BRIEF")[0])}

        assert "run_in_background" not in offered["Bash"]
        assert "run_in_background" not in offered["Agent"]
        assert "fork of you" not in offered["Agent"]
        assert "everything it started has been stopped" in offered["Bash"]
        with pytest.raises(UsageError, match="the setting background is false"):
            await w.session.fork(["A part."])


async def test_a_call_that_asks_for_the_background_is_refused(world: Worlds) -> None:
    """A model that asks for it all the same is told that there is no such argument."""
    ask = call("Bash", {"command": "echo one", "run_in_background": True})
    async with world([ask, say("Done.")], settings=OFF, mode="bypassPermissions") as w:
        await w.session.run("Go")

        assert "run_in_background" in result(w)
        assert not w.told(TaskFinished)


async def test_an_agent_that_goes_on_is_waited_for_again(world: Worlds) -> None:
    """A message to a finished agent gives its next report as the result."""
    script = Script(
        [
            agent("BRIEF", "general-purpose", name="bob"),
            call("SendMessage", {"to": "bob", "message": "And now?"}),
            say("Done."),
        ],
        {"BRIEF": [say("First."), say("Second.")]},
    )
    async with world(script, settings=OFF) as w:
        await w.session.run("Go")

        assert "Second." in result(w)
        assert "<task-notification>" not in str(w.bodies())


async def test_a_coordinator_needs_the_background(world: Worlds) -> None:
    """A session that could not do what it is for does not start."""
    with pytest.raises(UsageError, match="workers are in the background"):
        async with world([], settings=OFF, coordinator=True):
            pass


@pytest.mark.spec("C7")
@pytest.mark.parametrize(("settings", "there"), [("{}", True), ('{"scratchpad": false}', False)])
async def test_the_scratchpad_can_be_switched_off(
    world: Worlds, settings: str, *, there: bool
) -> None:
    """Without it nobody is told of one, and no folder is made or opened."""
    script = Script([agent("BRIEF"), say("W."), say("Done.")], {"BRIEF": [say("Found.")]})
    async with world(script, settings=settings, coordinator=True, mode="dontAsk") as w:
        await w.session.run("Go")
        told = [str(body["system"]) for body in (w.bodies()[0], of(w, "BRIEF")[0])]

        assert ["Scratchpad: " in text for text in told] == [there, there]
        assert bool(w.parts.agent.policy.policy.scratchpad) == there
        assert bool(list(w.store.rglob("scratchpad"))) == there


@pytest.mark.spec("C2")
async def test_workers_have_no_model_to_choose(world: Worlds) -> None:
    """The coordinator's Agent tool offers no model: the user has chosen it."""
    async with world([say("Hello.")], coordinator=True) as w:
        await w.session.run("Go")

        schema = next(t["input_schema"] for t in w.bodies()[0]["tools"] if t["name"] == "Agent")
        assert "model" not in schema["properties"]
