"""How an agent's requests are sent, observed and paid for."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from prong.agent.conversation import Conversation, Sent
from prong.agent.observer import CacheWatch, Observer, Payment
from prong.cost import Billing, Charge, window
from prong.cost.cache import CacheRule, cache_rule
from prong.cost.fact import LONG_BETA
from prong.prompt import Head
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


class ModelClient(msgspec.Struct, kw_only=True):
    """What a request needs beside the conversation that it sends."""

    provider: Provider
    billing: Billing
    settings: ModelSettings = msgspec.field(default_factory=ModelSettings)
    observer: Observer = msgspec.field(default_factory=CacheWatch)
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""

    def connect(self, provider: Provider) -> None:
        """Let another provider answer from now on."""
        self.provider = provider

    def window(self, head: Head) -> int:
        """Say how many tokens the model of a head can read."""
        told = self.settings.context_tokens or self.provider.trait.context
        return told or window(head.model, long=LONG_BETA in head.spec.betas)

    def rule(self, head: Head) -> CacheRule:
        """Say by which rules the provider caches prompts with a head."""
        return cache_rule(head, self.provider.trait, self.settings.ttl)

    def pay(
        self, conversation: Conversation, row: Charge, *, at: float, diagnostics: bytes = b""
    ) -> Charge:
        """Price and store a request, enter it wherever it counts, and remember what it left.

        Gives the row with its price.
        """
        row = self.billing.priced(row)
        conversation.recorder.request(row)
        self.billing.enter(row)
        rule = self.rule(conversation.prompt.head)
        payment = Payment(row=row, rule=rule, at=at, diagnostics=diagnostics)
        self.observer.paid(conversation, payment)
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
