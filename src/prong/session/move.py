"""Lets a conversation go on under a new head, which its provider has to read anew."""

from __future__ import annotations

from typing import Literal

from prong.agent import Agent
from prong.agent.compact import carried
from prong.config.model import Chosen, choose, render_head
from prong.config.place import Place
from prong.prompt import Prompt
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
    specs = agent.kit.specs()
    prompt = agent.conversation.prompt
    head = render_head(place, chosen, specs, cache_key=prompt.head.spec.cache_key)
    agent.restart(Prompt(head).append(*carried(prompt)), reason=reason, detail=detail)
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
