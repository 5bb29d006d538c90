"""A provider over HTTP: one request per try, as many tries as make sense."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from prong.about import __version__
from prong.errors import (
    BadRequest,
    BrokenReply,
    ProngError,
    ProviderError,
    RateLimited,
    Unreachable,
)
from prong.foreign_json import NOT_JSON
from prong.prompt import Mark, Prompt
from prong.provider.address import is_loopback, read_url
from prong.provider.azure import azure_path
from prong.provider.provider import Endpoint, Noticed, Provider, Retrying, Streamed, Trait
from prong.provider.secret import Secrets
from prong.provider.throttle import Throttle
from prong.provider.transport import Response, Transport, read, read_beginning
from prong.wire import Dialect, Ended, Fault, ResponseBounds, Tail, WireEvent, join_pieces

if TYPE_CHECKING:
    from random import Random

_ERROR_BODY_LIMIT = 65_536
_ERROR_BODY_SECONDS = 30.0
_STEP = 32_768
"""Bytes that are decoded before others get their turn."""
_PLAIN = Tail()
_COMMON = Trait()
LINEAGE = "x-prong-lineage"
SIDECAR = "x-prong-sidecar"
"""Who asks, and for what: told to servers on this machine, where tests hold requests to the law."""


_A_TIME = 1.0
"""Seconds that are enough of a wait to be bounded by their sum alone."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a request is tried again."""

    tries: int = 8
    """A refusal for a limit that says when to come again is none of them: its wait counts alone."""
    connect: int = 3
    """Tries in a row when nothing is there to connect to: a wrong address stays wrong."""
    waits: int = 2
    """Tries that may end with nothing but waiting: each takes as long as the time limits allow."""
    first: float = 0.5
    """Upper bound in seconds of the first wait; it doubles with every try."""
    longest: float = 32.0
    """Upper bound in seconds of any wait that the provider did not ask for."""
    limit: float = 600.0
    """Seconds of waiting in all, after which the error is reported instead."""

    def wait(self, attempt: int, asked: float | None, random: Random) -> float:
        """Choose the wait after a failed try, counted from 1."""
        if asked is not None:
            # Never sooner than asked, and not all agents at the same instant.
            return asked + random.uniform(0, min(1.0, asked / 10))
        return random.uniform(0, min(self.longest, self.first * 2 ** (attempt - 1)))


class _Tries(msgspec.Struct):
    """What the tries of one request have come to."""

    attempt: int = 1
    failed: int = 0
    waited: float = 0.0
    absent: int = 0
    stalls: int = 0

    def fail(self, error: ProviderError, wait: float) -> None:
        """Count a try that failed, and the wait after it."""
        told_when = isinstance(error, RateLimited) and (error.retry_after or 0.0) >= _A_TIME
        self.failed += not told_when
        self.waited += wait
        self.absent = self.absent + 1 if isinstance(error, Unreachable) and error.absent else 0
        self.stalls += error.waited

    def over(self, patience: Patience) -> bool:
        """Whether the request is not to be sent again."""
        return (
            self.failed >= patience.tries
            or self.absent >= patience.connect
            or self.stalls >= patience.waits
            or self.waited > patience.limit
        )


_OK = 200
_LISTING, _LISTING_SECONDS = 1 << 20, 2.0
"""Bytes that a list of models may have, and seconds it is waited for."""


class _ModelRow(msgspec.Struct):
    id: str


class _ModelRows(msgspec.Struct):
    data: list[_ModelRow] = []


