"""A session shown to another process, and its events told again in another's stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from prong.entry import Usage
from prong.errors import WorkerFailed
from prong.event import (
    MAIN,
    AgentFinished,
    AgentStarted,
    Envelope,
    Event,
    ReplyFinished,
    SessionFinished,
    SessionStarted,
    TaskStarted,
    TurnFinished,
)
from prong.ids import AgentPath, TaskId
from prong.session.member_events import MemberEvents
from prong.session.view_socket import shown, watch
from prong.testing import Clock, Script, Worlds, delay, forks, report, say
from prong.testing.span import check_events
from prong.view import fold_all

pytestmark = pytest.mark.anyio

ALICE = AgentPath("main/alice")
_E = TypeVar("_E", bound=Event)


class Leader:
    """The stream of a leader, in which a member is told of."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        started = SessionStarted(session_id="l", model="m", cwd="/", tools=(), mode="default")
        self.emit(MAIN, started)
        self.emit(MAIN, AgentStarted(kind="main", model="m"))

    def emit(self, agent: AgentPath, event: Event) -> None:
        """Number it as a stream does."""
        self.envelopes.append(Envelope(len(self.envelopes) + 1, 0.0, agent, event))

    def of(self, kind: type[_E]) -> list[_E]:
        return [one.event for one in self.envelopes if isinstance(one.event, kind)]

    def agents(self, kind: type[Event]) -> list[AgentPath]:
        """Say of whom such events speak."""
        return [one.agent for one in self.envelopes if isinstance(one.event, kind)]

    async def until(self, kind: type[Event], times: int = 1) -> None:
        with anyio.fail_after(50):
            while self.agents(kind).count(ALICE) < times:
                await anyio.sleep(0.01)


def begins(session: str) -> AgentStarted:
    """What a leader tells of alice, who works in a session."""
    task = TaskId("alice")
    return AgentStarted(
        kind="fork", model="m", parent=MAIN, task_id=task, member="alice", session=session
    )


@asynccontextmanager
async def following(
    member: MemberEvents, socket: Path, *, anew: bool = True
) -> AsyncGenerator[None, None]:
    async with anyio.create_task_group() as group:

        async def follow() -> None:
            await member.follow([socket], anew=anew)

        group.start_soon(follow)
        yield
        group.cancel_scope.cancel()


@pytest.mark.spec("M9")
async def test_who_watches_gets_what_was_recorded_and_then_what_happens(
    world: Worlds, tmp_path: Path
) -> None:
    """No gap and nothing twice between the past and the present, as for a face of the session."""
    socket = tmp_path / "v"
    async with world([say("One."), say("Two.")]) as w:
        bus = w.parts.bus
        async with shown(bus, w.session.id, socket):
            await w.session.run("Hi")
            async with watch(socket, since=0) as member:
                assert member.what.session == w.session.id
                await w.session.run("Again")
                got: list[Envelope] = []
                async for envelope in member:
                    got.append(envelope)
                    if envelope.seq == bus.seq:
                        break
    recorded = [one for one in got if one.seq]
    assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1))
    assert [one.event.text for one in got if isinstance(one.event, ReplyFinished)] == [
        "One.",
        "Two.",
    ]
    assert not socket.exists()


@pytest.mark.spec("M9")
async def test_a_member_is_told_of_below_the_leader(world: Worlds, tmp_path: Path) -> None:
    """Its agents stand under its name, forks included; what it costs is in its own books."""
    socket, leader = tmp_path / "v", Leader()
    script = Script(
        [forks("Look."), say("Sent."), say("Done.")], {"Look.": [delay(1.0, then=report("Seen."))]}
    )
    clock = Clock()
    async with world(script, attended=True, clock=clock) as w:
        member = MemberEvents(ALICE, begins(w.session.id), leader.emit)
        async with shown(w.parts.bus, w.session.id, socket), following(member, socket):
            await w.session.say("Go")
            await leader.until(TurnFinished)
            while not clock.sleepers:
                await anyio.sleep(0.01)
            clock.advance(1.0)
            await leader.until(TurnFinished, 2)
        cost = w.session.cost
    begun = leader.agents(AgentStarted)
    assert begun[:2] == [MAIN, ALICE]
    assert begun[2].startswith(f"{ALICE}/")
    assert all(one.task_id.startswith("alice:") for one in leader.of(TaskStarted))
    view = fold_all(leader.envelopes)
    assert view.cost == 0.0
    assert cost is not None
    assert sum(a.cost or 0.0 for a in view.agents.values()) == pytest.approx(cost)
    assert len(leader.of(SessionStarted)) == 1


@pytest.mark.spec("M7")
async def test_what_a_lost_member_had_begun_is_ended(world: Worlds, tmp_path: Path) -> None:
    """When its socket is gone, whatever it had open in the leader's stream ends there, once."""
    socket, leader = tmp_path / "v", Leader()
    async with world([say("One.")]) as w:
        member = MemberEvents(ALICE, begins(w.session.id), leader.emit)
        async with following(member, socket), shown(w.parts.bus, w.session.id, socket):
            await w.session.run("Hi")
            await leader.until(TurnFinished)
        assert not leader.of(AgentFinished)
        member.end("its process is gone")
        member.end("it is still gone")
        assert [one.detail for one in leader.of(AgentFinished)] == ["its process is gone"]
    leader.emit(MAIN, AgentFinished(status="completed"))
    leader.emit(MAIN, SessionFinished(cost=0.0, usage=Usage()))
    check_events(leader.envelopes)


@pytest.mark.spec("M7")
async def test_a_resumed_leader_tells_only_of_what_is_new(world: Worlds, tmp_path: Path) -> None:
    """What a member did before is not told twice; that it is there, and at work, is."""
    socket, leader = tmp_path / "v", Leader()
    async with world([say("One."), say("Two.")]) as w, shown(w.parts.bus, w.session.id, socket):
        await w.session.run("Hi")
        member = MemberEvents(ALICE, begins(w.session.id), leader.emit)
        async with following(member, socket, anew=False):
            await leader.until(AgentStarted)
            await w.session.run("Again")
            await leader.until(TurnFinished)
    replies = [one.text for one in leader.of(ReplyFinished)]
    assert replies == ["Two."]


@pytest.mark.spec("M9")
async def test_another_session_is_not_taken_for_the_member(world: Worlds, tmp_path: Path) -> None:
    """A socket that shows another session than the member's is refused."""
    socket, leader = tmp_path / "v", Leader()
    async with world([]) as w, shown(w.parts.bus, w.session.id, socket):
        with pytest.raises(WorkerFailed, match="it is session"):
            await MemberEvents(ALICE, begins("another"), leader.emit).follow([socket], anew=True)


@pytest.mark.spec("M9")
@pytest.mark.parametrize(
    "asked",
    [
        *(b"", b"{}\n", b"garbage\n", b"[" * 2_000, b'{"since":-5}\n'),
        b'{"x":' + b"[" * 990 + b"\n",
        b'{"\xff":1}\n',
    ],
)
async def test_whoever_asks_wrongly_is_let_go(world: Worlds, tmp_path: Path, asked: bytes) -> None:
    """Garbage ends the one connection and nothing else."""
    socket = tmp_path / "v"
    async with world([say("One.")]) as w, shown(w.parts.bus, w.session.id, socket):
        async with await anyio.connect_unix(socket) as stream:
            if asked:
                await stream.send(asked)
        await w.session.run("Hi")
        async with watch(socket, since=0) as member:
            assert (await anext(member)).seq == 1
