"""Lets a conversation go on under a new head, which its provider has to read anew."""

from __future__ import annotations

from typing import Literal

import msgspec

from prong.agent import Agent
from prong.agent.compact import carried
from prong.command import EFFORTS
from prong.config.effort import doubt_effort
from prong.config.model import Chosen, choose, render_head
from prong.config.place import Place
from prong.errors import BadInput, NotPossibleNow, ProviderError
from prong.event import Warned
from prong.prompt import Head, Prompt
from prong.provider import Providers


def move(
    agent: Agent,
    place: Place,
    chosen: Chosen,
    detail: str,
    *,
    reason: Literal["model", "tools"] = "model",
) -> None:
    """Give an agent a new head; `detail` says why."""
    kit, prompt = agent.upcoming.kit, agent.conversation.prompt
    before = prompt.head.spec
    head = render_head(place, chosen, kit.specs(), cache_key=before.cache_key, effort=before.effort)
    agent.restart(Prompt(head).append(*carried(prompt)), reason=reason, detail=detail, kit=kit)
    agent.context.see(images=chosen.images)


def switch(place: Place, providers: Providers, agent: Agent, model: str) -> None:
    """Let another model answer from now on.

    Raises UsageError or Unauthorised if it cannot be used.
    """
    chosen = choose(place, model)
    provider, before = chosen.connect(providers), agent.conversation.prompt.head.model
    move(agent, place, chosen, f"from {before} to {chosen.model}")
    agent.client.connect(provider)
    agent.conversation.note(chosen.recorded)


def fall_back(place: Place, providers: Providers, agent: Agent, why: ProviderError) -> bool:
    """Let the model go on that was given for when the other is overloaded; False if none can."""
    model, before = place.options.fallback_model, agent.conversation.prompt.head.model
    if model is None or (after := choose(place, model).model) == before:
        return False
    agent.emit(Warned(text=f"{before} does not answer ({why}); {after} goes on"))
    switch(place, providers, agent, model)
    return True


def change_effort(agent: Agent, effort: str) -> None:
    """Let the model think harder or less hard from now on.

    Raises UsageError if that is no word, or what it is already.
    """
    head = agent.conversation.prompt.head
    if not effort.isalpha() or not effort.isascii():
        raise BadInput(f"say how hard to think in one word: {', '.join(EFFORTS)}")
    if effort == head.spec.effort:
        raise NotPossibleNow(f"the effort is {effort} already")
    spec = msgspec.structs.replace(agent.upcoming.head.spec, effort=effort)
    detail = f"effort from {head.spec.effort or 'the usual'} to {effort}"
    fresh = Prompt(Head(head.dialect, spec)).append(*carried(agent.conversation.prompt))
    agent.restart(fresh, reason="model", detail=detail, kit=agent.upcoming.kit)
    if why := doubt_effort(effort):
        agent.emit(Warned(text=why))
