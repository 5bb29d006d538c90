"""Asks a model, beside the conversation, whether something may happen: hooks of type `prompt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import msgspec

from prong.agent import Agent, request
from prong.agent.verdict import Verdict
from prong.config.firing import HookAsker
from prong.config.hook import ENDS, GUARDS, Hook
from prong.config.hook_output import unheard
from prong.config.hook_way import HookQuestion, HookTool
from prong.config.model import Chosen, choose
from prong.entry import user_text
from prong.errors import ConfigError, ProngError
from prong.event import MAIN
from prong.foreign_json import NOT_JSON
from prong.prompt import Head, Prompt
from prong.provider import is_local
from prong.session.foundation import Foundation
from prong.session.sidecar import beside, must_afford
from prong.text import load_text
from prong.wire import HeadSpec, dialect

if TYPE_CHECKING:
    # Loaded only where there are servers.
    from prong.session.mcp_servers import McpServers

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_PLACES = re.compile(r"\\\$|\$ARGUMENTS\b")


class _Judgement(msgspec.Struct, frozen=True):
    """What the model answers."""

    ok: bool
    reason: str = ""
    impossible: bool = False


def hook_asker(
    base: Foundation, agents: Mapping[str, Agent], servers: McpServers | None
) -> HookAsker:
    """Make what asks; what a model costs is entered as a sidecar's of the main agent.

    Raises ConfigError if a hook names a model or a server that cannot be asked.
    """
    for hook in base.place.hooks:
        if isinstance(hook, Hook):
            _check(base, hook)

    async def ask(hook: Hook, told: bytes) -> Verdict:
        if isinstance(hook.way, HookTool):
            from prong.session.hook_tool import call_tool

            return await call_tool(servers, hook, hook.way, told)
        assert isinstance(hook.way, HookQuestion)
        try:
            with anyio.fail_after(hook.seconds):
                said = await _asked(base, agents[MAIN], hook.way, told)
        except TimeoutError:
            return unheard(hook, f"had no answer within {hook.seconds:g} s")
        except ProngError as error:
            return unheard(hook, f"could not be asked: {error}")
        found = _OBJECT.search(said)
        try:
            judged = msgspec.json.decode(found[0] if found else "", type=_Judgement)
        except NOT_JSON:
            return unheard(hook, f"was answered with no judgement: {said[:200]!r}")
        return _verdict(hook, hook.way, judged)

    return ask


def _check(base: Foundation, hook: Hook) -> None:
    """Look whether there is whoever a hook asks."""
    match hook.way:
        case HookQuestion():
            try:
                _chosen(base, hook.way)
            except ProngError as error:
                why = f"the model of a {hook.event} hook cannot be asked: {error}"
                raise ConfigError(hook.path, why) from error
        case HookTool(server=server):
            if all(one.name != server for one in base.place.servers.servers):
                why = f"a {hook.event} hook asks the MCP server {server!r}, which is not configured"
                if hook.event in GUARDS:
                    raise ConfigError(hook.path, why)
                base.place.warn(f"{hook.path}: {why}")
        case _:
            pass


async def _asked(base: Foundation, main: Agent, way: HookQuestion, told: bytes) -> str:
    must_afford(main)
    chosen = _chosen(base, way)
    endpoint = chosen.endpoint
    spec = HeadSpec(
        model=chosen.model,
        system=(load_text("hook_question"),),
        betas=chosen.betas,
        explicit_marks=endpoint.explicit,
    )
    head = Head(dialect(endpoint.dialect, explicit=endpoint.explicit), spec)
    prompt = Prompt(head).append(user_text(_question(way.prompt, told)))
    asking = beside(main, chosen.connect(base.providers), prompt, "hook")
    ended = await request(*asking, sidecar="hook")
    return ended.reply.text


def _question(prompt: str, told: bytes) -> str:
    """Put the event where the prompt wants it; no text in it can close the tag it stands in."""
    # Within JSON the sign stands in strings alone, where the escape means the same.
    escaped = told.decode(errors="replace").replace("<", "\\u003c")
    event = f"<event>\n{escaped}\n</event>"
    there = False

    def put(found: re.Match[str]) -> str:
        nonlocal there
        if found[0] == "\\$":
            return "$"
        there = True
        return event

    text = _PLACES.sub(put, prompt)
    return text if there else f"{text}\n\n{event}"


def _chosen(base: Foundation, way: HookQuestion) -> Chosen:
    """Find the model: as the hook names it, or the quick one of who answers the session."""
    if way.model:
        return choose(base.place, way.model)
    main = base.chosen
    if is_local(main.model) or main.base_url is not None:
        # What else such a server has nobody knows.
        return main
    quick = choose(base.place, f"{main.endpoint.backend}:fast" if main.endpoint.backend else "fast")
    return quick if quick.endpoint.base_url == main.endpoint.base_url else main


def _verdict(hook: Hook, way: HookQuestion, judged: _Judgement) -> Verdict:
    if judged.ok:
        return Verdict()
    reason = judged.reason.strip() or f"a {hook.event} hook said no without a reason"
    if hook.event in ENDS and judged.impossible:
        return Verdict(warnings=(f"{hook.event} hook of {hook.path}: {reason}",))
    ends = hook.event in {"PreToolUse", "PostToolUse"} and not way.goes_on
    denies = hook.event in {"PreToolUse", "PermissionRequest"}
    return Verdict(
        block=reason,
        permission="deny" if denies else None,
        reason=reason,
        stop=reason if ends else None,
    )
