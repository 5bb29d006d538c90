from __future__ import annotations

import json
from contextlib import aclosing, suppress
from random import Random
from typing import Any

import anyio
import pytest

from prong.entry import user_text
from prong.errors import (
    BadRequest,
    BrokenReply,
    ContextOverflow,
    NoSuchModel,
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorised,
    Unreachable,
)
from prong.prompt import Head, Mark, Prompt
from prong.provider import Api, Endpoint, Http, HttpLimits, Patience, Retrying, Streamed, pick
from prong.testing.local_port import held_port
from prong.wire import Began, Ended, Fault, HeadSpec, Tail, TextPiece, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.door]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def message(**more) -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
        "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 1}, **more,
    }  # fmt: skip


BEGIN = sse(
    {"type": "message_start", "message": message()},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hello"},
    },
)
END = sse(
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
)
STREAM = "content-type: text/event-stream\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


HEAD = (
    f"HTTP/1.1 200 OK\r\n{STREAM}transfer-encoding: chunked\r\nrequest-id: req_s\r\n\r\n".encode()
)
WHOLE = HEAD + chunk(BEGIN) + chunk(END) + b"0\r\n\r\n"


def error(status: str, kind: str, text: str, headers: str = "") -> bytes:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()
    head = f"HTTP/1.1 {status}\r\nrequest-id: req_9\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class World:
    """A provider on a server that plays one script per request; naps are noted, not slept."""

    def __init__(self, serve, *script: bytes, api: str = "anthropic", **options) -> None:
        self.script = list(script)
        self.serve = serve
        self.api = api
        self.options = options
        self.naps: list[float] = []
        self.requests: list[tuple[str, bytes]] = []
        self.events: list[Streamed] = []
        self.connections = 0
        self.key = "sk-1"

    async def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        await anyio.lowlevel.checkpoint()

    async def play(self, peer, _number) -> None:
        while True:
            self.requests.append(await peer.request())
            data = self.script.pop(0)
            await peer.send(data)
            if not data.endswith(b"0\r\n\r\n") and b"content-length" not in data:
                return

    def provider(self, http: Http, url: str) -> tuple[Api, Prompt]:
        endpoint, model = pick(
            "claude-x", api=self.api, base_url=url, env={"ANTHROPIC_API_KEY": self.key}
        )
        spoken = dialect(endpoint.dialect)
        provider = Api(http, endpoint, spoken, random=Random(7), sleep=self.nap, **self.options)
        spec = HeadSpec(model=model, system=("Be brief.",), betas=("a-1", "b-2"))
        return provider, Prompt(Head(spoken, spec)).append(user_text("Hi"))

    async def run(self, tail: Tail | None = None, marks=()) -> list[Streamed]:
        async with self.serve(self.play) as server, Http(env={}) as http:
            provider, prompt = self.provider(http, server.url)
            stream = provider.stream(prompt, marks, tail or Tail(max_tokens=9))
            async with aclosing(stream) as events:
                async for event in events:
                    self.events.append(event)
            self.connections = server.connections
        return self.events

    async def fail(self) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            await self.run()
        return caught.value

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


@pytest.mark.spec("L9")
async def test_a_reply_is_streamed_from_began_to_ended(serve):
    """The body is the prompt's own bytes, the headers are the vendor's, the events come in order."""
    world = World(serve, WHOLE)
    await world.run(marks=[Mark(None)])

    assert world.kinds == ["Began", "TextPiece", "Ended"]
    assert world.events[1] == TextPiece("Hello")
    [(head, body)] = world.requests
    _, prompt = world.provider(Http(env={}), "http://127.0.0.1")
    assert body == prompt.body([Mark(None)], Tail(max_tokens=9))
    assert head.startswith("POST /v1/messages HTTP/1.1\r\n")
    for line in ("x-api-key: sk-1", "anthropic-version: 2023-06-01", "anthropic-beta: a-1,b-2"):
        assert line in head.split("\r\n")


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    ("api", "path"), [("chat", "chat/completions"), ("responses", "responses")]
)
async def test_the_other_dialects_go_to_their_own_paths(serve, api, path):
    """An OpenAI-like server is asked at the path of its API; its errors are understood."""
    world = World(serve, error("400 Bad Request", "x", "no"), api=api)
    await world.fail()

    assert world.requests[0][0].startswith(f"POST /v1/{path} HTTP/1.1\r\n")


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ("retry-after: 7\r\n", 7, 7.7),
        ("retry-after-ms: 1500\r\n", 1.5, 1.65),
        ("retry-after: nonsense\r\n", 0, 0.5),
        ("retry-after: -3\r\n", 0, 0.5),
        ("retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n", 0, 0),
        ("", 0, 0.5),
    ],
)
async def test_a_rate_limit_waits_as_long_as_the_provider_asks(serve, headers, low, high):
    """Retry-after is honoured in each of its forms, else the wait is short and random."""
    world = World(serve, error("429 Slow", "rate_limit_error", "slow down", headers), WHOLE)
    await world.run()

    assert world.kinds == ["Retrying", "Began", "TextPiece", "Ended"]
    assert low <= world.naps[0] <= high
    first = world.events[0]
    assert isinstance(first, Retrying)
    assert (first.seconds, first.attempt, first.discarded) == (world.naps[0], 1, False)
    assert "slow down" in first.why
    assert world.requests[0] == world.requests[1]
    assert world.connections == 1


