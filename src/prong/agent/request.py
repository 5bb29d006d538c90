"""One request: send the prompt, pass the stream on as events, enter the bill."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from prong.agent.agent import Agent, Sent
from prong.cost import Row, fact, lifetime, markable, plan
from prong.entry import Usage
from prong.errors import BrokenReply
from prong.event import (
    CallDelta,
    Progressed,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    TextDelta,
    ThinkingDelta,
    Warned,
)
from prong.prompt import Mark, Prompt
from prong.provider import Noticed, Preparing, Retrying
from prong.wire import (
    Began,
    CallBegan,
    CallPiece,
    Ended,
    Event,
    Tail,
    TextPiece,
    ThinkingPiece,
)


class _Stream:
    """Turns wire events into events for faces; keeps count of calls being written."""

    def __init__(self, agent: Agent, *, quiet: bool) -> None:
        self._agent = agent
        self._quiet = quiet
        self._calls: dict[str, tuple[str, int]] = {}

    def progress(self, event: Preparing) -> None:
        if not self._quiet:
            told = Progressed(what=event.what, done=event.done, total=event.total)
            self._agent.emit(told)

    def show(self, event: Event) -> None:
        if self._quiet:
            return
        match event:
            case TextPiece(text=text):
                self._agent.emit(TextDelta(text=text))
            case ThinkingPiece(text=text):
                self._agent.emit(ThinkingDelta(text=text))
            case CallBegan(id=call_id, name=name):
                self._calls[call_id] = (name, 0)
                self._agent.emit(CallDelta(call_id=call_id, name=name, size=0))
            case CallPiece(id=call_id, text=text):
                name, size = self._calls.get(call_id, ("", 0))
                self._calls[call_id] = (name, size + len(text))
            case _:
                pass


@dataclass(slots=True)
class _Try:
    """One try of a request, as far as the ledger needs it."""

    at: float
    """When it was sent, on the agent's clock."""
    start: float = field(default_factory=time.monotonic)
    began: float | None = None
    usage: Usage = field(default_factory=Usage)
    """What the provider had counted when the response began."""


