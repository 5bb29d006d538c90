"""Who looks on at an agent's requests: when each may be sent, what it wrote and what it cost.

A request should read what the one before it left in the cache. One that read less raises an event
that names the likeliest cause.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec.structs import replace

from prong.agent.conversation import Conversation
from prong.cost import Charge
from prong.cost.cache import CacheRule
from prong.cost.receipt import Circumstance, reconcile
from prong.entry import Entry, Image, Results, User
from prong.event import CacheMissed


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was paid for."""

    row: Charge
    """What it read, wrote and cost."""
    rule: CacheRule
    """How the provider keeps what was sent."""
    at: float
    """When it was sent, on the agent's clock."""
    diagnostics: bytes
    """The provider's own of its cache, as they came."""


class Observer(Protocol):
    """Looks on at the requests of one agent; a sidecar's request is not held up."""

    async def before(self) -> None:
        """Wait until the next request may be sent."""

    def began(self) -> None:
        """Note that a response has begun: what its request wrote can be read from now on."""

    def paid(self, conversation: Conversation, payment: Payment) -> None:
        """Note what a request has cost.

        The conversation still remembers the request before it as its last.
        """


class CacheWriter(Protocol):
    """Somebody who is just writing what an agent's next request could read."""

    async def wait_led(self) -> None:
        """Wait, for a while, until that can be read."""


class Prediction(msgspec.Struct, frozen=True):
    """What a request should find in the cache."""

    read: int
    """Tokens that it should read."""
    idle: float | None = None
    """Seconds for which nobody had used them, if that is known."""
    in_flight: bool = False
    """Whether it was sent before anybody could have written them."""
    drops_thinking: bool = False
    """Whether the model drops earlier thinking for what came last."""


class CacheWatch:
    """Holds what an agent's replies read from the cache against what its last request left there.

    An agent whose prompt was replaced begins anew, and so does one that was never counted: it is
    expected to read nothing.
    """

    def __init__(self) -> None:
        """Nobody is followed yet."""
        self._ahead: list[CacheWriter] = []

    def follow(self, writer: CacheWriter) -> None:
        """Let the next request wait for somebody who is about to write what it would."""
        self._ahead.append(writer)

    async def before(self) -> None:
        """Wait, for a while, for those who are just writing what the agent would write too."""
        ahead, self._ahead = self._ahead, []
        for writer in ahead:
            await writer.wait_led()

    def began(self) -> None:
        """Take no note."""

    def paid(self, conversation: Conversation, payment: Payment) -> None:
        """Say so if a reply read less than it should have."""
        if payment.row.is_turn:
            hold(conversation, payment)


def hold(conversation: Conversation, payment: Payment, known: Prediction | None = None) -> str:
    """Say so if a reply read less than it should have; gives why, as far as can be told.

    What it should have read, if it is not `known`, is what the last request has left.
    """
    row, rule = payment.row, payment.rule
    predicted = known or _left(conversation, rule, payment.at)
    untimed = rule.lasting or predicted.in_flight
    circumstance = Circumstance(
        diagnostics=payment.diagnostics,
        minimum=rule.minimum,
        idle=None if untimed else predicted.idle,
        ttl=rule.ttl,
        in_flight=predicted.in_flight,
        drops_thinking=predicted.drops_thinking,
        marks=row.marks,
        rounds_to=rule.rounds_to,
    )
    if why := reconcile(predicted.read, row.usage, circumstance):
        first = _is_first_pictured(conversation)
        why = reconcile(predicted.read, row.usage, replace(circumstance, first_picture=first))
        conversation.emit(CacheMissed(predicted=predicted.read, read=row.usage.read, why=why))
    return why


def _left(conversation: Conversation, rule: CacheRule, at: float) -> Prediction:
    """Say what the last request has left for one that was sent `at` a time.

    Nothing is expected of a prefix that is too short, nor where the model drops earlier thinking
    for what came last: less is read by design.
    """
    last, tip = conversation.last, conversation.prompt.tip
    # A provider that keeps all it reads does not count what it writes.
    kept = rule.lasting and not last.recalled
    read = last.usage.input if kept else last.usage.read + last.usage.written
    forgets = not rule.keeps_thinking and tip is not None and tip.kind != "results"
    return Prediction(0 if forgets or read < rule.minimum else read, at - last.at)


def _is_first_pictured(conversation: Conversation) -> bool:
    """Whether pictures have come since the last request and none before, where that matters."""
    prompt, last = conversation.prompt, conversation.last.node
    if last is None or prompt.head.dialect.name != "anthropic":
        return False
    depths = [
        node.depth
        for node in prompt.nodes()
        if _has_picture(prompt.head.dialect.read(node.role, node.data))
    ]
    return bool(depths) and depths[0] > last.depth


def _has_picture(entry: Entry) -> bool:
    match entry:
        case User(parts=parts):
            return any(isinstance(part, Image) for part in parts)
        case Results(results=results):
            return any(isinstance(part, Image) for one in results for part in one.parts)
        case _:
            return False
