"""One request: send the prompt, pass the stream on as events, enter the bill."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field

from prong.agent.agent import Agent, Sent
from prong.cost import Row, fact, markable, plan
from prong.entry import Usage
from prong.errors import BrokenReply
from prong.event import (
    CallDelta,
    Progressed,
    ReplyDiscarded,
    ReplyFinished,
    RequestSent,
    TextDelta,
    ThinkingDelta,
    Warned,
)
from prong.prompt import Prompt
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

LINEAGE = "x-prong-lineage"
"""Names the agent to a test server; sent to loopback addresses only."""


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

    prompt: Prompt
    sidecar: str
    marks: int
    at: float
    """When it was sent, on the agent's clock."""
    start: float = field(default_factory=time.monotonic)
    began: float | None = None
    usage: Usage = field(default_factory=Usage)
    """What the provider had counted when the response began."""

    def row(self, agent: Agent, usage: Usage, *, response_id: str = "", broken: bool) -> Row:
        """Make the row of the ledger."""
        model = self.prompt.head.model
        price = agent.prices.of(model, usage)
        return Row(
            agent=agent.path,
            model=model,
            usage=usage,
            cost=price.cost(usage) if price else None,
            uncached=price.uncached(usage) if price else None,
            latency=time.monotonic() - self.start,
            first_event=(self.began or time.monotonic()) - self.start,
            digest=self.prompt.digest,
            response_id=response_id,
            sidecar=self.sidecar,
            marks=self.marks,
            broken=broken,
        )


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
    headers = {LINEAGE: agent.path} | ({"x-prong-sidecar": sidecar} if sidecar else {})
    agent.emit(
        RequestSent(digest=prompt.digest, bytes=len(prompt), entries=prompt.depth, sidecar=sidecar)
    )
    stream = _Stream(agent, quiet=bool(sidecar))
    current = _Try(prompt, sidecar, len(marks), agent.clock())
    try:
        async with aclosing(agent.provider.stream(prompt, marks, tail, headers=headers)) as events:
            async for event in events:
                match event:
                    case Retrying(why=why, seconds=wait, attempt=number):
                        _lose(agent, current)
                        agent.emit(ReplyDiscarded(why=why, retry_in=wait, attempt=number))
                        current = _Try(prompt, sidecar, len(marks), agent.clock())
                    case Preparing():
                        stream.progress(event)
                    case Noticed(text=text):
                        agent.emit(Warned(text=text))
                    case Began():
                        current.began, current.usage = time.monotonic(), event.usage
                        agent.watch.began()
                    case Ended():
                        return _enter(agent, current, event)
                    case _:
                        stream.show(event)
    finally:
        _lose(agent, current)
    raise BrokenReply("the reply ended without an end")


def _lose(agent: Agent, lost: _Try) -> None:
    """Enter a request that gave no whole reply: what it read and wrote is paid for even so."""
    if lost.began is not None and lost.usage.input:
        row = lost.row(agent, lost.usage, broken=True)
        _charge(agent, row)
        agent.watch.paid(agent, row, None, lost.at)
    lost.began = None


def _charge(agent: Agent, row: Row) -> None:
    agent.recorder.request(row)
    agent.ledger.add(row)
    tokens, turns = row.usage.input + row.usage.output, 0 if row.sidecar or row.broken else 1
    agent.purse.charge(tokens, row.cost, turns=turns, model=row.model)


def _enter(agent: Agent, answered: _Try, ended: Ended) -> Ended:
    prompt, usage = answered.prompt, ended.usage
    row = answered.row(agent, usage, response_id=ended.id, broken=False)
    answered.began = None
    _charge(agent, row)
    agent.watch.paid(agent, row, ended, answered.at)
    if not answered.sidecar:
        agent.answered(
            Sent(
                node=markable(prompt.tip),
                usage=usage,
                length=len(prompt),
                response_id=ended.id,
                at=answered.at,
            )
        )
        reply = ended.reply
        agent.emit(
            ReplyFinished(
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
            )
        )
    return ended


async def prewarm(agent: Agent, prompt: Prompt) -> None:
    """Fill the cache with a prompt, without any output; the cost is entered as a sidecar's."""
    marks = plan(prompt, sent=agent.last.node, base=prompt.tip, ttl=agent.ttl)
    tail = Tail(stream=False, max_tokens=0, prewarm=True)
    headers = {LINEAGE: agent.path, "x-prong-sidecar": "prewarm"}
    current = _Try(prompt, "prewarm", len(marks), agent.clock())
    async with aclosing(agent.provider.stream(prompt, marks, tail, headers=headers)) as events:
        async for event in events:
            if isinstance(event, Ended):
                _enter(agent, current, event)
                return