@pytest.mark.spec("L10")
@pytest.mark.parametrize("status", ["500 Oops", "502 Bad", "503 No", "529 Busy", "408 Slow"])
async def test_a_failing_server_is_tried_a_bounded_number_of_times(serve, status):
    """Eight tries with growing waits, then the error with its status and request id."""
    world = World(serve, *[error(status, "overloaded_error", "Overloaded")] * 8)
    caught = await world.fail()

    assert isinstance(caught, Overloaded)
    assert (caught.status, caught.request_id) == (int(status[:3]), "req_9")
    assert "try again later" in str(caught)
    assert len(world.requests) == 8
    bounds = [0.5, 1, 2, 4, 8, 16, 32]
    assert len(world.naps) == 7
    assert all(nap <= bound for nap, bound in zip(world.naps, bounds, strict=True))
    assert max(world.naps) > 0.5


@pytest.mark.spec("L10")
@pytest.mark.parametrize(("asked", "requests"), [("2", 21), ("0", 8)])
async def test_a_refusal_that_names_a_time_is_no_try(serve, asked, requests):
    """Waits as asked are bounded by their sum; a server that always says "now" by the tries."""
    refusal = error("429 Slow", "rate_limit_error", "later", f"retry-after: {asked}\r\n")
    world = World(serve, *[refusal] * 20, WHOLE)
    with suppress(RateLimited):
        await world.run()
    assert len(world.requests) == requests


@pytest.mark.spec("L10")
async def test_waiting_has_a_limit_of_its_own(serve):
    """A provider that wants an hour of rest is reported now, with the time it asked for."""
    world = World(serve, error("429 Slow", "rate_limit_error", "later", "retry-after: 3600\r\n"))
    caught = await world.fail()

    assert isinstance(caught, RateLimited)
    assert caught.retry_after == 3600
    assert world.naps == []


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    "cut",
    [
        HEAD + chunk(BEGIN),
        HEAD + chunk(BEGIN) + b"0\r\n\r\n",
        HEAD + chunk(BEGIN) + chunk(END)[:-20],
        HEAD + chunk(BEGIN + b"event: content_block_delta\ndata: {not json\n\n") + b"0\r\n\r\n",
        HEAD
        + chunk(BEGIN)
        + chunk(sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}))
        + b"0\r\n\r\n",
    ],
    ids=["disconnect", "early end", "cut in an event", "malformed", "error event"],
)
async def test_a_half_streamed_reply_is_void_and_asked_again_whole(serve, cut):
    """However a reply breaks off, it is said to be discarded, and exactly one ends."""
    world = World(serve, cut, WHOLE)
    await world.run()

    assert world.kinds == [
        "Began", "TextPiece", "Retrying", "Began", "TextPiece", "Ended",
    ]  # fmt: skip
    retrying = world.events[2]
    assert isinstance(retrying, Retrying)
    assert retrying.discarded
    assert world.requests[0] == world.requests[1]
    last = world.events[-1]
    assert isinstance(last, Ended)
    assert last.reply.text == "Hello"


