"""One request: send the prompt, pass the stream on as events, enter the bill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from prong.agent.client import ModelClient
from prong.agent.conversation import Conversation
from prong.cost import Charge, fact, lifetime, plan
from prong.entry import Usage
from prong.errors import BrokenReply
from prong.event import (
    CallDelta,
    Event,
    Progressed,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    TextDelta,
    ThinkingDelta,
    Warned,
)
from prong.ids import RequestId
from prong.prompt import Mark, Prompt
from prong.provider import Noticed, Preparing, Retrying
from prong.wire import (
    Began,
    CallBegan,
    CallPiece,
    Ended,
    Tail,
    TextPiece,
    ThinkingPiece,
    WireEvent,
)


class _StreamTranslator:
    """Turns wire events into events for faces; keeps count of calls being written."""

    def __init__(self, emit: Callable[[Event], None], *, quiet: bool) -> None:
        self._emit = emit
        self._quiet = quiet
        self._calls: dict[str, tuple[str, int]] = {}

    def progress(self, event: Preparing) -> None:
        if not self._quiet:
            told = Progressed(what=event.what, done=event.done, total=event.total)
            self._emit(told)

    def show(self, event: WireEvent) -> None:
        if self._quiet:
            return
        match event:
            case TextPiece(text=text):
                self._emit(TextDelta(text=text))
            case ThinkingPiece(text=text):
                self._emit(ThinkingDelta(text=text))
            case CallBegan(id=call_id, name=name):
                self._calls[call_id] = (name, 0)
                self._emit(CallDelta(call_id=call_id, name=name, size=0))
            case CallPiece(id=call_id, text=text):
                name, size = self._calls.get(call_id, ("", 0))
                self._calls[call_id] = (name, size + len(text))
            case _:
                pass


class _Try(Struct):
    """One try of a request, as far as the ledger needs it."""

    at: float
    """When it was sent, on the agent's clock."""
    start: float = field(default_factory=time.monotonic)
    began: float | None = None
    usage: Usage = field(default_factory=Usage)
    """What the provider had counted when the response began."""
    shown: list[str] = field(default_factory=list[str])
    """What was shown of its text."""


class _TrackedRequest:
    """One request from its sending to its end; says both, and enters what each try has cost."""

    def __init__(
        self,
        client: ModelClient,
        conversation: Conversation,
        prompt: Prompt,
        sidecar: str,
        marks: int,
    ) -> None:
        self.client, self.conversation = client, conversation
        self.prompt, self.sidecar, self.marks = prompt, sidecar, marks
        # Only faces see it: what is sent to a provider has no ids of ours.
        self.id = RequestId(os.urandom(8).hex())
        self.now = _Try(client.clock())
        self._over = False

    def __enter__(self) -> Self:
        sent = RequestSent(
            request_id=self.id,
            model=self.prompt.head.model,
            digest=self.prompt.digest,
            bytes=len(self.prompt),
            entries=self.prompt.depth,
            sidecar=self.sidecar,
            lives=lifetime(self.prompt.head, self.client.settings.ttl),
        )
        self.conversation.emit(sent)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._over:
            self._fail(error)

    def begin(self, usage: Usage) -> None:
        """Note that the response has begun, and what was counted by then."""
        self.now.began, self.now.usage = time.monotonic(), usage
        self.client.observer.began()

    def show(self, text: str) -> None:
        """Note what is shown of the reply; of a sidecar's nothing is."""
        if not self.sidecar:
            self.now.shown.append(text)

    def retry(self, why: str, wait: float, attempt: int) -> None:
        """Give this try up for another."""
        row = self._lose()
        told = ReplyDiscarded(request_id=self.id, why=why, retry_in=wait, attempt=attempt)
        self.conversation.emit(_billed(told, row))
        self.now = _Try(self.client.clock())

    def finish(self, ended: Ended) -> Ended:
        """Enter a whole reply."""
        row = self._pay(ended.usage, ended)
        self._over = True
        reply = ended.reply
        self.conversation.emit(
            ReplyFinished(
                request_id=self.id,
                text=reply.text,
                thinking=reply.thinking,
                stop=reply.stop,
                stop_detail=ended.stop_detail,
                usage=row.usage,
                cost=row.cost,
                model=ended.model or row.model,
                latency=row.latency,
                first_event=row.first_event,
                response_id=ended.id,
                sidecar=self.sidecar,
                uncached=row.uncached,
            )
        )
        return ended

    def _fail(self, error: BaseException | None) -> None:
        failed = isinstance(error, Exception)
        told = RequestFailed(
            request_id=self.id,
            why=str(error) if failed else "it was stopped",
            error=type(error).__name__ if failed else "cancelled",
            text="".join(self.now.shown),
            sidecar=self.sidecar,
            latency=time.monotonic() - self.now.start,
        )
        row = None
        try:
            row = self._lose()
        finally:
            self.conversation.emit(_billed(told, row))

    def _lose(self) -> Charge | None:
        """Enter a try that gave no whole reply: what it read and wrote is paid for even so."""
        if self.now.began is None or not self.now.usage.input:
            return None
        return self._pay(self.now.usage, None)

    def _pay(self, usage: Usage, ended: Ended | None) -> Charge:
        """Pay for this try, once; without an end it gave no whole reply."""
        now, start = time.monotonic(), self.now.start
        first, self.now.began = self.now.began or now, None
        row = Charge(
            agent=self.conversation.path,
            model=self.prompt.head.model,
            usage=usage,
            cost=None,
            latency=now - start,
            first_event=first - start,
            digest=self.prompt.digest,
            response_id=ended.id if ended is not None else "",
            sidecar=self.sidecar,
            marks=self.marks,
            broken=ended is None,
        )
        found = ended.diagnostics if ended is not None else b""
        return self.client.pay(self.conversation, row, at=self.now.at, diagnostics=found)


