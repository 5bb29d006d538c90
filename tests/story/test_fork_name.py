"""Names of children that nobody has named."""

from __future__ import annotations

import anyio
import pytest

from prong.command import Accepted, Stop
from prong.event import AgentStarted, ToolFinished
from prong.testing import Script, World, Worlds, call, calls, forks, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F12", "X2")]

WAIT = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
AUTO = "bypassPermissions"


def names(w: World) -> list[str]:
    return [event.task_id for event in w.told(AgentStarted) if event.task_id]


async def test_they_are_counted_by_their_kind(world: Worlds) -> None:
    """A fork without a name is fork-1, a typed agent goes by its type; a taken name is passed by."""
    mixed = calls(
        ("Agent", {"description": "d", "prompt": "Part 1.", "name": "fork-2"}),
        ("Agent", {"description": "d", "prompt": "Part 2."}),
        ("Agent", {"description": "d", "prompt": "Part 3."}),
        ("Agent", {"description": "d", "prompt": "Look.", "subagent_type": "Explore"}),
    )
    steps = {f"Part {n}.": [report()] for n in (1, 2, 3, 4)} | {"Look.": [say("Seen.")]}
    async with world(Script([mixed, say("x")], steps, forever=say("ok")), mode=AUTO) as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        assert names(w) == ["fork-2", "fork-1", "fork-3", "explore-1"]
        assert await w.session.start_forks(["Part 4."]) == ["fork-4"]
        await w.session.wait_settled()


async def test_names_are_kept_and_not_given_twice(world: Worlds) -> None:
    """A resumed session counts on, and finds a fork by its name and by the id of its call."""
    steps = {"Part 1.": [report("one"), report("two")], "Part 2.": [report()]}
    to = {"to": "toolu_000001", "message": "Once more."}
    script = Script(
        [forks("Part 1."), say("x"), say("y"), call("SendMessage", to), forks("Part 2."), say("z")],
        steps,
        forever=say("ok"),
    )
    async with world(script, opens=False, mode=AUTO) as w:
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        async with w.open(resume=session.id) as session:
            await session.run("Again")
            await session.wait_settled()
        assert names(w) == ["fork-1", "fork-1", "fork-2"]
        assert not [event.text for event in w.told(ToolFinished) if event.failed]


@pytest.mark.parametrize("name", ["fork-1", "toolu_000001"])
async def test_the_id_of_the_call_names_the_task_too(world: Worlds, name: str) -> None:
    """What the model was told of its calls reaches a fork: its output can be asked for, it stops."""
    steps = {"Part 1.": [WAIT]}
    ask = call("TaskOutput", {"task_id": name})
    script = Script([forks("Part 1."), ask, say("x")], steps, forever=say("ok"))
    async with world(script, mode=AUTO) as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while not [e for e in w.told(ToolFinished) if e.name == "TaskOutput"]:
                await anyio.sleep(0.01)
        assert not [e.text for e in w.told(ToolFinished) if e.failed]
        outcome = await w.session.send(Stop(name))
        assert isinstance(outcome, Accepted)
        await w.session.wait_settled()
        assert [child.status for child in w.parts.supervisor.children] == ["killed"]
