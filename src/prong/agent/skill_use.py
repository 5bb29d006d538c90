"""Puts together what a skill says: runs the commands in its text and reads the files it names.

Each of them is a call like any other: decided on by rules, mode, hooks and user, held to its
sandbox, seen by faces. One that may not run, or fails, leaves its reason in the text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from prong.agent.agent import Agent
from prong.agent.lineage import contained
from prong.entry import Call, CallId, Result, plain
from prong.event import Warned
from prong.system.path_form import is_absolute
from prong.tools.delegate import AgentTool
from prong.tools.skill import known_variables
from prong.tools.skill_text import Skill, SkillUse, headed, mentions, pieces
from prong.tools.tool import Failed

InnerCall: TypeAlias = Callable[[Call], Awaitable[Result]]
"""Runs a call as if the model had made it, and gives its result to whoever asks."""

_FILES = 20
"""Files of a skill that are read at once."""


async def put_together(agent: Agent, call_id: str, use: SkillUse, perform: InnerCall) -> str:
    """Give what the model should see of a skill that is used."""
    parts: list[str] = []
    for piece in pieces(use, known_variables(agent.context)):
        if isinstance(piece, str):
            parts.append(piece)
        else:
            inner = CallId(f"{call_id}-{len(parts)}")
            parts.append(
                _given(await perform(_call(inner, "Bash", command=piece.line)), piece.line)
            )
    text = headed(use.skill, "".join(parts))
    for number, name in enumerate(await _files(agent, use.skill)):
        inner = CallId(f"{call_id}-file-{number}")
        given = _given(await perform(_call(inner, "Read", file_path=name)), name)
        text += f"\n\n<file path={name!r}>\n{given}\n</file>"
    return text


def delegated(agent: Agent, use: SkillUse, text: str) -> Call | Failed | None:
    """Say by which call of Agent a skill runs that wants an agent of its own; None if none can.

    The user is told if it has to run in the conversation.
    """
    skill, tool = use.skill, agent.kit.get(AgentTool.name)
    if not skill.fork:
        if skill.model:
            agent.emit(
                Warned(text=f"the skill {skill.name} asks for the model {skill.model}; {_HERE}")
            )
        return None
    if not isinstance(tool, AgentTool) or contained(agent.lineage, tool.name) is not None:
        agent.emit(Warned(text=f"the skill {skill.name} asks to run in a sub-agent; {_HERE}"))
        return None
    if (told := not_lent(skill)) is not None:
        agent.emit(Warned(text=told))
    given = agent_arguments(skill, text)
    try:
        msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        return Failed(f"the skill {skill.name} cannot start its agent: {error}")
    return Call(CallId(""), tool.name, msgspec.json.encode(given).decode())


_HERE = "it runs in this conversation, as it is"


def not_lent(skill: Skill) -> str | None:
    """Say that an agent of its own has nothing of what a skill allows; None if that is nothing."""
    if not skill.allows:
        return None
    named = ", ".join(str(rule) for rule in skill.allows)
    told = f"the skill {skill.name} runs in an agent of its own, which is asked about what it does"
    return f"{told}: allowed-tools {named} are for its own commands alone"


def agent_arguments(skill: Skill, text: str) -> dict[str, Any]:
    """Say what Agent is given for a skill; a fork cannot have a model of its own."""
    kind = skill.agent or ("general-purpose" if skill.model else None)
    given = {
        "description": f"skill {skill.name}",
        "prompt": text,
        "subagent_type": kind,
        "model": skill.model or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def _call(call_id: CallId, name: str, **arguments: str) -> Call:
    return Call(call_id, name, msgspec.json.encode(arguments).decode())


def _given(result: Result, what: str) -> str:
    text = plain(result.parts)
    return f"[{what!r} gave nothing: {text}]" if result.failed else text


async def _files(agent: Agent, skill: Skill) -> list[str]:
    """Find the files that a skill mentions; a word that names none is a word."""
    host = agent.context.host
    found: list[str] = []
    for name in mentions(skill)[:_FILES]:
        for base in (host.root, skill.folder):
            path = _absolute(name, base, host.home)
            try:
                known = await host.stat(path)
            except (OSError, ValueError):
                continue
            if known is not None and known.kind == "file":
                found.append(path)
                break
    return found


def _absolute(name: str, base: str, home: str) -> str:
    if name.startswith("~/"):
        return f"{home}/{name[2:]}"
    return name if is_absolute(name) else f"{base}/{name.removeprefix('./')}"
