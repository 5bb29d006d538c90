"""What hooks are told of a session as a whole: its beginning, another model, its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio.abc

from prong.agent import Agent
from prong.config.firing import UserHooks
from prong.config.hook import GUARDS, Hook
from prong.config.hook_post import HookPoster
from prong.config.hook_way import HookPost
from prong.config.late_hook import LateHooks
from prong.config.model import Chosen, choose
from prong.config.place import Place
from prong.cost.loss import foresee
from prong.errors import ConfigError, NotPossibleNow, Unauthorised, Unreachable, UsageError
from prong.event import Warned
from prong.journal.jsonl_form import JsonlFiles
from prong.provider import AddressGuard, is_loopback, read_url
from prong.session.foundation import Foundation
from prong.session.hook_question import hook_asker
from prong.session.moving_cost import other_model, standing_of
from prong.session.parts import Parts
from prong.session.preference import proxied

if TYPE_CHECKING:
    # Loaded only where there are servers.
    from prong.session.mcp_servers import McpServers

SessionSource: TypeAlias = Literal["startup", "resume", "clear", "fork"]
"""How a conversation begins."""


def make_hooks(
    base: Foundation,
    agents: Mapping[str, Agent],
    servers: McpServers | None,
    group: anyio.abc.TaskGroup,
) -> UserHooks:
    """Make what runs the hooks of a session.

    Raises ConfigError if a guard asks where nobody can be asked.
    """
    return UserHooks(
        hooks=base.place.hooks,
        host=base.host,
        session_id=base.journal.session,
        transcript=JsonlFiles(base.journal.path, base.journal.session),
        env=base.env,
        late=LateHooks(group),
        poster=hook_poster(base.place),
        asker=hook_asker(base, agents, servers),
    )


def hook_poster(place: Place) -> HookPoster:
    """Make what tells addresses of events: public ones, and those that the user lets be reached.

    Raises ConfigError if a guard stands at another: what it guards could never happen.
    """
    guard = AddressGuard(place.settings.values.web.private_hosts)
    for hook in place.hooks:
        if not isinstance(hook, Hook) or not isinstance(hook.way, HookPost):
            continue
        host = read_url(hook.way.url).host
        named = "127.0.0.1" if is_loopback(host) else host
        try:
            guard.check(host, [named] if ":" in named or named.replace(".", "").isdigit() else [])
        except Unreachable as error:
            why = f"the {hook.event} hook '{hook.line}' cannot be asked: {error}"
            if hook.event in GUARDS:
                raise ConfigError(hook.path, why) from error
            place.warn(f"{hook.path}: {why}")
    return HookPoster(guard=guard, env=proxied(place))


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


async def switch_model(parts: Parts, model: str) -> str:
    """Let another model answer, unless hooks object; they are told what it costs.

    Gives what there is to say: the one that answers already would only give up its cache.

    Raises UsageError if they do, or the model cannot be used.
    """
    agent, chosen = parts.agent, _chosen_here(parts, model)
    if not other_model(agent.conversation.prompt.head, chosen):
        return f"the model is {chosen.model} already"
    # By its full name: a guard of a model holds whatever short name was typed.
    told = switch_told(agent, chosen.model)
    verdict = await agent.consult("PreModelSwitch", told, matcher=chosen.model, heeds=False)
    for text in verdict.warnings:
        agent.emit(Warned(text=text))
    # Hooks may take their time.
    parts.must_be_idle("change the model")
    if verdict.block is not None:
        raise NotPossibleNow(f"a PreModelSwitch hook refused it: {verdict.block}")
    parts.switch(model)
    await tell_switched(parts, told)
    return ""


def _chosen_here(parts: Parts, model: str) -> Chosen:
    """Find a model while the session runs; raises as `choose` does, with what can be done here."""
    try:
        return choose(parts.place, model)
    except (UsageError, Unauthorised) as error:
        if "--" not in str(error):
            raise
        # It names a flag, which nobody can give in a session.
        import shlex

        way = "begin a new session with them"
        if parts.place.options.persist:
            again = f"prong --resume {parts.journal.session} --model {shlex.quote(model)}"
            way = f"leave, then '{again}' with them"
        why = f"flags and variables count from a start: name another model here, or {way}"
        raise type(error)(f"{error} ({why})") from None


async def tell_switched(parts: Parts, told: dict[str, Any]) -> None:
    """Tell the hooks that another model answers from now on."""
    agent = parts.agent
    model = agent.conversation.prompt.head.model
    now = told | {"to_model": model}
    parts.intake.heed(await agent.consult("PostModelSwitch", now, matcher=model, heeds=False))


def switch_told(agent: Agent, model: str) -> dict[str, Any]:
    """Say what hooks are told of a change of model: what of the conversation is cached, too.

    `model` is the full name.
    """
    before = agent.conversation.prompt.head.model
    told: dict[str, Any] = {"from_model": before, "to_model": model}
    now = standing_of(agent)
    if now is None:
        return told | {"context_tokens": 0, "prompt_cache_warm": False}
    loss = foresee("model", now, agent.client.billing.prices.of(model))
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
