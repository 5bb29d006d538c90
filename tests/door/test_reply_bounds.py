"""A reply has bounds, and a server that floods or says nothing is left, in bounded memory."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, get_args

import anyio
import pytest

from prong.entry import user_text
from prong.errors import BrokenReply, Overloaded, ProviderError
from prong.prompt import Head, Prompt
from prong.provider import Api, Http, HttpLimits, Patience, Retrying, Streamed, pick
from prong.provider.inflate import Bomb, Inflate
from prong.provider.parse import INTERIM_LIMIT, Malformed, Parser
from prong.testing import Server, Step, Worlds, calls, flood, say
from prong.testing.hostile import FLOODS, Flood
from prong.wire import Ended, Fault, HeadSpec, ResponseBounds, Tail, dialect
from prong.wire.sse import Stream

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L10")]

SMALL = ResponseBounds(
    event=100_000, response=1 << 20, text=200_000, events=20_000, calls=50, parts=200
)
MODELS = {"anthropic": "claude-x", "responses": "gpt-x", "chat": "some-x"}
BUFFERS = 16 << 20
"""Bytes that the sockets of both sides may hold, generously."""


async def ask(
    server: Server, api: str = "anthropic", *, tail: Tail | None = None, **options: Any
) -> list[Streamed]:
    """Send one request, with small bounds."""
    limits = options.pop("limits", HttpLimits(idle=30, progress=30))
    bounds = options.pop("bounds", SMALL)
    options.setdefault("patience", Patience(tries=3, first=0.0))
    endpoint, model = pick(MODELS[api], api=api, base_url=server.url, key="sk-1", env={})
    spoken = dialect(api)
    events: list[Streamed] = []
    async with Http(env={}, limits=limits) as http:
        provider = Api(http, endpoint, spoken, bounds=bounds, **options)
        prompt = Prompt(Head(spoken, HeadSpec(model=model))).append(user_text("Hi"))
        stream = provider.stream(prompt, (), tail or Tail(max_tokens=9))
        async with aclosing(stream) as coming:
            events += [event async for event in coming]
    return events


async def refused(server: Server, api: str = "anthropic", **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(server, api, **options)
    return caught.value


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("line", "one of its events is longer than 100000 bytes"),
        ("event", "one of its events is longer than 100000 bytes"),
        ("text", "more than "),
        ("events", "more than "),
    ],
)
async def test_a_flood_ends_at_its_bound(api: str, what: Flood, why: str):
    """It is an error, told once and not asked for again, and the connection is closed."""
    async with Server([flood(what)]) as server:
        error = await refused(server, api)

        assert isinstance(error, BrokenReply)
        assert why in str(error)
        [record] = server.records
        with anyio.fail_after(50):
            while record.outcome == "open":
                await anyio.sleep(0.01)
        assert record.outcome == "gone"
        assert record.poured < SMALL.response + BUFFERS


async def test_a_compressed_body_is_weighed_by_what_it_unpacks_to():
    """A bomb is noticed by its ratio, whatever the other bounds are."""
    async with Server([flood("bomb")]) as server:
        error = await refused(server, bounds=ResponseBounds(event=1 << 30, response=1 << 30))

        assert "it unpacks to more than 250 times its size" in str(error)
        assert len(server.records) == 1


@pytest.mark.parametrize(
    ("what", "status", "why"),
    [
        ("headers", None, "the response head is longer than"),
        ("interim", None, f"more than {INTERIM_LIMIT} interim responses"),
        ("body", None, "it is longer than 1048576 bytes"),
        ("error", 500, "is failing or overloaded (500)"),
    ],
)
async def test_what_stands_around_a_reply_is_bounded_too(what: Flood, status: int | None, why: str):
    """Headers, interim responses, bodies that are not streamed and errors end as well."""
    async with Server([flood(what)] * 2) as server:
        error = await refused(server, patience=Patience(tries=2, first=0.0))

        assert why in str(error)
        assert isinstance(error, Overloaded if status else BrokenReply)
        assert all(record.poured < SMALL.response + BUFFERS for record in server.records)


@pytest.mark.parametrize("what", ["pings", "drip", "events"])
async def test_what_brings_nothing_is_no_sign_of_life(what: Flood):
    """A server that only pings, or drips, is given up although bytes come all the time."""
    limits = HttpLimits(idle=60, progress=0.5)
    bounds = ResponseBounds()
    async with Server([flood(what, between=0.02)] * 2) as server:
        with pytest.raises(BrokenReply, match="nothing but keep-alives or unfinished pieces"):
            await ask(server, limits=limits, bounds=bounds)

        # As long again is waited once, not for all the tries that other faults get.
        assert len(server.records) == 2


class LeapClock:
    """A clock whose sleepers hardly wait: the time of the loop leaps ahead."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passed = loop.time
        self._ahead = 0.0

    def now(self) -> float:
        return self._passed() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds

    async def sleep(self, seconds: float) -> None:
        # Whoever reads has its turn before the next leap.
        await anyio.sleep(0.01)
        self.advance(seconds)


async def test_pings_between_the_pieces_of_a_reply_do_no_harm(monkeypatch: pytest.MonkeyPatch):
    """Each piece begins the wait anew: the whole may take longer than one wait."""
    step = Step(say("x" * 1_200).parts, between=10)
    loop = asyncio.get_running_loop()
    clock = LeapClock(loop)
    monkeypatch.setattr(loop, "time", clock.now)
    async with Server([step], clock=clock) as server:
        events = await ask(server, limits=HttpLimits(idle=90, progress=90))

    assert isinstance(events[-1], Ended)
    assert not any(isinstance(event, Retrying) for event in events)
    assert len(events) * step.between > 90


