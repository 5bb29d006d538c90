"""One request: send the prompt, pass the stream on as events, enter the bill."""

from __future__ import annotations

import time
from contextlib import aclosing

from prong.agent.agent import Agent
from prong.cost import Row, fact, markable, plan
from prong.errors import BrokenReply
from prong.event import (
    CallDelta,
    Progressed,
    ReplyDiscarded,
    ReplyFinished,
    RequestSent,
    TextDelta,
    ThinkingDelta,
)
from prong.prompt import Prompt
from prong.provider import Preparing, Retrying
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


async def request(agent: Agent, prompt: Prompt | None = None, *, sidecar: str = "") -> Ended:
    """Send a prompt and wait for the whole reply, which is not appended to anything here.

    A sidecar is a request beside the conversation: it reads the same cache and shows nothing.

    Raises ProviderError when there is no whole reply after all retries.
    """
    prompt = prompt or agent.prompt
    marks = plan(prompt, sent=agent.sent, base=agent.base, ttl=agent.ttl)
    most = agent.max_output or fact(prompt.head.model).max_output
    previous = agent.last_id if agent.diagnose else ""
    tail = Tail(max_tokens=most, previous_id=previous or None)
    headers = {LINEAGE: agent.path} | ({"x-prong-sidecar": sidecar} if sidecar else {})
    agent.emit(
        RequestSent(digest=prompt.digest, bytes=len(prompt), entries=prompt.depth, sidecar=sidecar)
    )
    stream = _Stream(agent, quiet=bool(sidecar))
    start = first = time.monotonic()
    at = agent.clock()
    async with aclosing(agent.provider.stream(prompt, marks, tail, headers=headers)) as events:
        async for event in events:
            match event:
                case Retrying():
                    agent.emit(
                        ReplyDiscarded(why=event.why, retry_in=event.seconds, attempt=event.attempt)
                    )
                    start = first = time.monotonic()
                    at = agent.clock()
                case Preparing():
                    stream.progress(event)
                case Began():
                    first = time.monotonic()
                    if agent.on_began is not None:
                        agent.on_began()
                case Ended():
                    if not sidecar:
                        agent.last_at = at
                    return _enter(agent, prompt, event, sidecar, len(marks), (start, first))
                case _:
                    stream.show(event)
    raise BrokenReply("the reply ended without an end")


def _enter(
    agent: Agent,
    prompt: Prompt,
    ended: Ended,
    sidecar: str,
    marks: int,
    times: tuple[float, float],
) -> Ended:
    start, first = times
    now = time.monotonic()
    model, usage = prompt.head.model, ended.usage
    price = agent.prices.of(model, usage)
    row = Row(
        agent=agent.path,
        model=model,
        usage=usage,
        cost=price.cost(usage) if price else None,
        uncached=price.uncached(usage) if price else None,
        latency=now - start,
        first_event=first - start,
        digest=prompt.digest,
        response_id=ended.id,
        sidecar=sidecar,
        marks=marks,
    )
    agent.recorder.request(row)
    agent.ledger.add(row)
    agent.purse.charge(usage.input + usage.output, row.cost, turns=0 if sidecar else 1, model=model)
    if agent.on_paid is not None:
        agent.on_paid(row, ended)
    if not sidecar:
        agent.sent = markable(prompt.tip)
        agent.last_usage, agent.last_length, agent.last_id = usage, len(prompt), ended.id
        reply = ended.reply
        agent.emit(
            ReplyFinished(
                text=reply.text,
                thinking=reply.thinking,
                stop=reply.stop,
                stop_detail=ended.stop_detail,
                usage=usage,
                cost=row.cost,
                model=ended.model or model,
                latency=row.latency,
                first_event=row.first_event,
                response_id=ended.id,
            )
        )
    return ended


async def prewarm(agent: Agent, prompt: Prompt) -> None:
    """Fill the cache with a prompt, without any output; the cost is entered as a sidecar's."""
    marks = plan(prompt, sent=agent.sent, base=prompt.tip, ttl=agent.ttl)
    tail = Tail(stream=False, max_tokens=0, prewarm=True)
    headers = {LINEAGE: agent.path, "x-prong-sidecar": "prewarm"}
    start = time.monotonic()
    async with aclosing(agent.provider.stream(prompt, marks, tail, headers=headers)) as events:
        async for event in events:
            if isinstance(event, Ended):
                now = time.monotonic()
                _enter(agent, prompt, event, "prewarm", len(marks), (start, now))
                return
