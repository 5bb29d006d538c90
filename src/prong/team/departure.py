"""Plans a fan-out from what is known of the parent: how much of its prompt is still cached.

Beside the plan stands an estimate of the other ways, fresh agents with a brief and going on alone,
so that a fan-out that clearly costs more than one of them can be warned of or refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

from prong.agent import Agent
from prong.agent.request import prewarm
from prong.cost import Prices, fact
from prong.cost.breakeven import BreakEven, Option, Scenario, weigh
from prong.cost.fan import LIFETIME, Dispatch, Schedule, plan_fan, rates
from prong.cost.mark import takes_marks
from prong.entry import Reply
from prong.event import Warned
from prong.prompt import Prompt
from prong.provider import trait
from prong.team import fork
from prong.team.fan import Fan
from prong.text import load_text
from prong.wire import Ttl

_MARGIN = 20.0
"""Seconds before an entry's end at which it no longer counts as cached."""


_BYTES = 4.0
"""Of text, for each token, where nothing better is known."""

_CLEARLY = 0.2
"""Share of a fork's cost that another way must save before anybody is told."""

Advice: TypeAlias = Literal["off", "warn", "choose"]
"""What happens when another way is clearly cheaper than a fork."""


class ForkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may set about forks."""

    dispatch: Dispatch | None = None
    """Keep or drop the dispatching reply; None chooses by cost."""
    schedule: Schedule | None = None
    """How siblings start; None chooses by cost."""
    turns: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Requests a child is expected to make, its first included, for the choices above."""
    break_even: Advice = "off"
    """Whether a fork that clearly costs more than another way is warned of, or refused."""


def plan_departure(
    parent: Agent,
    prompt: Prompt,
    reply: Reply | None,
    directives: Sequence[str],
    settings: ForkSettings,
    prices: Prices,
    *,
    wakes: int,
) -> Fan:
    """Plan a fan-out from a prompt, with the reply that dispatches it, if one does.

    In so many requests, `wakes`, the parent will take the reports.
    """
    size = len(directives)
    whole = fork.base(prompt, reply) if reply is not None else prompt
    price, known = prices.of(prompt.head.model), fact(prompt.head.model)
    ratios, carry = rates(price, ttl_of(parent)), _loses_thinking(prompt)
    scenario = _scenario(
        parent, prompt, directives, dispatched=len(whole) - len(prompt), turns=settings.turns
    )
    scenario = msgspec.structs.replace(scenario, wakes=wakes)
    plan = plan_fan(
        size=size,
        cached=scenario.history,
        dispatch_tokens=scenario.dispatch + scenario.placeholders,
        tail_tokens=scenario.tail,
        turns=settings.turns - 1,
        rates=ratios,
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
        weigh(scenario, plan, ratios, price),
        base,
        sent=parent.sent,
        prewarm=lambda: prewarm(parent, base),
        carrier=carrier,
        used_at=parent.last_at,
        lives=_lives(parent) if waits and size > 1 else float("inf"),
        marked=takes_marks(prompt.head) or trait(parent.provider).lasting,
        clock=parent.clock,
    )


def _scenario(
    parent: Agent, prompt: Prompt, directives: Sequence[str], *, dispatched: int, turns: int
) -> Scenario:
    """Say in tokens what is known of a fan-out; `dispatched` bytes are its reply and results."""
    history, added = parent.last_usage.input, tokens(parent, dispatched)
    # The output that the provider counted may hold thinking that is not sent again.
    reply = min(added, parent.last_usage.output or added)
    frame = len(load_text("fork").encode())
    told = sum(len(told.encode()) for told in directives) // max(1, len(directives))
    return Scenario(
        history=history,
        children=len(directives),
        turns=turns,
        directive=tokens(parent, frame + told),
        dispatch=reply,
        placeholders=added - reply,
        tail=tokens(parent, len(prompt) - parent.last_length),
        setup=tokens(parent, len(prompt.head.data)),
        idle=_idle(parent),
        ttl=ttl_of(parent),
    )


def cheaper(told: BreakEven) -> Option | None:
    """Give the way that clearly costs less than the fork from here on, if there is one.

    The dispatching reply is written by now, so it speaks for neither side.
    """
    best = told.options[0]
    ahead = _ahead(told)
    return best if best.way != "fork" and best.equivalents < (1 - _CLEARLY) * ahead else None


def _ahead(told: BreakEven) -> float:
    return told.fork.equivalents - told.scenario.dispatch * told.output_rate


_WAYS = {"fresh": "fresh agents with a brief", "alone": "going on alone"}

_INSTEAD = {
    "fresh": "start agents of a type instead (subagent_type, such as general-purpose), each with a "
    "brief that says all it needs to know",
    "alone": "do the parts yourself instead, one after another",
}


def advice(told: BreakEven, better: Option) -> str:
    """Say what another way would cost, and what the fork."""
    s, ahead = told.scenario, _ahead(told)
    forks = "a fork" if s.children == 1 else f"{s.children} forks"
    price = told.fork.cost / told.fork.equivalents if told.fork.cost is not None else None
    dollars = f" (${price * better.equivalents:.4f} against ${price * ahead:.4f})" if price else ""
    turns = "1 turn" if s.turns == 1 else f"{s.turns} turns"
    return (
        f"{_WAYS[better.way]} would cost about {better.equivalents:,.0f} input-token equivalents, "
        f"{forks} of {turns} each {ahead:,.0f}{dollars}"
    )


def advise(parent: Agent, fan: Fan, wanted: Advice, *, asked: bool) -> None:
    """Warn of a fan-out that another way clearly undercuts, or refuse it to the model.

    What the user asked for by hand is never refused.
    """
    if wanted == "off" or (better := cheaper(fan.estimate)) is None:
        return
    if wanted == "choose" and not asked:
        fan.refusal = _refusal(fan.estimate, better)
    else:
        parent.emit(Warned(text=advice(fan.estimate, better)))


def _refusal(told: BreakEven, better: Option) -> str:
    """Tell the model why no fork was started, and what to do."""
    return (
        f"no fork was started: {advice(told, better)}, and the user wants the cheaper way "
        f"(fork.breakEven). Do not fork for this; {_INSTEAD[better.way]}."
    )


def tokens(parent: Agent, length: int) -> int:
    """Guess the tokens of so many bytes by what the parent's prompt was counted as."""
    if length <= 0:
        return 0
    counted = parent.last_usage.input
    share = parent.last_length / counted if counted else _BYTES
    # More than twice the usual means that not all bytes are read: an engine may shorten the tools.
    return round(length / (share if share <= 2 * _BYTES else _BYTES))


def ttl_of(agent: Agent) -> Ttl:
    """Say how long the provider keeps what an agent sends."""
    if agent.ttl is not None:
        return agent.ttl
    head = agent.prompt.head
    return "30m" if head.spec.explicit_marks and head.dialect.name != "anthropic" else "5m"


def _idle(agent: Agent) -> float:
    """Say for how many seconds nobody has used the cache entry of an agent's last request."""
    if not agent.last_at:
        return LIFETIME["12h"]
    # A cache that keeps things for no set time does not forget them with time either.
    return 0.0 if trait(agent.provider).lasting else max(0.0, agent.clock() - agent.last_at)


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
