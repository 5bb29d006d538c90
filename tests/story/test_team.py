"""Teams in one process: created, spawned, talked to, asleep, ended."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from prong.command import Accepted, Interrupt, Stop
from prong.event import AgentFinished, AgentRested, AgentStarted, Event, ToolStarted
from prong.mail import TeamFolder
from prong.testing import Worlds, call, say
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M1", "M7")]


@pytest.mark.parametrize("kind", ["fork", "general-purpose"])
async def test_a_member_works_says_that_it_is_idle_and_sleeps(world: Worlds, kind: str) -> None:
    """A member reports by message, is idle once, and makes no request until somebody writes."""
    more = {} if kind == "fork" else {"subagent_type": kind}
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", **more))],
        alice=[("PART of alice", to("leader", "It is 42.")), ("Sent to leader", say("I am done."))],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")

        leader = w.parts.agent.conversation.prompt
        told = "\n".join(str(entry) for _, entry in leader.entries())
        assert told.count("It is 42.") == 1
        assert told.count("alice has nothing to do and sleeps. The last it said: I am done.") == 1
        assert [type(e) for e in w.told(AgentRested)] == [AgentRested]
        (started,) = [e for e in w.told(AgentStarted) if e.member]
        assert (started.member, started.kind) == ("alice", "fork" if kind == "fork" else "typed")
        requests = len(w.server.records)
        await anyio.sleep(1.5)
        assert len(w.server.records) == requests
        folder = TeamFolder.open(w.store, "crew")
        assert [m.state for m in folder.team.members] == ["idle"]
        assert not w.told(AgentFinished)
    assert [m.state for m in folder.team.members] == ["ended"]


@pytest.mark.spec("M5")
async def test_members_write_to_each_other_and_to_all(world: Worlds) -> None:
    """A message reaches the one it names, or all but its sender, each with its sender's name."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", "bob"))],
        alice=[("PART of alice", to("bob", "From alice to bob."))],
        bob=[("PART of bob", to("*", "From bob to all."))],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")

        alice, bob = text_of(w.parts, "main/alice"), text_of(w.parts, "main/bob")
        assert alice.count("From bob to all.\\n</teammate-message>") == 1
        assert bob.count("From alice to bob.\\n</teammate-message>") == 1
        assert text_of(w.parts).count("From bob to all.\\n</teammate-message>") == 1
        assert "From alice to bob.\\n</teammate-message>" not in text_of(w.parts)
        assert '<teammate-message from="alice" id=' in bob
        assert '<teammate-message from="bob" id=' in alice


async def test_a_member_is_asked_to_end_and_may_decline(world: Worlds) -> None:
    """It declines once with its reason, agrees the second time, and then ends with a notice."""
    ask = to("alice", "The work is over.", shutdown=True)
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice")),
            ("End it", ask),
            ("declines to end", call("TeamDelete")),
            ("still run", ask),
            ("And delete", call("TeamDelete")),
        ],
        alice=[
            ("The work is over.", to("leader", "Not yet: a test is red.", approve=False)),
            ("The work is over.", to("leader", "", approve=True)),
        ],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.run("End it")
        told = text_of(w.parts)
        assert told.count("alice declines to end: Not yet: a test is red.") == 1
        assert told.count("alice agrees to end.") == 1
        assert "alice of crew still run; end them first" in told
        (finished,) = w.told(AgentFinished)
        assert finished.status == "completed"
        assert told.count("<task-id>alice</task-id>") == 1
        assert 'teammate alice "a part" completed' in told
        await w.session.run("And delete")
        assert "The team crew is gone, with 1 member" in text_of(w.parts)
        assert not (w.store / "teams" / "crew").exists()


@pytest.mark.spec("M8")
async def test_a_free_task_wakes_one_sleeper_and_a_dead_owners_returns(world: Worlds) -> None:
    """One sleeping member is told of a free task; killed, it gives it back and another is told."""
    claim = call("TeamTaskUpdate", {"id": "1", "status": "in_progress"})
    wait = call("Bash", {"command": "sleep 30"})
    rules = [("Mend the parser", claim), ("in_progress", wait)]
    new = call("TeamTaskCreate", {"title": "Mend the parser"})
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", "bob")), ("New work", new)],
        alice=rules,
        bob=rules,
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.run("New work", wait_tasks=False)
        folder = TeamFolder.open(w.store, "crew")
        with anyio.fail_after(50):
            while not (owner := folder.tasks.get("1").owner):
                await anyio.sleep(0.05)
        other = "bob" if owner == "alice" else "alice"
        assert "Mend the parser" not in text_of(w.parts, f"main/{other}")
        before = len(w.told(AgentFinished))
        stop = await w.session.send(Stop(owner))
        assert isinstance(stop, Accepted)
        with anyio.fail_after(50):
            while folder.tasks.get("1").owner != other:
                await anyio.sleep(0.05)
        assert "Mend the parser" in text_of(w.parts, f"main/{other}")
        assert [e.status for e in w.told(AgentFinished)[before:]] == ["killed"]
        assert [m.state for m in folder.team.members if m.name == owner] == ["ended"]
        assert [m.state for m in folder.team.members if m.name == other] == ["working"]


