"""Plans a fan-out from what is known of the parent: how much of its prompt is still cached."""

from __future__ import annotations

import math

import msgspec

from prong.agent import Agent
from prong.agent.request import prewarm
from prong.cost import Prices, fact
from prong.cost.fan import LIFETIME, Dispatch, Schedule, plan_fan, rates
from prong.entry import Reply
from prong.prompt import Prompt
from prong.provider import trait
from prong.team import fork
from prong.team.fan import Fan
from prong.wire import Ttl

_MARGIN = 20.0
"""Seconds before an entry's end at which it no longer counts as cached."""


class ForkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may set about forks."""

    dispatch: Dispatch | None = None
    """Keep or drop the dispatching reply; None chooses by cost."""
    schedule: Schedule | None = None
    """How siblings start; None chooses by cost."""
    turns: int = 3
    """Requests a child is expected to make, for the choices above."""


def plan_departure(
    parent: Agent,
    prompt: Prompt,
    reply: Reply | None,
    *,
    size: int,
    settings: ForkSettings,
    prices: Prices,
) -> Fan:
    """Plan a fan-out from a prompt, with the reply that dispatches it, if one does."""
    whole = fork.base(prompt, reply) if reply is not None else prompt
    known = fact(prompt.head.model)
    carry = _loses_thinking(prompt)
    plan = plan_fan(
        size=size,
        cached=parent.last_usage.input,
        dispatch_tokens=tokens(parent, len(whole) - len(prompt)),
        tail_tokens=tokens(parent, len(prompt) - parent.last_length),
        turns=settings.turns,
        rates=rates(prices.of(prompt.head.model), ttl_of(parent)),
        warm=parent.last_at > 0 and parent.clock() - parent.last_at < _lives(parent),
        dispatch=settings.dispatch,
        schedule=settings.schedule,
        carry=carry,
        minimum=known.min_prefix,
    )
    keep = plan.dispatch == "keep"
    carrier = reply.calls[-1] if carry and keep and reply is not None else None
    base = whole if keep else prompt
    if carrier is not None and reply is not None:
        base = fork.carrying_base(prompt, reply)
    waits = settings.schedule != "at_once" and plan.cached + plan.fresh >= known.min_prefix
    return Fan(
        plan,
        base,
        sent=parent.sent,
        prewarm=lambda: prewarm(parent, base),
        carrier=carrier,
        used_at=parent.last_at,
        lives=_lives(parent) if waits and size > 1 else float("inf"),
        marked=prompt.head.dialect.name == "anthropic" or prompt.head.spec.explicit_marks,
        clock=parent.clock,
    )


def tokens(parent: Agent, length: int) -> int:
    """Guess the tokens of so many bytes by what the parent's prompt was counted as."""
    if length <= 0:
        return 0
    counted = parent.last_usage.input
    share = parent.last_length / counted if counted else 4.0
    return round(length / share)


def ttl_of(agent: Agent) -> Ttl:
    """Say how long the provider keeps what an agent sends."""
    if agent.ttl is not None:
        return agent.ttl
    head = agent.prompt.head
    return "30m" if head.spec.explicit_marks and head.dialect.name != "anthropic" else "5m"


def _lives(agent: Agent) -> float:
    if trait(agent.provider).lasting:
        return math.inf
    return LIFETIME[ttl_of(agent)] - _MARGIN


def _loses_thinking(prompt: Prompt) -> bool:
    """Whether plain user text would make this model drop thinking that is in the prompt.

    What came before the last such text has been dropped already.
    """
    if prompt.head.dialect.name != "anthropic" or fact(prompt.head.model).keeps_thinking:
        return False
    node = prompt.tip
    while node is not None and node.kind in {"reply", "results"}:
        if node.kind == "reply" and b'thinking"' in node.delta:
            return True
        node = node.parent
    return False
