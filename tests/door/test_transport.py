"""The seam between a provider and its HTTP client: another client serves as well."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest

from prong.entry import user_text
from prong.errors import BadRequest, BrokenReply, Unreachable
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider import Api, Endpoint, Http, Patience, Provider, Providers, Trait, Transport
from prong.provider.transport import read, read_beginning
from prong.testing import Server, fail, say
from prong.wire import Ended, HeadSpec, Tail, TextPiece, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.door]

MESSAGES = dialect("anthropic")


class Reply:
    """A response of httpx2."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.origin = str(response.url.copy_with(path="/")).rstrip("/")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except httpx2.HTTPError as error:
            raise BrokenReply(str(error)) from error

    def settle(self) -> None:
        """Let it: the connection is closed."""

    def progressed(self) -> None:
        """Let it: there is one time limit for every read."""


class Httpx:
    """The client that the vendors' own libraries use."""

    def __init__(self) -> None:
        self._client = httpx2.AsyncClient(trust_env=False, timeout=50)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> AsyncGenerator[Reply, None]:
        content = body if isinstance(body, bytes) else b"".join(body)
        try:
            sent = self._client.stream(method, url, headers=list(headers), content=content)
            async with sent as response:
                yield Reply(response)
        except httpx2.ConnectError as error:
            raise Unreachable(str(error)) from error

    async def aclose(self) -> None:
        await self._client.aclose()


class Memory:
    """A client without a network: every request gets the same body, and its headers are kept."""

    def __init__(self, *pieces: bytes, status: int = 200) -> None:
        self.pieces = pieces
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self.origin = "https://models.example"
        self.sent: list[dict[str, str]] = []
        self.closed = 0

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> AsyncGenerator[Memory, None]:
        self.sent.append(dict(headers))
        yield self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece

    def settle(self) -> None: ...

    def progressed(self) -> None: ...

    async def aclose(self) -> None:
        self.closed += 1


def prompt() -> Prompt:
    return Prompt(Head(MESSAGES, HeadSpec(model="m", system=("Be brief.",)))).append(
        user_text("Hi")
    )


async def ask(provider: Provider, **asking: str) -> Ended:
    async with aclosing(provider.stream(prompt(), (), Tail(max_tokens=9), **asking)) as events:
        async for event in events:
            if isinstance(event, Ended):
                return event
    raise AssertionError("there was no end")


@pytest.mark.parametrize("client", [Http, Httpx])
@pytest.mark.spec("L9", "L10")
async def test_a_provider_works_over_any_client(client: type[Transport]):
    """Replies, retries and refusals are the same through our client and through another."""
    script = [
        say("Hello."),
        fail(529, "overloaded_error", "busy"),
        say("Again."),
        fail(400, "invalid_request_error", "odd"),
    ]
    async with Server(script, moves_prefix="one question, asked anew") as server:
        endpoint = Endpoint(base_url=server.url, dialect="anthropic")
        async with Providers(client(), env={}) as providers:
            provider = providers.connect(endpoint, "m", patience=Patience(first=0.001))
            first, second = await ask(provider), await ask(provider)
            with pytest.raises(BadRequest):
                await ask(provider)

    assert (first.reply.text, second.reply.text) == ("Hello.", "Again.")
    assert provider.trait == Trait()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:9", {"x-prong-lineage": "main/a", "x-prong-sidecar": "title"}),
        ("https://models.example", {}),
        ("http://192.168.0.7:8080", {}),
    ],
)
async def test_who_asks_is_told_on_this_machine_alone(url: str, told: dict[str, str]):
    """A test server on loopback learns which agent asks, and for what; nobody else does."""
    memory = Memory(b"{}", status=400)
    provider = Api(memory, Endpoint(base_url=url, dialect="anthropic"), MESSAGES)
    with pytest.raises(BadRequest):
        await ask(provider, who="main/a", sidecar="title")

    [sent] = memory.sent
    assert {name: sent[name] for name in sent if name.startswith("x-prong-")} == told


def streamed(*texts: str) -> bytes:
    """Write a reply as a server streams it, each text in an event of its own."""
    deltas = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
        for text in texts
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "m"}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "message_stop"},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


@pytest.mark.spec("L9")
async def test_text_that_comes_together_is_one_piece():
    """What one read brings is passed on as one piece of text, what comes alone by itself."""
    whole = streamed("It ", "is ", "so", ", and ", "not otherwise.")
    cut = whole.index(b", and ") + 40
    memory = Memory(whole[:cut], whole[cut:])
    memory.headers = {"content-type": "text/event-stream"}
    provider = Api(memory, Endpoint(base_url="https://m.example", dialect="anthropic"), MESSAGES)

    async with aclosing(provider.stream(prompt(), (), Tail(max_tokens=9))) as events:
        found = [event async for event in events]

    texts = [event.text for event in found if isinstance(event, TextPiece)]
    assert texts == ["It is so, and ", "not otherwise."]
    assert isinstance(found[-1], Ended)
    assert found[-1].reply.text == "".join(texts)


async def test_a_body_has_a_limit_over_any_client():
    """A whole body that is too long is refused, its beginning can be had, and all is not kept."""
    memory = Memory(b"abc", b"def", b"ghi")

    assert await read(memory, 9) == b"abcdefghi"
    assert await read_beginning(memory, 4) == b"abcd"
    with pytest.raises(BrokenReply, match=r"models\.example is too large") as caught:
        await read(memory, 5)
    assert not caught.value.retryable


async def test_providers_of_a_session_close_their_client():
    """Whoever makes the providers closes the client with them, once."""
    memory = Memory()
    async with Providers(memory, env={}):
        assert not memory.closed

    assert memory.closed == 1
