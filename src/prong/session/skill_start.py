"""Skills that the user starts: put before the main agent, or given to an agent of their own."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import msgspec

from prong.agent import Agent
from prong.agent.dispatch import perform_call
from prong.agent.limit import RunState
from prong.agent.skill_use import agent_arguments, not_lent, put_together
from prong.command import Refused
from prong.errors import UsageError
from prong.event import Warned
from prong.session.parts import Parts
from prong.team import by_hand
from prong.tools.skill_text import SkillUse


class SkillTask(msgspec.Struct, frozen=True):
    """A skill that an agent of its own works on; its report comes as a notice."""

    said: str


async def say_skill(parts: Parts, use: SkillUse) -> str:
    """Put together what a skill says; its commands run by the rules that it brings."""
    own = parts.agent
    # Only these calls have what the skill allows, and they count for no loop of a turn.
    policy = own.policy.lending(use.skill.allows)
    agent: Agent = msgspec.structs.replace(own, policy=policy, run=RunState())
    call_id = f"skill-{uuid4().hex[:8]}"
    perform = partial(perform_call, agent)
    if parts.busy:
        return await put_together(agent, call_id, use, perform)
    async with parts.life.hold() as scope:
        text = await put_together(agent, call_id, use, perform)
    return "" if scope.cancelled_caught else text


def start_skill(parts: Parts, use: SkillUse, text: str) -> SkillTask | Refused | None:
    """Start the agent that a skill asks for; None if it has to run in the conversation."""
    skill, agent = use.skill, parts.agent
    if not skill.fork:
        if skill.model:
            told = f"the skill {skill.name} asks for the model {skill.model}; the session's answers"
            agent.emit(Warned(text=told))
        return None
    if not parts.supervisor.settings.background:
        told = f"the skill {skill.name} asks to run in a sub-agent; it runs in this conversation"
        agent.emit(Warned(text=f"{told}, because the setting background is false"))
        return None
    if (told := not_lent(skill)) is not None:
        agent.emit(Warned(text=told))
    try:
        begun = by_hand.begin(parts.supervisor, agent, agent_arguments(skill, text))
    except UsageError as error:
        return Refused(f"the skill {skill.name} cannot start its agent: {error}")
    return SkillTask(f"skill {skill.name}: {begun}")
