"""All MCP servers of a session: what they have, and what their tools are to an agent.

Servers start side by side, and the session waits for them a moment only. The tools of one that is
late are found by `McpSearch` as soon as it is there, and stand in the next new prompt: a head that
was sent never changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import msgspec

from prong.config.server import ServerSpec
from prong.entry import ToolSpec
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_server import Asker, McpServer
from prong.session.server_news import NewsQueue
from prong.tools.filter import is_mcp
from prong.tools.kit import Kit
from prong.tools.mcp import (
    RESOURCES,
    McpResources,
    McpTool,
    ServedTool,
    bounded_description,
    full_name,
    required_keys,
    usable_schema,
)
from prong.tools.mcp_search import SEARCH, searchable
from prong.tools.tool import Tool

if TYPE_CHECKING:
    from mcp_types import Prompt

_LONGEST_INSTRUCTIONS = 4_000
_ALL_INSTRUCTIONS = 16_000


class McpServers(msgspec.Struct, frozen=True):
    """The servers of a session."""

    servers: tuple[McpServer, ...] = ()
    news: NewsQueue = msgspec.field(default_factory=NewsQueue)
    """What happens to them after the session's start."""

    @property
    def starting(self) -> tuple[str, ...]:
        """The names of those that are not there yet."""
        return tuple(one.spec.name for one in self.servers if one.state == "starting")

    def tools(self) -> list[ServedTool]:
        """Give the tools of all that are there, sorted by name; of two of one name, the first."""
        made: dict[str, ServedTool] = {}
        for server in self.servers:
            if server.state == "ready":
                for tool in served_tools(server):
                    made.setdefault(tool.name, tool)
        return [tool for _, tool in sorted(made.items())]

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for all of them, but no longer than so many seconds."""
        with anyio.move_on_after(seconds):
            for server in self.servers:
                await server.wait_settled()

    async def wait_tools(self, seconds: float) -> Sequence[ServedTool]:
        """Wait until all of them are there or have failed; gives the tools of all servers."""
        await self.wait(seconds)
        # What is found now must be there to be called.
        await self.news.wait_taken()
        return [msgspec.structs.replace(tool, deferred=True) for tool in self.tools()]

    def instructions(self) -> tuple[tuple[str, str], ...]:
        """Give what servers say of themselves, bounded."""
        found: list[tuple[str, str]] = []
        room = _ALL_INSTRUCTIONS
        for server in self.servers:
            text = server.features.instructions if server.state == "ready" else ""
            if text and room:
                kept = text[: min(room, _LONGEST_INSTRUCTIONS)]
                room -= len(kept)
                found.append((server.spec.name, kept if kept == text else f"{kept}… (cut)"))
        return tuple(found)

    def prompts(self) -> dict[str, tuple[McpServer, Prompt]]:
        """Give the prompts of all servers by the names that the user types after a slash."""
        return {
            full_name(server.spec.name, prompt.name): (server, prompt)
            for server in self.servers
            for prompt in server.features.prompts
        }

    async def resources(self, seconds: float) -> dict[str, str]:
        """Give what can be named behind an @ in a message, as far as servers say it in time."""
        found: dict[str, str] = {}

        async def ask(server: McpServer) -> None:
            found.update({f"{server.spec.name}:{u}": n for u, n in await server.resources()})

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for server in self.servers:
                    group.start_soon(ask, server)
        return dict(sorted(found.items()))

    def named(self, name: str) -> McpServer | None:
        """Find a server by its name."""
        return next((one for one in self.servers if one.spec.name == name), None)

    def owner(self, name: str) -> McpServer | None:
        """Find the server of a tool or prompt by its full name, be it there yet or not."""
        leads = ((full_name(one.spec.name, ""), one) for one in self.servers)
        found = [(len(lead), one) for lead, one in leads if name.startswith(lead)]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    async def aclose(self) -> None:
        """End all connections and processes, all at once."""
        async with anyio.create_task_group() as group:
            for server in self.servers:
                group.start_soon(server.aclose)


async def open_servers(
    specs: Sequence[ServerSpec],
    group: anyio.abc.TaskGroup,
    reach: ServerReach,
    *,
    asker: Asker | None = None,
    wait: float = math.inf,
) -> McpServers:
    """Connect to all servers at once, and wait for them no longer than so many seconds.

    They live in the given task group until `aclose`, or until it is cancelled.
    """
    news = NewsQueue()
    made = tuple(McpServer(spec, reach, asker=asker, news=news) for spec in specs)
    servers = McpServers(made, news)
    for server in made:
        group.start_soon(server.keep)
    await servers.wait(wait)
    return servers


def served_tools(server: McpServer) -> list[ServedTool]:
    """Make tools of ours of what a server has."""
    made: list[ServedTool] = []
    for name, tool in server.features.tools.items():
        hint = tool.annotations.read_only_hint if tool.annotations else None
        description = tool.description or tool.title or tool.name
        schema, further = usable_schema(tool.input_schema)
        made.append(
            McpTool(
                connection=server,
                server=server.spec.name,
                tool=tool.name,
                name=name,
                description=bounded_description(f"{description}{further}"),
                raw_schema=msgspec.Raw(msgspec.json.encode(schema)),
                effect="reads" if hint else "writes",
                required=required_keys(schema),
            )
        )
    if server.features.resources:
        name = full_name(server.spec.name, RESOURCES, taken=server.features.tools)
        made.append(McpResources(connection=server, server=server.spec.name, name=name))
    return made


def fitting(pool: Kit, told: Sequence[ToolSpec], servers: McpServers) -> Kit:
    """Make the kit for a head that tells of these tools: others of servers have to be found.

    A tool that it tells of and that is not there yet is called when its server is.
    """
    names = {spec.name for spec in told}
    tools: list[Tool] = [
        msgspec.structs.replace(tool, deferred=tool.name not in names)
        if isinstance(tool, McpTool | McpResources)
        else tool
        for tool in pool
    ]
    if SEARCH not in names:
        tools = [tool for tool in tools if not getattr(tool, "deferred", False)]
    here = {tool.name for tool in tools}
    for spec in told:
        if is_mcp(spec.name) and spec.name not in here:
            tools += _awaited(spec, servers)
    late = servers if SEARCH in names and servers.starting else None
    return Kit(searchable(tools, late) if SEARCH in names else tools)


def _awaited(spec: ToolSpec, servers: McpServers) -> list[ServedTool]:
    """Make a tool of what a head tells of it, if its server is one of the session's."""
    server = servers.owner(spec.name)
    if server is None:
        return []
    own = spec.name.removeprefix(full_name(server.spec.name, ""))
    if re.fullmatch(rf"{RESOURCES}(_[0-9a-f]{{8}})?", own):
        return [McpResources(connection=server, server=server.spec.name, name=spec.name)]
    return [
        McpTool(
            connection=server,
            server=server.spec.name,
            tool=own,
            name=spec.name,
            description=spec.description,
            raw_schema=spec.schema,
            effect="writes",
        )
    ]
