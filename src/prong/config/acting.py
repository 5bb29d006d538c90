"""The option `agent`: the main agent is one of a type."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from prong.agent.spec import INHERIT, AgentType, AgentTypes
from prong.config.option import Options
from prong.errors import UnknownName, nearest
from prong.tools.filter import denied_uses
from prong.tools.skill import Skill

_STRICTER = frozenset({"plan", "dontAsk"})
"""Modes that a type may bring: none that allows more than the session's own."""


def acting_type(options: Options, types: AgentTypes) -> AgentType | None:
    """Find the type that the main agent is to be of, if one is asked for.

    Raises UnknownName if there is none of that name.
    """
    if options.agent is None:
        return None
    kind = types.get(options.agent)
    if kind is None:
        close = nearest(options.agent, types)
        hint = f"did you mean {close!r}?" if close else f"the types are: {', '.join(types)}"
        raise UnknownName(f"--agent: there is no agent type {options.agent!r}; {hint}")
    return kind


def as_type(options: Options, kind: AgentType | None) -> Options:
    """Take from a type what options and settings leave open; forbidden uses are added to theirs."""
    if kind is None:
        return options
    model = kind.model if kind.model not in {"", INHERIT} else None
    mode = kind.permission_mode if kind.permission_mode in _STRICTER else None
    return replace(
        options,
        model=options.model or model,
        mode=options.mode or mode,
        effort=options.effort or kind.effort or None,
        max_turns=options.max_turns or kind.max_turns,
        deny=(*options.deny, *denied_uses(kind.disallowed_tools)),
    )


def role_of(kind: AgentType | None, skills: Sequence[Skill]) -> tuple[str, str] | None:
    """Give the system prompt of a type, and the skills that it is to know."""
    if kind is None:
        return None
    known = {skill.name: skill for skill in skills}
    told = [f"# Skill {name}\n\n{known[name].body}" for name in kind.skills if name in known]
    return kind.prompt, "\n\n".join(told)