_Void = TypeVar("_Void", ReplyDiscarded, RequestFailed)


def _billed(event: _Void, row: Charge | None) -> _Void:
    if row is None:
        return event
    return replace(event, usage=row.usage, cost=row.cost, uncached=row.uncached)


async def request(
    client: ModelClient,
    conversation: Conversation,
    prompt: Prompt | None = None,
    *,
    sidecar: str = "",
) -> Ended:
    """Send a prompt and wait for the whole reply, which is not appended to anything here.

    A sidecar is a request beside the conversation: it reads the same cache and shows nothing. Only
    a sidecar has a prompt of its own.

    Raises ProviderError when there is no whole reply after all retries.
    """
    assert sidecar or prompt is None, "a conversation is sent as it stands"
    prompt, settings, last = prompt or conversation.prompt, client.settings, conversation.last
    if not sidecar:
        await client.observer.before()
    marks = plan(prompt, sent=last.node, base=conversation.base, ttl=settings.ttl)
    most = settings.max_output or fact(prompt.head.model).max_output
    previous = last.response_id if settings.diagnose else ""
    tail = Tail(max_tokens=most, previous_id=previous or None)
    with _TrackedRequest(client, conversation, prompt, sidecar, len(marks)) as exchange:
        return await _reply(exchange, marks, tail)


async def _reply(exchange: _TrackedRequest, marks: Sequence[Mark], tail: Tail) -> Ended:
    conversation, prompt, sidecar = exchange.conversation, exchange.prompt, exchange.sidecar
    stream = _StreamTranslator(conversation.emit, quiet=bool(sidecar))
    provider, who = exchange.client.provider, conversation.path
    reply = provider.stream(prompt, marks, tail, who=who, sidecar=sidecar)
    async with aclosing(reply) as events:
        async for event in events:
            match event:
                case Retrying(why=why, seconds=wait, attempt=number):
                    exchange.retry(why, wait, number)
                case Preparing():
                    stream.progress(event)
                case Noticed(text=text):
                    conversation.emit(Warned(text=text))
                case Began():
                    exchange.begin(event.usage)
                case Ended():
                    return exchange.finish(event)
                case TextPiece(text=text):
                    exchange.show(text)
                    stream.show(event)
                case _:
                    stream.show(event)
    raise BrokenReply("the reply ended without an end")


async def prewarm(client: ModelClient, conversation: Conversation, prompt: Prompt) -> None:
    """Fill the cache with a prompt, without any output; the cost is entered as a sidecar's.

    Raises ProviderError when that fails.
    """
    last, ttl = conversation.last, client.settings.ttl
    marks = plan(prompt, sent=last.node, base=prompt.tip, ttl=ttl)
    tail = Tail(stream=False, max_tokens=0, prewarm=True)
    with _TrackedRequest(client, conversation, prompt, "prewarm", len(marks)) as exchange:
        await _reply(exchange, marks, tail)