class _Exchange:
    """One request from its sending to its end; says both, and enters what each try has cost."""

    def __init__(self, agent: Agent, prompt: Prompt, sidecar: str, marks: int) -> None:
        self.agent, self.prompt, self.sidecar, self.marks = agent, prompt, sidecar, marks
        # Only faces see it: what is sent to a provider has no ids of ours.
        self.id = os.urandom(8).hex()
        self.now = _Try(agent.clock())
        self._over = False

    def __enter__(self) -> Self:
        sent = RequestSent(
            request_id=self.id,
            model=self.prompt.head.model,
            digest=self.prompt.digest,
            bytes=len(self.prompt),
            entries=self.prompt.depth,
            sidecar=self.sidecar,
            lives=lifetime(self.prompt.head, self.agent.ttl),
        )
        self.agent.emit(sent)
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
        self.agent.watch.began()

    def retry(self, why: str, wait: float, attempt: int) -> None:
        """Give this try up for another."""
        row = self._lose()
        told = ReplyDiscarded(request_id=self.id, why=why, retry_in=wait, attempt=attempt)
        self.agent.emit(_billed(told, row))
        self.now = _Try(self.agent.clock())

    def finish(self, ended: Ended) -> Ended:
        """Enter a whole reply."""
        agent, usage = self.agent, ended.usage
        row = self._row(usage, response_id=ended.id, broken=False)
        self.now.began = None
        charge(agent, row)
        agent.watch.paid(agent, row, ended, self.now.at)
        if not self.sidecar:
            agent.answered(
                Sent(
                    node=markable(self.prompt.tip),
                    usage=usage,
                    length=len(self.prompt),
                    response_id=ended.id,
                    at=self.now.at,
                )
            )
        self._over = True
        reply = ended.reply
        agent.emit(
            ReplyFinished(
                request_id=self.id,
                text=reply.text,
                thinking=reply.thinking,
                stop=reply.stop,
                stop_detail=ended.stop_detail,
                usage=usage,
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
            sidecar=self.sidecar,
            latency=time.monotonic() - self.now.start,
        )
        row = None
        try:
            row = self._lose()
        finally:
            self.agent.emit(_billed(told, row))

    def _lose(self) -> Row | None:
        """Enter a try that gave no whole reply: what it read and wrote is paid for even so."""
        began, self.now.began = self.now.began, None
        if began is None or not self.now.usage.input:
            return None
        row = self._row(self.now.usage, first=began, broken=True)
        charge(self.agent, row)
        self.agent.watch.paid(self.agent, row, None, self.now.at)
        return row

    def _row(
        self, usage: Usage, *, response_id: str = "", first: float | None = None, broken: bool
    ) -> Row:
        model, now = self.prompt.head.model, time.monotonic()
        price = self.agent.prices.of(model, usage)
        return Row(
            agent=self.agent.path,
            model=model,
            usage=usage,
            cost=price.cost(usage) if price else None,
            uncached=price.uncached(usage) if price else None,
            latency=now - self.now.start,
            first_event=(first or self.now.began or now) - self.now.start,
            digest=self.prompt.digest,
            response_id=response_id,
            sidecar=self.sidecar,
            marks=self.marks,
            broken=broken,
        )


_Void = TypeVar("_Void", ReplyDiscarded, RequestFailed)


def _billed(event: _Void, row: Row | None) -> _Void:
    if row is None:
        return event
    return replace(event, usage=row.usage, cost=row.cost, uncached=row.uncached)


def charge(agent: Agent, row: Row) -> None:
    """Store a request, and enter it in the ledger and in every budget that it counts in."""
    agent.recorder.request(row)
    agent.ledger.add(row)
    tokens, turns = row.usage.input + row.usage.output, 0 if row.sidecar or row.broken else 1
    agent.budget.charge(tokens, row.cost, turns=turns, model=row.model)


async def request(agent: Agent, prompt: Prompt | None = None, *, sidecar: str = "") -> Ended:
    """Send a prompt and wait for the whole reply, which is not appended to anything here.

    A sidecar is a request beside the conversation: it reads the same cache and shows nothing.

    Raises ProviderError when there is no whole reply after all retries.
    """
    prompt = prompt or agent.prompt
    if not sidecar:
        await agent.watch.before()
    marks = plan(prompt, sent=agent.last.node, base=agent.base, ttl=agent.ttl)
    most = agent.max_output or fact(prompt.head.model).max_output
    previous = agent.last.response_id if agent.diagnose else ""
    tail = Tail(max_tokens=most, previous_id=previous or None)
    stream = _Stream(agent, quiet=bool(sidecar))
    with _Exchange(agent, prompt, sidecar, len(marks)) as exchange:
        return await _reply(exchange, marks, tail, stream)


async def _reply(exchange: _Exchange, marks: Sequence[Mark], tail: Tail, stream: _Stream) -> Ended:
    agent, prompt, sidecar = exchange.agent, exchange.prompt, exchange.sidecar
    reply = agent.provider.stream(prompt, marks, tail, who=agent.path, sidecar=sidecar)
    async with aclosing(reply) as events:
        async for event in events:
            match event:
                case Retrying(why=why, seconds=wait, attempt=number):
                    exchange.retry(why, wait, number)
                case Preparing():
                    stream.progress(event)
                case Noticed(text=text):
                    agent.emit(Warned(text=text))
                case Began():
                    exchange.begin(event.usage)
                case Ended():
                    return exchange.finish(event)
                case _:
                    stream.show(event)
    raise BrokenReply("the reply ended without an end")


async def prewarm(agent: Agent, prompt: Prompt) -> None:
    """Fill the cache with a prompt, without any output; the cost is entered as a sidecar's.

    Raises ProviderError when that fails.
    """
    marks = plan(prompt, sent=agent.last.node, base=prompt.tip, ttl=agent.ttl)
    tail = Tail(stream=False, max_tokens=0, prewarm=True)
    with _Exchange(agent, prompt, "prewarm", len(marks)) as exchange:
        await _reply(exchange, marks, tail, _Stream(agent, quiet=True))
