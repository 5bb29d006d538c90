"""How an agent's requests are sent, observed and paid for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from prong.agent.conversation import Conversation, Sent
from prong.cost import Billing, Charge, window
from prong.provider import Provider
from prong.wire import Ttl

COMPACT_AT = 0.8
"""Share of the context at which a conversation is compacted, if settings say nothing else."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set about requests to a model; none of it is part of a prompt."""

    ttl: Ttl | None = None
    """How long the provider is asked to keep what it reads."""
    context_tokens: int | None = None
    """Tokens the model can read, if settings say so."""
    max_output: int | None = None
    """Tokens one reply may have, if settings say so."""
    compact_at: float = COMPACT_AT
    """Share of the context at which to compact; 0 turns it off."""
    diagnose: bool = False
    """Whether to ask the provider for its own cache diagnostics."""


class Observer(Protocol):
    """Looks on at the requests of one agent: when each may be sent, what it wrote and what it cost.

    A sidecar's request is not held up.
    """

    async def before(self) -> None:
        """Wait until the next request may be sent."""

    def began(self) -> None:
        """Note that a response has begun: what its request wrote can be read from now on."""

    def paid(
        self,
        client: Client,
        conversation: Conversation,
        row: Charge,
        *,
        at: float,
        diagnostics: bytes,
    ) -> None:
        """Note what a request, sent `at` a time, has cost.

        The conversation still remembers the request before it as its last.
        """


class NoObserver:
    """Nobody looks on."""

    async def before(self) -> None:
        """Hold nothing up."""

    def began(self) -> None:
        """Take no note."""

    def paid(
        self,
        client: Client,
        conversation: Conversation,
        row: Charge,
        *,
        at: float,
        diagnostics: bytes,
    ) -> None:
        """Take no note."""


@dataclass(slots=True, kw_only=True)
class Client:
    """What a request needs beside the conversation that it sends."""

    provider: Provider
    billing: Billing
    settings: ModelSettings = field(default_factory=ModelSettings)
    observer: Observer = field(default_factory=NoObserver)
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""

    def connect(self, provider: Provider) -> None:
        """Let another provider answer from now on."""
        self.provider = provider

    def window(self, model: str) -> int:
        """Say how many tokens a model can read."""
        return self.settings.context_tokens or self.provider.trait.context or window(model)

    def pay(
        self, conversation: Conversation, row: Charge, *, at: float, diagnostics: bytes = b""
    ) -> Charge:
        """Price and store a request, enter it wherever it counts, and remember what it left.

        Gives the row with its price.
        """
        row = self.billing.priced(row)
        conversation.recorder.request(row)
        self.billing.enter(row)
        self.observer.paid(self, conversation, row, at=at, diagnostics=diagnostics)
        if row.is_turn:
            conversation.answered(
                Sent(
                    node=conversation.prompt.tip,
                    usage=row.usage,
                    length=len(conversation.prompt),
                    response_id=row.response_id,
                    at=at,
                )
            )
        return row