@pytest.mark.spec("L10")
async def test_a_reply_that_always_breaks_off_is_an_error_in_the_end(serve):
    """No Ended and no Fault comes out; the error is a broken reply."""
    world = World(serve, *[HEAD + chunk(BEGIN)] * 3, patience=Patience(tries=3))
    caught = await world.fail()

    assert isinstance(caught, BrokenReply)
    assert world.kinds.count("Retrying") == 2
    assert not any(isinstance(event, Ended | Fault) for event in world.events)


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (
            error("401 No", "authentication_error", "invalid x-api-key"),
            Unauthorised,
            r"the key in ANTHROPIC_API_KEY was refused by http://127.*: invalid x-api-key \(request req_9\)",
        ),
        (error("403 No", "permission_error", "not yours"), Unauthorised, "not yours"),
        (error("404 No", "not_found_error", "model: claude-x"), NoSuchModel, "claude-x.*--model"),
        (error("404 No", "not_found_error", "Not Found"), BadRequest, "check the base URL"),
        (
            error("404 No", "model_not_found", "The model `x` does not exist"),
            NoSuchModel,
            "--model",
        ),
        (
            error("400 Bad", "invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"),
            ContextOverflow,
            "too long for claude-x",
        ),
        (error("400 Bad", "context_length_exceeded", "no"), ContextOverflow, "too long for claude-x"),
        (
            error("400 Bad", "x", "the request exceeds the available context size"),
            ContextOverflow,
            "too long for claude-x",
        ),
        (error("413 Big", "request_too_large", "too large"), ContextOverflow, "too long for claude-x"),
        (error("400 Bad", "invalid_request_error", "max_tokens"), BadRequest, "max_tokens"),
        (error("422 Bad", "x", "field required"), BadRequest, "field required"),
        (error("429 No", "insufficient_quota", "quota"), RateLimited, "no credit left"),
        (
            error("500 No", "api_error", "gone", "x-should-retry: false\r\n"),
            Overloaded,
            "gone",
        ),
        (
            error("301 Moved", "", "", "location: https://b.test/\r\n"),
            BadRequest,
            "points to https://b.test/; redirects are not followed",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
            BadRequest,
            "web page",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n\n<html>",
            BadRequest,
            "web page",
        ),
        (
            b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"id":""}',
            BrokenReply,
            "has no content, so it is none of this API",
        ),
        (
            b"HTTP/1.1 403 No\r\ncontent-type: text/html\r\ncontent-length: 10\r\n\r\n<title>WAF",
            Unauthorised,
            r"something before .* \(403\) with a web page.*: WAF",
        ),
        (
            b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n",
            BadRequest,
            "a proxy before .* wants a login",
        ),
        (b"HTTP/1.1 204 No\r\n\r\n", BadRequest, "answered 204, which is no reply"),
        (b"HTTP/1.1 418 No\r\ncontent-length: 0\r\n\r\n", BadRequest, r"\(418\): no explanation"),
    ],
)  # fmt: skip
async def test_a_refusal_is_reported_at_once_with_its_remedy(serve, answer, kind, says):
    """What would be refused again is not sent again."""
    world = World(serve, answer)
    with pytest.raises(kind, match=says) as caught:
        await world.run()

    assert len(world.requests) == 1
    assert world.naps == []
    assert "sk-1" not in str(caught.value)


@pytest.mark.spec("L10")
async def test_a_refusal_inside_a_stream_is_not_retried(serve):
    """An error event that says the request is wrong ends it."""
    bad = sse({"type": "error", "error": {"type": "invalid_request_error", "message": "odd"}})
    world = World(serve, HEAD + chunk(bad) + b"0\r\n\r\n")
    caught = await world.fail()

    assert "odd" in str(caught)
    assert caught.request_id == "req_s"
    assert len(world.requests) == 1


@pytest.mark.spec("L10")
async def test_a_server_may_insist_on_a_retry(serve):
    """The header x-should-retry overrules the status."""
    world = World(serve, error("400 Bad", "x", "y", "x-should-retry: true\r\n"), WHOLE)

    assert isinstance((await world.run())[-1], Ended)


@pytest.mark.spec("L10")
async def test_an_unreachable_server_is_tried_and_then_named(serve):
    """Three tries, each announced; the last error says what to check."""
    world = World(serve)
    with held_port() as port:
        async with Http(env={}) as http:
            provider, prompt = world.provider(http, f"http://127.0.0.1:{port}")
            events: list[Streamed] = []

            async def ask() -> None:
                async with aclosing(provider.stream(prompt)) as stream:
                    async for event in stream:
                        events.append(event)  # noqa: PERF401 - what came before the error counts

            with pytest.raises(Unreachable, match="check that the server runs"):
                await ask()
    assert [e.attempt for e in events if isinstance(e, Retrying)] == [1, 2]


@pytest.mark.spec("L10")
async def test_silence_in_mid_stream_counts_as_a_break(serve):
    """A server that falls silent is left, and the reply is asked again."""
    world = World(serve)
    kinds: list[str] = []

    async def play(peer, _number):
        await peer.request()
        # It is silent until that was noticed: a machine may be silent at any other moment too.
        await peer.send(WHOLE if "TextPiece" in kinds else HEAD + chunk(BEGIN))
        await peer.wait_gone()

    async with serve(play) as server, Http(env={}, limits=HttpLimits(idle=3)) as http:
        provider, prompt = world.provider(http, server.url)
        async with aclosing(provider.stream(prompt)) as stream:
            async for event in stream:
                kinds.append(type(event).__name__)  # noqa: PERF401 - the server looks at it
    first = kinds.index("TextPiece")
    assert kinds[first - 1 : first + 2] == ["Began", "TextPiece", "Retrying"]
    assert kinds[-3:] == ["Began", "TextPiece", "Ended"]