def _is_command(event: Event) -> bool:
    return isinstance(event, ToolStarted) and event.name == "Bash"


async def test_an_interrupted_leader_leaves_its_members_running(world: Worlds) -> None:
    """The turn of the leader ends; its members work on and report."""
    work = call("Bash", {"command": "until [ -e go ]; do sleep 0.02; done; echo slept"})
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice")),
            ("Dispatched", call("Bash", {"command": "sleep 30"})),
        ],
        alice=[("PART of alice", work), ("slept", to("leader", "Here I am."))],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(50):
            # Both are at work.
            while {e.agent for e in w.envelopes if _is_command(e.event)} != {"main", "main/alice"}:
                await anyio.sleep(0.01)
        assert await w.session.send(Interrupt()) == Accepted()
        (w.root / "go").touch()
        await w.session.wait_settled()
        assert "Here I am." in text_of(w.parts)
        assert not w.told(AgentFinished)


async def test_an_ended_member_goes_on_with_a_message(world: Worlds) -> None:
    """A message to a member that has ended starts it again, as a member, on its very prompt."""
    script = Cast(
        [
            ("Go", CREATE),
            ("You lead", spawn("alice")),
            ("End it", to("alice", "", shutdown=True)),
            ("More", to("alice", "One more thing.")),
        ],
        alice=[
            ("asks you to end", to("leader", "", approve=True)),
            ("One more thing.", to("leader", "Back again.")),
        ],
    )
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.run("End it")
        await w.session.run("More")
        assert "Back again." in text_of(w.parts)
        folder = TeamFolder.open(w.store, "crew")
        assert [m.state for m in folder.team.members] == ["idle"]
        assert len(w.told(AgentFinished)) == 1


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (call("TeamCreate", {"name": "a/b"}), "cannot be the name of a team"),
        (spawn("alice"), "there is no team yet"),
        (call("TeamTaskList"), "there is no team yet"),
        (call("TeamDelete"), "there is no team yet"),
        (to("alice", "Hi"), "there is no agent 'alice' of yours"),
        (to("alice", "Hi", approve=True), "is no member of your team"),
    ],
)
async def test_what_cannot_be_is_said(world: Worlds, step: Any, why: str) -> None:
    """A wrong name, or no team yet: the model is told, and nothing else happens."""
    async with world([step, say("Ok.")], team=True) as w:
        await w.session.run("Go")
        assert why in text_of(w.parts)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "Leader"}, "cannot be the name of a member"),
        ({"name": "leader"}, "has a meaning of its own"),
        ({"name": "x", "backend": "nowhere"}, "there is no back-end 'nowhere'"),
        ({"name": "x", "subagent_type": "nobody"}, "there is no agent type 'nobody'"),
        ({"name": "x", "model": "other"}, "a fork runs on its parent's model"),
    ],
)
async def test_a_member_that_cannot_be_leaves_no_trace(
    world: Worlds, given: dict[str, Any], why: str
) -> None:
    """A member that could not be started is in no list, and its name is free."""
    arguments = {"description": "a part", "prompt": "PART", **given}
    script = [CREATE, call("TeamSpawn", arguments), say("Ok.")]
    async with world(script, team=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert why in text_of(w.parts)
        assert not TeamFolder.open(w.store, "crew").team.members


async def test_without_team_there_are_no_such_tools(world: Worlds) -> None:
    """An ordinary session has no tool of teams, and its SendMessage is as it was."""
    async with world([say("Hi.")]) as w:
        await w.session.run("Hi")
        tools = {tool["name"]: tool for tool in w.server.records[0].json["tools"]}
        assert not [name for name in tools if name.startswith("Team")]
        assert set(tools["SendMessage"]["input_schema"]["properties"]) == {"to", "message"}
