"""What hooks are told of a session as a whole: its beginning, another model, its end."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import anyio.abc

from prong.agent import Agent
from prong.config.firing import UserHooks
from prong.config.late_hook import LateHooks
from prong.cost.loss import foresee
from prong.errors import NotPossibleNow
from prong.event import Warned
from prong.journal.jsonl_form import JsonlFiles
from prong.session.foundation import Foundation
from prong.session.moving_cost import standing_of
from prong.session.parts import Parts

SessionSource: TypeAlias = Literal["startup", "resume", "clear", "fork"]
"""How a conversation begins."""


def make_hooks(base: Foundation, group: anyio.abc.TaskGroup) -> UserHooks:
    """Make what runs the hooks of a session."""
    return UserHooks(
        hooks=base.place.hooks,
        host=base.host,
        session_id=base.journal.session,
        transcript=JsonlFiles(base.journal.path, base.journal.session),
        env=base.env,
        late=LateHooks(group),
    )


async def tell_start(parts: Parts, source: SessionSource) -> None:
    """Tell the hooks that a conversation begins; what they add goes with the next message."""
    agent = parts.agent
    told: dict[str, Any] = {"source": source, "model": agent.conversation.prompt.head.model}
    if source in ("resume", "fork"):
        told |= _taken_up(parts)
    verdict = await agent.consult("SessionStart", told, matcher=source, heeds=False)
    parts.intake.heed(verdict)
    if verdict.block is not None:
        why = f"a SessionStart hook cannot stop the session, which goes on: {verdict.block}"
        agent.emit(Warned(text=why))


def _taken_up(parts: Parts) -> dict[str, Any]:
    """Say what of a conversation that goes on is cached; price lists are read only if one asks."""
    if all(hook.event != "SessionStart" for hook in parts.hooks.hooks):
        return {}
    now = standing_of(parts.agent)
    if now is None:
        return {}
    return {
        "seconds_since_last_response": round(now.idle),
        "context_tokens": now.tokens,
        "prompt_cache_likely_expired": not now.warm,
    }


async def tell_cleared(parts: Parts) -> None:
    """Tell the hooks that one conversation is over and another begins."""
    over = await parts.agent.consult(
        "SessionEnd", {"reason": "clear"}, matcher="clear", heeds=False
    )
    for text in over.warnings:
        parts.agent.emit(Warned(text=text))
    await tell_start(parts, "clear")


async def switch_model(parts: Parts, model: str) -> None:
    """Let another model answer, unless hooks object; they are told what it costs.

    Raises UsageError if they do, or the model cannot be used.
    """
    agent = parts.agent
    told = switch_told(agent, model)
    verdict = await agent.consult("PreModelSwitch", told, matcher=model, heeds=False)
    for text in verdict.warnings:
        agent.emit(Warned(text=text))
    # Hooks may take their time.
    parts.must_be_idle("change the model")
    if verdict.block is not None:
        raise NotPossibleNow(f"a PreModelSwitch hook refused it: {verdict.block}")
    parts.switch(model)
    await tell_switched(parts, told)


async def tell_switched(parts: Parts, told: dict[str, Any]) -> None:
    """Tell the hooks that another model answers from now on."""
    agent = parts.agent
    model = agent.conversation.prompt.head.model
    now = told | {"to_model": model}
    parts.intake.heed(await agent.consult("PostModelSwitch", now, matcher=model, heeds=False))


def switch_told(agent: Agent, model: str) -> dict[str, Any]:
    """Say what hooks are told of a change of model: what of the conversation is cached, too."""
    before = agent.conversation.prompt.head.model
    told: dict[str, Any] = {"from_model": before, "to_model": model}
    now = standing_of(agent)
    if now is None:
        return told | {"context_tokens": 0, "prompt_cache_warm": False}
    price = agent.client.billing.prices.of(model.rpartition(":")[2])
    loss = foresee("model", now, price)
    return told | {
        "context_tokens": now.tokens,
        "prompt_cache_warm": now.warm,
        "cache_ttl": now.ttl,
        "estimated_cache_write_usd": loss.extra,
        "cost": loss.text,
    }


async def tell_end(parts: Parts) -> None:
    """Tell the hooks that the session ends, and wait a moment for those that run beside it."""
    agent = parts.agent
    reason = "prompt_input_exit" if agent.questions.attended else "other"
    verdict = await agent.consult("SessionEnd", {"reason": reason}, matcher=reason, heeds=False)
    late = await parts.hooks.close()
    for text in (*verdict.warnings, *late.warnings):
        agent.emit(Warned(text=text))
    if verdict.block is not None:
        agent.emit(Warned(text=f"a SessionEnd hook cannot keep the session: {verdict.block}"))