async def test_a_reply_may_come_unstreamed(serve):
    """A body in one piece is decoded whole, asked for or not."""
    text = {"type": "text", "text": "All."}
    body = json.dumps(message(content=[text], stop_reason="end_turn")).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    for tail in (Tail(stream=False, max_tokens=9), Tail(max_tokens=9), Tail(prewarm=True)):
        world = World(serve, head.encode() + body)
        events = await world.run(tail)

        assert isinstance(events[0], Began)
        assert isinstance(events[-1], Ended)
        assert events[-1].reply.text == "All."


@pytest.mark.spec("L10")
async def test_closing_the_stream_closes_the_connection(serve):
    """An interrupted reply stops at the server too."""
    gone = anyio.Event()
    world = World(serve)

    async def play(peer, _number):
        await peer.request()
        await peer.send(HEAD + chunk(BEGIN))
        await peer.wait_gone()
        gone.set()

    async with serve(play) as server, Http(env={}) as http:
        provider, prompt = world.provider(http, server.url)
        async with aclosing(provider.stream(prompt)) as stream:
            async for event in stream:
                if isinstance(event, TextPiece):
                    break
        with anyio.fail_after(50):
            await gone.wait()


async def test_the_reply_does_not_wait_for_the_end_of_the_response(serve):
    """Once the reply is whole, a server that keeps the response open holds nobody up."""
    world = World(serve)

    async def play(peer, _number):
        await peer.request()
        await peer.send(HEAD + chunk(BEGIN) + chunk(END))
        await peer.wait_gone()

    async with serve(play) as server, Http(env={}) as http:
        provider, prompt = world.provider(http, server.url)
        with anyio.fail_after(50):
            async with aclosing(provider.stream(prompt)) as stream:
                events = [event async for event in stream]
    assert isinstance(events[-1], Ended)


async def test_a_whole_reply_leaves_its_connection_for_the_next(serve, monkeypatch):
    """The end of the response may come after the reply's; the connection is used again."""
    monkeypatch.setattr("prong.provider.connection._SETTLE_SECONDS", 50.0)
    world = World(serve)
    may_end, ended = anyio.Semaphore(0), anyio.Semaphore(0)

    async def play(peer, _number):
        while True:
            await peer.request()
            await peer.send(HEAD + chunk(BEGIN) + chunk(END))
            await may_end.acquire()
            await peer.send(b"0\r\n\r\n")
            ended.release()

    async with serve(play) as server, Http(env={}) as http:
        provider, prompt = world.provider(http, server.url)
        for _ in range(3):
            async with aclosing(provider.stream(prompt)) as stream:
                events = [event async for event in stream]
            assert isinstance(events[-1], Ended)
            may_end.release()
            await ended.acquire()
            (pool,) = http._pools.values()
            with anyio.fail_after(50):
                while not pool.free:
                    await anyio.sleep(0.01)
        assert server.connections == 1


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    "answer",
    [
        error("401 Unauthorized", "authentication_error", "bad key sk-secret-0123456789 given"),
        error("400 Bad Request", "sk-secret-0123456789", "no"),
        error("302 Found", "moved", "there", "location: http://x/?key=sk-secret-0123456789\r\n"),
        error("500 Oops", "api_error", "ok", "request-id: sk-secret-0123456789\r\n"),
        b"HTTP/1.1 200 sk-secret-0123456789 \x00\r\n\r\n",
        b"HTTP/1.1 502 Bad\r\ncontent-length: 33\r\n\r\n<p>x-api-key sk-secret-0123456789",
        HEAD
        + chunk(sse({"type": "error", "error": {"type": "x", "message": "sk-secret-0123456789"}})),
    ],
)
async def test_a_key_that_a_server_sends_back_is_not_shown(serve, answer: bytes):
    """However an error carries the key, neither the error nor a retry says it."""
    world = World(serve, *[answer] * 2, patience=Patience(tries=2, first=0.0))
    world.key = "sk-secret-0123456789"
    failure = await world.fail()

    assert "sk-secret-0123456789" not in str(failure)
    assert "sk-secret-0123456789" not in "".join(
        e.why for e in world.events if isinstance(e, Retrying)
    )


def test_only_keys_are_hidden():
    """A header that is no secret stays in what a server says, and so does a key of two letters."""
    key = "abcdef0123456789"
    headers = (("x-team", "blue-team-0123456789"), ("authorization", f"Bearer {key}"))
    endpoint = Endpoint(base_url="http://x", dialect="chat", headers=(*headers, ("x-key", "ab")))

    told = endpoint.secrets.mask(f"ab blue-team-0123456789 {key}")

    assert told == "ab blue-team-0123456789 [key hidden]"