class Api:
    """A model behind HTTP."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        dialect: Dialect,
        *,
        patience: Patience | None = None,
        bounds: ResponseBounds | None = None,
        throttle: Throttle | None = None,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Share the client and the throttle with every other agent.

        Without a throttle requests are sent at once; `random` and `sleep` serve the retries.
        """
        assert dialect.name == endpoint.dialect, "an endpoint speaks one dialect"
        self.endpoint = endpoint
        self.transport = transport
        self._dialect = dialect
        self.patience = patience or Patience()
        self._bounds = bounds or ResponseBounds()
        self._throttle = throttle or Throttle(learns=False)
        self._random = random
        self._sleep = sleep
        self._local = is_loopback(read_url(endpoint.base_url).host)
        self._headers = (
            ("content-type", "application/json"),
            ("accept", "text/event-stream, application/json"),
            ("user-agent", f"prong/{__version__}"),
            *endpoint.headers,
        )

    @property
    def name(self) -> str:
        """The base URL."""
        return self.endpoint.base_url

    @property
    def secrets(self) -> Secrets:
        """What of a request nobody should see."""
        return self.endpoint.secrets

    @property
    def dialect(self) -> Dialect:
        """The wire format of the endpoint."""
        return self._dialect

    @property
    def trait(self) -> Trait:
        """Nothing special."""
        return _COMMON

    async def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = _PLAIN,
        *,
        who: str = "",
        sidecar: str = "",
    ) -> AsyncGenerator[Streamed, None]:
        """Ask for one reply; see `Provider.stream`."""
        assert prompt.head.dialect.name == self._dialect.name, "a prompt has one dialect for good"
        # In pieces, which many requests share: a body may be held for as long as a reply takes.
        body = prompt.pieces(marks, tail)
        sent = self._headers_for(prompt, who, sidecar)
        tries = _Tries()
        while True:
            begun = False
            if remark := self._throttle.remark():
                yield Noticed(remark)
            sent_at = await self._throttle.wait_turn(who, again=tries.attempt > 1)
            try:
                async with aclosing(self._try(prompt.head.model, body, tail, sent)) as batches:
                    async for events in batches:
                        if events and not begun:
                            begun = True
                            self._throttle.answered(who)
                        for event in join_pieces(events):
                            if isinstance(event, Ended):
                                yield self._mended(event, prompt)
                                return
                            yield event
                raise BrokenReply(f"the reply of {self.endpoint.base_url} has no end")
            except ProviderError as error:
                error.args = (self.secrets.mask(str(error)),)
                wait = self._wait_after(tries.attempt, error)
                if isinstance(error, RateLimited) and error.retryable:
                    self._throttle.refused(sent_at, error.retry_after)
                tries.fail(error, wait)
                if not error.retryable or tries.over(self.patience):
                    raise
                why = str(error)
            # Outside the handler, so that the failed try is forgotten while we wait.
            yield Retrying(why, wait, tries.attempt, begun)
            await self._sleep(wait)
            tries.attempt += 1

    def _mended(self, event: Ended, prompt: Prompt) -> Ended:
        """Take calls that a model wrote as text for calls."""
        tools = prompt.head.spec.tools
        if not tools or self._dialect.name not in {"chat", "claude-chat"}:
            return event
        from prong.wire.written import mended

        names = {tool.name for tool in tools}
        reply = mended(event.reply, names, f"call_{prompt.digest[:12]}")
        return event if reply is event.reply else msgspec.structs.replace(event, reply=reply)

    def _wait_after(self, attempt: int, error: ProviderError) -> float:
        if self._random is None:
            from random import Random

            self._random = Random()  # noqa: S311 - spreads waits, guards nothing
        return self.patience.wait(attempt, error.retry_after, self._random)

    async def _try(
        self, model: str, body: Sequence[bytes], tail: Tail, headers: Sequence[tuple[str, str]]
    ) -> AsyncGenerator[Sequence[WireEvent], None]:
        """Give the events in batches, as they came: there are thousands, and most come together."""
        url = self._url(model, tail)
        async with self.transport.request("POST", url, headers, body) as response:
            if response.status != 200:
                raise await self._refused(response, model)
            async with aclosing(self._decode(response, tail)) as batches:
                async for events in batches:
                    # A decoder is silent after a fault or an end, so either is the last it gives.
                    last = events[-1] if events else None
                    if isinstance(last, Fault):
                        from prong.provider.failure import from_stream

                        yield events[:-1]
                        raise from_stream(last, self.endpoint, model, response.headers)
                    if isinstance(last, Ended):
                        # Nothing that could follow matters, but the connection is worth keeping.
                        response.settle()
                    yield events

    async def _decode(
        self, response: Response, tail: Tail
    ) -> AsyncGenerator[Sequence[WireEvent], None]:
        decoder = self._dialect.decoder(self._bounds)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            raise self._web_page(response)
        streamed = tail.stream and not tail.prewarm
        if kind in {"text/event-stream", "application/json"}:
            # What the server did counts for more than what it was asked to do.
            streamed = kind == "text/event-stream"
        if not streamed:
            body = await read(response, self._bounds.response)
            if _is_page(body):
                raise self._web_page(response)
            yield decoder.whole(body)
            return
        first = True
        async for data in response:
            if first and _is_page(data):
                raise self._web_page(response)
            first = False
            for at in range(0, len(data), _STEP):
                if at:
                    await checkpoint()
                events = decoder.feed(data[at : at + _STEP])
                if events:
                    response.progressed()
                yield events
        yield decoder.close()

    def _url(self, model: str, tail: Tail) -> str:
        path = self._dialect.path(model, stream=tail.stream and not tail.prewarm)
        return address(self.endpoint.base_url, path)

    def _web_page(self, response: Response) -> BadRequest:
        why = "answered with a web page, not with a reply; check the base URL"
        return BadRequest(f"{self.endpoint.base_url} {why}", status=response.status)

    async def _refused(self, response: Response, model: str) -> ProviderError:
        from prong.provider.failure import Refusal, mapped

        # Without it, the status alone says enough.
        body = b""
        with anyio.move_on_after(_ERROR_BODY_SECONDS), suppress(BrokenReply):
            body = await read_beginning(response, _ERROR_BODY_LIMIT)
        response.settle()
        kind, message = self._dialect.fault(response.status, body)
        refusal = Refusal(
            kind=kind, message=message, status=response.status, headers=response.headers
        )
        return mapped(refusal, self.endpoint, model)

    async def models(self) -> list[str]:
        """Ask the server which models it has; none if it does not say so at once."""
        url = address(self.endpoint.base_url, "/v1/models")
        try:
            with anyio.fail_after(_LISTING_SECONDS):
                async with self.transport.request("GET", url, self._headers) as response:
                    data = await read(response, _LISTING)
                    response.settle()
            if response.status != _OK:
                return []
            found = msgspec.json.decode(data, type=_ModelRows)
        except (*NOT_JSON, ProngError, TimeoutError):
            return []
        return [model.id for model in found.data if model.id.isprintable()]

    def _headers_for(self, prompt: Prompt, who: str, sidecar: str) -> list[tuple[str, str]]:
        headers = list(self._headers)
        betas = prompt.head.spec.betas
        if betas and self._dialect.name == "anthropic":
            headers.append(("anthropic-beta", ",".join(betas)))
        if self._local:
            # Nobody else's business.
            headers += [pair for pair in ((LINEAGE, who), (SIDECAR, sidecar)) if pair[1]]
        return headers


def _is_page(beginning: bytes) -> bool:
    """Whether a body is a web page, whatever its headers call it: no API answers so."""
    return beginning.lstrip()[:1] == b"<"


def address(base_url: str, path: str) -> str:
    """Join a base URL and a dialect's path, whether or not either names the version."""
    base, question, query = base_url.partition("?")
    base = base.rstrip("/")
    version, rest = _parted(path)
    # Some documentation gives the whole address.
    base = base.removesuffix(rest)
    if (there := azure_path(base, rest)) is None:
        versioned = any(_is_version(segment) for segment in base.split("/")[3:])
        there = f"{base}{'' if versioned else version}{rest}"
    return f"{there}{'&' if query and '?' in rest else question}{query}"


def _parted(path: str) -> tuple[str, str]:
    """Part a path from the version of the API before it, which is the first where none is named."""
    rest = path if path.startswith("/") else f"/{path}"
    first, slash, more = rest[1:].partition("/")
    return (f"/{first}", f"/{more}") if slash and _is_version(first) else ("/v1", rest)


def _is_version(segment: str) -> bool:
    return segment[:1] == "v" and segment[1:2].isdigit()


if TYPE_CHECKING:
    _provider: type[Provider] = Api
