"""A coordinator: a main agent that only gives work to others.

What is special about it is its lineage, which the gate knows, and the one type of agent it may
start. Everything else is the road that all agents go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from prong.agent.spec import AgentType
from prong.journal.note import ToolSet
from prong.tools.filter import is_mcp

_LISTED = 40
"""Tools of a server that are named one by one."""
_SIMPLE = ("Bash", "Read", "Edit", "Skill")


def worker_type(kind: AgentType, *, tools: ToolSet, scratchpad: str) -> AgentType:
    """Make the type of a session's workers out of the type as it is defined.

    They work in the background, where nobody could be asked, and there is nobody else to do the
    work: so their questions are shown to the user as a fork's are.
    """
    own = kind.tools if tools == "full" else _simple(kind.tool_names)
    note = (
        f"\n\nScratchpad: {scratchpad} is a folder that you and the other workers can read and "
        "write without asking. Put there what others need and what does not belong into the "
        "project."
    )
    return replace(
        kind,
        tools=own,
        background=True,
        permission_mode="bubble",
        prompt=f"{kind.prompt}{note if scratchpad else ''}",
    )


def _simple(tools: tuple[str, ...] | None) -> tuple[str, ...]:
    if tools is None:
        return _SIMPLE
    return tuple(tool for tool in tools if tool in _SIMPLE or is_mcp(tool))


def describe_workers(tools: Iterable[str], skills: Sequence[str], scratchpad: str) -> str:
    """Tell the coordinator what its workers have, by the kit that they really get."""
    names = sorted(tools)
    servers: dict[str, list[str]] = {}
    for name in names:
        if is_mcp(name):
            _, server, tool = name.split("__", 2)
            servers.setdefault(server, []).append(tool)
    own = [name for name in names if not is_mcp(name)]
    has_skills = "Skill" in own and skills
    lines = [
        "# What your workers have",
        "",
        f"- Tools: {', '.join(own) or 'none'}",
        f"- MCP servers: {_servers(servers)}",
        f"- Skills: {', '.join(skills) if has_skills else 'none'}",
    ]
    if scratchpad:
        lines += [
            f"- Scratchpad: {scratchpad}",
            "",
            (
                "Every worker can read and write the scratchpad without asking. You cannot: have "
                "workers put there what other workers need, and name the path in the briefs."
            ),
        ]
    return "\n".join(lines)


def _servers(servers: dict[str, list[str]]) -> str:
    listed = [
        f"{name} ({', '.join(tools) if len(tools) <= _LISTED else f'{len(tools):,} tools'})"
        for name, tools in servers.items()
    ]
    return "; ".join(listed) or "none"
