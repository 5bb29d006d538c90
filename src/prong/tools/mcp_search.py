"""Many tools of servers, found when they are needed instead of standing in every request.

Tools that are `deferred` are left out of what the model is told; in their place stand two that
never change: `McpSearch` finds them, `McpCall` calls one. A call through `McpCall` is made into the
call that is meant before anybody looks at it, so that rules, hooks, questions and events speak of
`mcp__server__tool` as they do where the tool stands in the request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Protocol, cast

import msgspec
from msgspec import Meta

from prong.entry import Call, CallId
from prong.foreign_json import NOT_JSON
from prong.text import load_text
from prong.tools.access import Access
from prong.tools.filter import is_mcp
from prong.tools.mcp import McpResources, McpTool, ServedTool
from prong.tools.schema import schema
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, Tool, done

SEARCH, CALL = "McpSearch", "McpCall"
_MOST = 20
_LONGEST = 2_000
_NAMED = 100
_PATIENCE = 5.0
"""Seconds that a search waits for late servers if it has found something."""


class McpCallArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What McpCall is called with."""

    tool: Annotated[str, Meta(description="Its full name, mcp__server__tool, as found")]
    arguments: Annotated[dict[str, Any], Meta(description="What its own schema asks for")] = {}


class McpSearchArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What McpSearch is called with."""

    query: Annotated[str, Meta(description="Words for what it should do, or names of tools")]
    limit: Annotated[int, Meta(ge=1, le=_MOST, description="How many to show at most")] = 5


class LateServers(Protocol):
    """Servers that were still starting when the tools were listed."""

    @property
    def starting(self) -> tuple[str, ...]:
        """The names of those that are not there yet."""
        ...

    async def wait_tools(self, seconds: float) -> Sequence[ServedTool]:
        """Wait until all of them are there or have failed; gives the tools of all servers."""
        ...


def meant(call: Call) -> Call:
    """Give the call that a call of McpCall means; any other as it is."""
    if call.name != CALL:
        return call
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except NOT_JSON:
        return call
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    tool, given = fields.get("tool"), fields.get("arguments", {})
    if not isinstance(tool, str) or not is_mcp(tool) or fields.keys() - {"tool", "arguments"}:
        return call
    # Some models write the inner object as text.
    inner = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return msgspec.structs.replace(call, name=tool, arguments=inner)


def deferred(tools: Sequence[ServedTool], above: int) -> list[ServedTool]:
    """Defer all tools if what they would put into every request is more than so many bytes."""
    size = size_of(tools)
    return [msgspec.structs.replace(tool, deferred=size > above) for tool in tools]


def size_of(tools: Sequence[ServedTool]) -> int:
    """Say how many bytes tools put into every request, about."""
    return sum(len(tool.name) + len(tool.description) + len(_schema(tool)) for tool in tools)


def searchable(tools: Iterable[Tool], late: LateServers | None = None) -> list[Tool]:
    """Put the two tools that find others among tools, if some are deferred or will be."""
    given = [tool for tool in tools if tool.name not in {SEARCH, CALL}]
    hidden = tuple(
        tool for tool in given if isinstance(tool, McpTool | McpResources) and tool.deferred
    )
    if not hidden and late is None:
        return given
    place = next((at for at, tool in enumerate(given) if is_mcp(tool.name)), len(given))
    return [*given[:place], McpSearch(hidden, late), McpCall(), *given[place:]]


class McpSearch:
    """Finds tools of servers."""

    name = SEARCH
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = McpSearchArguments
    budget = 50_000

    def __init__(self, tools: Sequence[ServedTool], late: LateServers | None = None) -> None:
        """Find among these, and among those of servers that are late."""
        self._tools = tuple(tools)
        self._late = late

    @property
    def description(self) -> str:
        """What the model is told: which servers there are, and how many tools each has."""
        counts: dict[str, int] = {}
        for tool in self._tools:
            counts[tool.server] = counts.get(tool.server, 0) + 1
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
        late = "; others are still starting" if self._late is not None else ""
        return f"{load_text('tool/McpSearch').rstrip()}\n\nServers: {listed or 'none yet'}{late}."

    def title(self, args: McpSearchArguments) -> str:
        """Say what is looked for."""
        return f"Find MCP tools: {args.query}"

    def access(self, args: McpSearchArguments, context: Context) -> Sequence[Access]:
        """Touch nothing."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: McpSearchArguments, context: Context) -> CallOutcome:
        """Find tools, the best first, with all that is needed to call them."""
        del call_id, context
        tools, more = self._tools, ""
        if self._late is not None:
            known = {tool.name for tool in tools}
            # Who has found something need not wait for a server that may never come.
            patience = _PATIENCE if find(tools, args.query) else math.inf
            came = await self._late.wait_tools(patience)
            tools += tuple(one for one in came if one.name not in known)
            if names := ", ".join(self._late.starting):
                more = f" Still starting, so search again for theirs: {names}."
        found = find(tools, args.query)[: args.limit]
        if not found:
            return done(f"No tool fits.{more} There are:\n{_names(tools)}")
        return done("\n\n".join((*map(_told, found), f"Call one with {CALL}.{more}")))


class McpCall:
    """Stands for all deferred tools; what it is asked for runs under its own name."""

    name = CALL
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = McpCallArguments
    budget = 50_000

    def title(self, args: McpCallArguments) -> str:
        """Name what was meant."""
        return f"call of {args.tool}"

    def access(self, args: McpCallArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: it only comes to this if no tool was meant that could be."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: McpCallArguments, context: Context) -> CallOutcome:
        """Say why there is nothing to call."""
        del call_id, context
        return Failed(f"{args.tool!r} is no tool of a server; find its full name with {SEARCH}")


def find(tools: Sequence[ServedTool], query: str) -> list[ServedTool]:
    """Find tools by words in their names, what they say of themselves and their arguments."""
    words = [word for word in re.split(r"[^0-9a-z]+", query.lower()) if word]
    named = {part.strip() for part in re.split(r"[\s,]+", query)}
    ranked = [
        (score, tool)
        for tool in tools
        if (score := 1_000 if tool.name in named else _score(tool, words)) > 0
    ]
    ranked.sort(key=lambda one: (-one[0], one[1].name))
    return [tool for _, tool in ranked]


def _score(tool: ServedTool, words: Sequence[str]) -> int:
    name, about = tool.name.lower(), tool.description.lower()
    parts, given = set(re.split(r"[^0-9a-z]+", name)), _schema(tool).decode().lower()
    return sum(
        4 * (word in parts) + 2 * (word in name) + 2 * (word in about) + (word in given)
        for word in words
    )


def _told(tool: ServedTool) -> str:
    about = tool.description
    about = about if len(about) <= _LONGEST else f"{about[:_LONGEST]}… (cut)"
    return f"## {tool.name}\n{about}\nArguments: {_schema(tool).decode()}"


def _names(tools: Sequence[ServedTool]) -> str:
    def lines() -> Iterator[str]:
        yield from (tool.name for tool in tools[:_NAMED])
        if len(tools) > _NAMED:
            yield f"… and {len(tools) - _NAMED:,} more"

    return "\n".join(lines()) or "none"


def _schema(tool: ServedTool) -> bytes:
    return bytes(tool.raw_schema) if isinstance(tool, McpTool) else schema(tool.arguments)
