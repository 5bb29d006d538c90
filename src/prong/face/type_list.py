"""`prong agents`: the types of agents, where each comes from, and what it may use."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from prong.face.command_grammar import parser_of
from prong.face.output import printable, show, tell
from prong.session import AgentType, AgentTypes, TypeReport, agent_types, type_report

_WIDTH = 80
_NAME = 24
"""Columns of the names; a longer one stands out."""


def run_agents(words: list[str]) -> int:
    """List the types, or show one; gives the exit code."""
    parser = parser_of("agents")
    args = parser.parse_args(words)
    if (args.action == "show") != (args.name is not None):
        parser.error("use 'prong agents' or 'prong agents show NAME'")
    found = agent_types(cwd=args.cwd, agents=args.agents)
    for warning in found.warnings:
        tell(warning, lead="! ")
    if args.name is None:
        lines = list_types(found.types)
    else:
        lines = show_type(type_report(found.types, args.name, found.tools))
        if found.servers:
            lines = [*lines, "", "Tools of MCP servers come on top of these."]
    show("\n".join(lines))
    return 0


def list_types(types: AgentTypes) -> list[str]:
    """Say each type with its description and source, folded to a terminal's usual width."""
    width = min(max((len(name) for name in types), default=0), _NAME)
    return [line for kind in types.values() for line in _folded(kind, width)]


def _folded(kind: AgentType, width: int) -> list[str]:
    indent = " " * (width + 2)
    text = f"{kind.name:<{width}}  {' '.join(kind.description.split())}"
    lines = textwrap.wrap(printable(text), _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    # In one piece, since it may be a path.
    source = printable(f"({kind.origin})")
    if len(lines[-1]) + 1 + len(source) <= _WIDTH:
        return [*lines[:-1], f"{lines[-1]} {source}"]
    return [*lines, indent + source]


def show_type(told: TypeReport) -> list[str]:
    """Show a type: what it is, its tools, and which layer takes each of the others."""
    return [printable(line) for line in _shown(told)]


def _facts(told: TypeReport) -> Iterator[tuple[str, str]]:
    kind = told.kind
    yield "effort", kind.effort
    yield "turns", f"{kind.max_turns} at most" if kind.max_turns else ""
    yield "background", "always" if kind.background else ""
    yield "isolation", kind.isolation
    yield "skills", ", ".join(kind.skills)
    yield "servers", "none" if kind.mcp_servers == () else ", ".join(kind.mcp_servers or ())
    yield "hooks", str(len(kind.hooks) or "")
    yield "forbidden", ", ".join(told.forbidden)
    yield "first", " ".join(kind.initial_prompt.split())


def _shown(told: TypeReport) -> Iterator[str]:
    kind = told.kind
    yield from textwrap.wrap(f"{kind.name}: {kind.description}", _WIDTH)
    yield ""
    yield f"source       {kind.origin}"
    yield f"model        {kind.model if kind.model != 'inherit' else 'of the parent'}"
    yield f"mode         {told.mode or 'of the session'}"
    for label, value in _facts(told):
        if value:
            yield f"{label:<12} {value}"
    if kind.omit_instructions:
        yield "instructions of the project are left out"
    for text in (*(f"there is no tool {one}" for one in told.unknown), *kind.unheeded):
        yield f"! {text}"
    for found in told.tools:
        yield ""
        yield "Tools in the background:" if found.background else "Tools:"
        kept = ", ".join(found.kept) or "none"
        yield from textwrap.wrap(kept, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        if found.spawns is not None:
            yield f"  agents it may start: {', '.join(found.spawns) or 'none'}"
        for tool, layer, why in found.removed:
            yield f"  - {tool}: layer '{layer}', {why}"
    yield ""
    yield "Prompt:"
    yield from kind.prompt.splitlines()
