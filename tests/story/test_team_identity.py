"""Who speaks, and what members share: twenty of them in one process."""

from __future__ import annotations

import random
import re

import anyio
import pytest

from prong.agent.speaker import must_be, speaking
from prong.errors import NotPossibleNow
from prong.ids import AgentPath
from prong.mail import Cursor, Message, TeamFolder
from prong.testing import Step, World, Worlds, delay, say
from prong.testing.request import Request, block_text
from prong.testing.script import Call
from prong.tools.team_task import TaskListArguments
from prong.tools.teamwork import TeamMessageArguments
from prong.tools.tool import Failed
from shared.cast import CREATE, Cast, spawn
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M4")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
NAMES = [f"m{number}" for number in range(1, 21)]


class _Chatter:
    """Lets every member write to others at random, a few at once, with pauses at random."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._said: dict[str, int] = {}

    def __call__(self, request: Request) -> Step:
        said = [block_text(b.raw) for b in request.blocks if b.section == "messages"]
        found = re.search(r"You are (m\d+) of the team", "\n".join(said))
        if found is None:
            done = "You lead" in said[-1]
            return spawn(*NAMES, subagent_type="general-purpose") if done else _first(said)
        name = found[1]
        self._said[name] = self._said.get(name, 0) + 1
        pause = self._chance.uniform(0.0, 0.05)
        if self._said[name] > 3:
            return delay(pause, then=say(f"I am {name}."))
        others = self._chance.sample([*NAMES, "leader"], 3)
        parts = [
            Call("SendMessage", {"to": other, "message": f"I am {name}."})
            for other in others
            if other != name
        ]
        return delay(pause, then=Step(tuple(parts)))


def _first(said: list[str]) -> Step:
    return CREATE if said[-1] == "Go" else say("Ok.")


@pytest.mark.timeout(240)
async def test_none_of_twenty_ever_speaks_in_anothers_name(world: Worlds) -> None:
    """Whatever they await and in whatever order, each message is signed by who wrote it."""
    async with world(_Chatter(1), **GIVEN) as w:
        await w.session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        read = 0
        for name in (*NAMES, "leader"):
            for mail, _ in folder.read(name, Cursor()).mails:
                if isinstance(mail.body, Message):
                    assert mail.body.text == f"I am {mail.sender}."
                    read += 1
        assert read > 60
        assert f'from="{NAMES[0]}"' in "".join(text_of(w.parts, f"main/{n}") for n in NAMES)


async def _team(w: World) -> None:
    await w.session.run("Go")


@pytest.mark.parametrize("who", ["main/bob", "main", ""])
async def test_another_agent_cannot_use_a_members_port(world: Worlds, who: str) -> None:
    """The port of a member that got into other hands sends nothing and changes nothing."""
    script = Cast([("Go", CREATE), ("You lead", spawn("alice", "bob"))])
    async with world(script, **GIVEN) as w:
        await _team(w)
        port = w.parts.supervisor.registry.agents["main/alice"].context.team
        assert port is not None
        folder = TeamFolder.open(w.store, "crew")
        before = len(folder.read("leader", Cursor()).mails)
        with speaking(AgentPath(who)):
            sent = await port.send(TeamMessageArguments("leader", "I am alice."))
            listed = await port.task(TaskListArguments())
        for outcome in (sent, listed):
            assert isinstance(outcome, Failed)
            assert "in the name of main/alice" in outcome.why
        assert len(folder.read("leader", Cursor()).mails) == before
        with speaking(AgentPath("main/alice")):
            assert not isinstance(await port.task(TaskListArguments()), Failed)


async def test_the_speaker_travels_through_tasks_and_not_out_of_them() -> None:
    """Whatever is started inside speaks as the same agent; outside nobody has changed."""
    seen: list[str] = []

    async def as_(path: str) -> None:
        with speaking(AgentPath(path)):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(check, path)

    async def check(path: str) -> None:
        await anyio.sleep(random.uniform(0, 0.01))
        must_be(AgentPath(path))
        await anyio.to_thread.run_sync(must_be, AgentPath(path))
        seen.append(path)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(as_, f"main/{number}")
    assert len(seen) == 60
    with pytest.raises(NotPossibleNow):
        must_be(AgentPath("main/1"))


async def test_members_share_the_client_and_nothing_else(world: Worlds) -> None:
    """Two members have one transport and the session's servers; no state of theirs is common."""
    more = {"subagent_type": "general-purpose"}
    script = Cast([("Go", CREATE), ("You lead", spawn("alice", "bob", **more))])
    async with world(script, **GIVEN) as w:
        await _team(w)
        agents = w.parts.supervisor.registry.agents
        alice, bob = agents["main/alice"], agents["main/bob"]
        assert alice.client.provider is bob.client.provider
        for one, other in (
            (alice.conversation, bob.conversation),
            (alice.inbox, bob.inbox),
            (alice.context, bob.context),
            (alice.context.reads, bob.context.reads),
            (alice.context.env, bob.context.env),
            (alice.context.tasks, bob.context.tasks),
            (alice.context.team, bob.context.team),
            (alice.policy, bob.policy),
            (alice.run, bob.run),
            (alice.client.billing.budget, bob.client.billing.budget),
        ):
            assert one is not other
