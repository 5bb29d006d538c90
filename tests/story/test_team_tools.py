"""What members may use: the layers of a kit and what teams except from them."""

from __future__ import annotations

from typing import Any

import pytest

from prong.testing import Worlds, call, calls, say
from prong.tools.filter import TEAM_TASKS, TEAMMATE, Request, filter_kit
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("S7", "M1")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
LEADING = {"TeamCreate", "TeamSpawn", "TeamDelete"}
HEAD = 1_000
"""Tokens by which the tools of a team may lengthen a head."""


def tools(w: Any, of: str) -> dict[str, Any]:
    """The tools of the first request of an agent."""
    for record in w.server.records:
        if of in record.body.decode():
            return {tool["name"]: tool for tool in record.json["tools"]}
    raise AssertionError(of)


async def test_a_typed_member_gains_agents_it_waits_for_messages_and_tasks(world: Worlds) -> None:
    """Its Agent has no way into the background and no forks; an agent of its own has no team."""
    more = {"subagent_type": "general-purpose"}
    agent = call("Agent", {"description": "look", "prompt": "LOOK around."})
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", **more))],
        alice=[("PART of alice", agent), ("tool uses", to("leader", "It has looked."))],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")

        mine = tools(w, "You are alice of the team")
        assert set(mine) > TEAMMATE
        assert not (LEADING | {"TaskStop", "EnterPlanMode", "ExitPlanMode"}) & set(mine)
        fields = mine["Agent"]["input_schema"]["properties"]
        assert "run_in_background" not in fields
        assert "fork" not in mine["Agent"]["description"].lower()
        assert not TEAM_TASKS & set(tools(w, "LOOK around."))
        assert text_of(w.parts).count("It has looked.") == 1
        assert "It has looked." in text_of(w.parts)
        assert "<task-id>" not in text_of(w.parts, "main/alice")


@pytest.mark.parametrize("name", ["Agent", "TeamCreate", "TeamSpawn", "TeamDelete"])
async def test_a_fork_leads_and_delegates_nothing(world: Worlds, name: str) -> None:
    """A member that is a fork has the leader's tools in its head, and may not use those."""
    arguments = {
        "Agent": {"description": "x", "prompt": "y"},
        "TeamCreate": {"name": "other"},
        "TeamSpawn": {"name": "x", "description": "x", "prompt": "y"},
        "TeamDelete": {},
    }
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice"))],
        alice=[("PART of alice", call(name, arguments[name]))],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        assert f"a fork never uses {name}" in text_of(w.parts, "main/alice")


@pytest.mark.parametrize("background", [True, False])
def test_only_members_have_the_shared_tasks(background: bool) -> None:
    """The layers take the list from every other agent, and leading from every one."""
    names = (*sorted(TEAMMATE | LEADING), "Read", "ExitPlanMode")
    plain = filter_kit(names, Request(background=background))
    member = filter_kit(names, Request(background=background, teammate=True, plan=True))

    assert not (TEAM_TASKS | LEADING) & set(plain.kept)
    assert {*TEAMMATE, "Read", "ExitPlanMode"} == set(member.kept)


async def test_a_rule_about_agents_is_one_about_members(world: Worlds) -> None:
    """A type that may not be started as an agent may not be started as a member."""
    more = {"subagent_type": "Explore"}
    script = [CREATE, spawn("alice", **more), say("Ok.")]
    async with world(script, deny=("Agent(Explore)",), **GIVEN) as w:
        await w.session.run("Go")
        assert "is forbidden by `Agent(Explore)`" in text_of(w.parts)


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_the_tools_of_a_team_are_short(world: Worlds, api: str) -> None:
    """They lengthen the head by fewer than a thousand tokens."""
    sizes: list[int] = []
    for team in (False, True):
        async with world([say("Hi.")], api=api, opens=False) as w:
            async with w.open(team=team) as session:
                await session.run("Hi")
            (record,) = w.server.records
            head = [block for block in record.request.blocks if block.role != "user"]
            sizes.append(sum(block.tokens for block in head))
        w.root.rmdir()
        w.folder.joinpath("home").rename(w.folder / f"home-{team}")
    assert 0 < sizes[1] - sizes[0] < HEAD, sizes


async def test_a_member_and_an_ordinary_agent_in_one_reply(world: Worlds) -> None:
    """Members and forks that one reply starts share its base, and each ends in its own way."""
    both = calls(
        ("TeamSpawn", {"name": "alice", "description": "x", "prompt": "PART of alice."}),
        ("Agent", {"description": "x", "prompt": "FORKED part."}),
    )
    script = Cast([("Go", CREATE), ("You lead", both)])
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        told = text_of(w.parts)
        assert told.count("<task-notification>") == 1
        assert told.count("alice has nothing to do") == 1
        kinds = {receipt.kind for receipt in w.session.receipts()}
        assert kinds == {"fork"}
        assert len(w.session.receipts()) == 2