@pytest.mark.parametrize("api", MODELS)
async def test_too_many_calls_are_not_run(api: str):
    """A reply of more calls than the bound is an error as a whole."""
    async with Server([calls(*[("Read", {"file_path": "x"})] * 51)]) as server:
        error = await refused(server, api)

    assert "more than 50 calls" in str(error)
    assert not error.retryable


@pytest.mark.parametrize("api", MODELS)
async def test_the_bound_on_calls_holds_for_whole_responses(api: str):
    """A response that is not streamed is held to the same bounds."""
    async with Server([calls(*[("Read", {"file_path": "x"})] * 51)]) as server:
        error = await refused(server, api, tail=Tail(stream=False, max_tokens=9))

    assert "more than 50 calls" in str(error)


@pytest.mark.parametrize("what", ["text", "events", "bomb", "line"])
async def test_a_flood_can_be_interrupted(what: Flood):
    """While a server floods, others get their turn: a cancellation is heard, and a clock ticks."""
    vast = ResponseBounds(
        event=1 << 40, response=1 << 40, text=1 << 40, events=1 << 40, parts=1 << 40
    )
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0)
            turns += 1

    async with Server([flood(what)]) as server:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(tick)

                async def flooded() -> None:
                    limits = HttpLimits(ratio=1 << 40)
                    await ask(server, limits=limits, bounds=vast)

                group.start_soon(flooded)
                while not server.records or server.records[0].poured < 5_000:
                    await anyio.sleep(0.01)
                before = turns
                while turns < before + 50:
                    await anyio.sleep(0)
                group.cancel_scope.cancel()


async def test_a_flooded_reply_is_never_stored(world: Worlds):
    """The turn ends with the error, and the conversation goes on without the reply."""
    async with world([flood("headers")] * 8 + [say("Here again.")], settings=RETRY) as w:
        turn = await w.session.run("Hi")
        assert turn.why == "error"

        w.server.inject(say("Here again."))
        assert (await w.session.run("And now?")).text == "Here again."


RETRY = '{"retry": {"tries": 2, "first": 0.0}}'


def feed(decoder: Any, pieces: list[bytes]) -> Fault:
    for piece in pieces:
        for event in decoder.feed(piece):
            if isinstance(event, Fault):
                return event
    raise AssertionError("no fault")


def test_the_parts_of_a_reply_are_counted():
    """Empty blocks, items and elements are bounded in number: each takes room."""
    block = b'data: {"type":"content_block_start","index":%d,"content_block":{"type":"text"}}\n\n'
    element = b'data: {"choices":[{"delta":{"odd":[{}]}}]}\n\n'
    call = b'data: {"choices":[{"delta":{"tool_calls":[{"index":%d}]}}]}\n\n'
    item = b'data: {"type":"response.output_item.done","output_index":%d,"item":{"type":"odd"}}\n\n'
    for name, pieces in (
        ("anthropic", [block % i for i in range(300)]),
        ("chat", [element] * 300),
        ("chat", [call % i for i in range(300)]),
        ("responses", [item % i for i in range(300)]),
    ):
        fault = feed(dialect(name).decoder(SMALL), pieces)
        assert (fault.kind, fault.retryable) == ("too_large", False)
        assert "200 parts" in fault.message


def test_a_decoder_holds_no_more_than_an_event():
    """What has not become an event is held up to the bound and not a byte further."""
    decoder = dialect("anthropic").decoder(SMALL)
    assert isinstance(decoder, Stream)
    for _ in range(SMALL.event // 1_000 + 1):
        decoder.feed(b"x" * 1_000)
    assert decoder.feed(b"x" * 1_000) == []  # after a fault it is silent
    held = decoder._lines._size
    assert held <= SMALL.event + 1_000


def test_an_honest_compressed_body_passes():
    """Repetitive text shrinks a hundredfold, and a short one more: neither is a bomb."""
    import zlib

    honest = b'data: {"type":"content_block_delta","delta":{"text":"word"}}\n\n' * 200_000
    assert b"".join(Inflate(250).feed(zlib.compress(honest[: 1 << 20]))) == honest[: 1 << 20]
    with pytest.raises(Bomb):
        for _ in Inflate(250).feed(zlib.compress(b"0" * (64 << 20))):
            pass


def test_interim_responses_are_counted():
    """A few interim responses are passed over; no end of them is malformed."""
    parser = Parser("POST")
    for _ in range(INTERIM_LIMIT):
        parser.feed(b"HTTP/1.1 102 Processing\r\n\r\n")
    with pytest.raises(Malformed, match="interim"):
        parser.feed(b"HTTP/1.1 102 Processing\r\n\r\n")


def test_every_flood_is_offered():
    """The kinds that the test server knows are those that its type names."""
    assert get_args(Flood) == FLOODS


async def test_the_user_says_how_long_to_wait(world: Worlds):
    """`retry.progress` ends a reply that consists of pings alone."""
    settings = '{"retry": {"tries": 1, "idle": 60, "progress": 0.3}}'
    async with world([flood("pings", between=0.02)], settings=settings) as w:
        turn = await w.session.run("Hi")

    assert turn.why == "error"
    assert "nothing but keep-alives or unfinished pieces came for 0.3 s" in turn.detail
