"""Many channels over one line, and prompts that travel once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Text, User
from prong.errors import WorkerFailed
from prong.event import TextDelta, Warned
from prong.ids import AgentPath
from prong.prompt import Head, Prompt
from prong.session.port import Port, Relay
from prong.team.channel import ROOM, WINDOW, Incoming, Outgoing
from prong.team.message import (
    LARGEST,
    Credit,
    EntrySent,
    EventTold,
    Frames,
    HeadSent,
    Taken,
    read_up,
)
from prong.team.rope_transfer import KnownRopes, SentRopes
from prong.team.workspace_message import BundlePart
from prong.wire import HeadSpec, dialect

pytestmark = pytest.mark.spec("R2")

LARGE = BundlePart(data=bytes(WINDOW // 8))


class Line:
    """A line within this process: what one side writes is held for each channel of the other."""

    def __init__(self, channels: Sequence[int]) -> None:
        self.here, self.there = Outgoing(), Outgoing()
        self.taken = {number: Incoming(number, self.there) for number in channels}
        self.came = dict.fromkeys(channels, 0)
        self._cut, self._back = Frames(), Frames()

    async def carry(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.here.pump, self._write)
            group.start_soon(self.there.pump, self._write_back)

    async def _write(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        for whole in self._cut.feed(data):
            self.came[whole.channel] += len(whole.data)
            self.taken[whole.channel].put(whole.data)

    async def _write_back(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        for whole in self._back.feed(data):
            credit = read_up(whole.data)
            assert isinstance(credit, Credit)
            self.here.grant(credit)


@pytest.mark.anyio
async def test_a_channel_that_nobody_takes_holds_up_itself_alone() -> None:
    """Of the slow one at most a window comes and a little waits; the other gets everything."""
    line = Line([1, 2])
    async with anyio.create_task_group() as group:
        group.start_soon(line.carry)
        for _ in range(40):
            line.here.put(LARGE, 1)
            line.here.put(LARGE, 2)
        async with aclosing(line.taken[2].frames()) as frames:
            for _ in range(40):
                await anext(frames)
        group.cancel_scope.cancel()

    assert line.came[1] < WINDOW + WINDOW // 4
    assert line.came[2] > 4 * WINDOW


@pytest.mark.anyio
async def test_who_can_wait_waits_for_room() -> None:
    """A sender that waits for room holds no more than that in memory, and goes on as it is taken."""
    line, sent, stuck = Line([1]), 0, 0

    async def send() -> None:
        nonlocal sent
        for _ in range(40):
            await line.here.wait_room(1)
            line.here.put(LARGE, 1)
            sent += 1

    async with anyio.create_task_group() as group:
        group.start_soon(line.carry)
        group.start_soon(send)
        for _ in range(2_000):
            await anyio.lowlevel.checkpoint()
        stuck = sent
        assert line.here.backlog(1) < ROOM + WINDOW // 4
        async with aclosing(line.taken[1].frames()) as frames:
            for _ in range(40):
                await anext(frames)
        group.cancel_scope.cancel()

    assert (stuck < 12, sent) == (True, 40)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=40))
def test_each_channel_keeps_its_order(given_: list[tuple[int, int]]) -> None:
    """However channels are mixed, what comes by each is what went, in its order, and whole."""
    found: dict[int, list[int]] = {}

    async def play() -> None:
        outgoing, cut = Outgoing(), Frames()

        async def write(data: bytes) -> None:
            await anyio.lowlevel.checkpoint()
            for whole in cut.feed(data):
                message = read_up(whole.data)
                assert isinstance(message, Taken)
                found.setdefault(whole.channel, []).append(message.number)

        async with anyio.create_task_group() as group:
            group.start_soon(outgoing.pump, write)
            for channel, number in given_:
                outgoing.put(Taken(number=number), channel)
            for channel in range(4):
                await outgoing.wait_room(channel, below=1)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(play)
    wanted: dict[int, list[int]] = {}
    for channel, number in given_:
        wanted.setdefault(channel, []).append(number)
    assert found == wanted


@pytest.mark.anyio
async def test_more_than_was_allowed_is_refused() -> None:
    """Who does not hold to the window is not listened to without end."""
    incoming, part = Incoming(1, Outgoing()), bytes(1 << 20)
    for _ in range((WINDOW + LARGEST) // len(part) - 1):
        incoming.put(part)
    with pytest.raises(WorkerFailed, match="more than it was told"):
        incoming.put(bytes(LARGEST))


@pytest.mark.anyio
async def test_a_line_that_has_ended_keeps_nobody_waiting() -> None:
    """Who waits for room goes on when the line ends, and nothing is held any more."""
    outgoing = Outgoing()
    for _ in range(20):
        outgoing.put(LARGE, 1)
    async with anyio.create_task_group() as group:
        group.start_soon(outgoing.wait_room, 1)
        await anyio.lowlevel.checkpoint()
        outgoing.close()

    assert outgoing.backlog(1) == 0
    assert outgoing.put(LARGE, 1) == 0


@pytest.mark.anyio
async def test_live_output_is_left_out_while_the_line_is_slow() -> None:
    """What only shows how something goes on waits for nobody; it is said once, and its end comes."""
    outgoing, prompt = (
        Outgoing(),
        Prompt(Head(dialect("anthropic", explicit=True), HeadSpec(model="m"))),
    )
    relay = Relay(Port(outgoing, 1), AgentPath("main/a1"), prompt)
    for _ in range(10_000):
        relay.emit(TextDelta(text="x" * 1_000))
    relay.emit(Warned(text="told all the same"))

    assert outgoing.backlog(1) < ROOM + 10_000
    cut, told = Frames(), list[EventTold]()

    async def write(data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        for whole in cut.feed(data):
            message = read_up(whole.data)
            assert isinstance(message, EventTold)
            told.append(message)

    async with anyio.create_task_group() as group:
        group.start_soon(outgoing.pump, write)
        while not told or told[-1].event != Warned(text="told all the same"):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    slow = [one.event for one in told if isinstance(one.event, Warned)]
    assert ["is slow" in one.text for one in slow] == [True, False]


def chain(*texts: str) -> Prompt:
    head = Head(dialect("anthropic", explicit=True), HeadSpec(model="m", system=("You are.",)))
    return Prompt(head).append(*(User((Text(text),)) for text in texts))


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=9))
def test_prompts_travel_once_while_they_are_held(texts: list[list[str]]) -> None:
    """Every run finds its prompt, byte for byte, and no part of it comes a second time."""
    sent, known, ever, lent = SentRopes(), KnownRopes(), set[str](), list[tuple[str, ...]]()
    for one in texts:
        prompt = chain(*one)
        lent.append(sent.lend(prompt))
        for part in sent.missing(prompt):
            assert part.record.digest not in ever
            ever.add(part.record.digest)
            known.take(part)
        assert known.find(prompt.digest).open() == prompt.open()

    for digests in lent:
        if (forget := sent.give_back(digests)) is not None:
            known.take(forget)
    last = chain(*texts[-1])
    assert not list(sent.missing(last)), "the latest is kept"
    assert known.find(last.digest).open() == last.open()
    others = ever - {last.head.digest.hex(), *(node.digest.hex() for node in last.nodes())}
    for digest in others:
        with pytest.raises(WorkerFailed):
            known.find(digest)


def test_forks_share_one_copy() -> None:
    """What two prompts have in common is the same object over there."""
    base, known, sent = chain("a", "b"), KnownRopes(), SentRopes()
    forks = [base.append(User((Text(f"part {number}"),))) for number in range(3)]
    parts = 0
    for fork in forks:
        sent.lend(fork)
        for part in sent.missing(fork):
            known.take(part)
            parts += 1

    found = [known.find(fork.digest) for fork in forks]
    assert parts == 1 + 2 + 3
    assert {id(one.nodes()[1]) for one in found} == {id(found[0].nodes()[1])}
    assert {id(one.head) for one in found} == {id(found[0].head)}


def test_a_rope_that_does_not_fit_is_refused() -> None:
    """A part whose beginning is not there, or whose bytes are others, is not taken."""
    prompt = chain("a", "b")
    head, first, second = list(SentRopes().missing(prompt))
    assert isinstance(head, HeadSent)
    assert isinstance(second, EntrySent)
    known = KnownRopes()
    with pytest.raises(WorkerFailed, match="did not come whole"):
        known.take(first)
    known.take(head)
    with pytest.raises(WorkerFailed, match="did not come whole"):
        known.take(second)
    with pytest.raises(WorkerFailed, match="did not come whole"):
        known.find(prompt.digest)
