"""What an MCP server has: its tools, prompts and resources, and what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prong.tools.mcp import ResourceContents, full_name

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt, Tool

MOST_TOOLS = 5_000
_PAGES = 100
_LISTED = 200
"""Resources that are listed at most."""


class ServerFeatures(Struct, frozen=True, kw_only=True):
    """What is known of a server's features."""

    tools: Mapping[str, Tool] = {}
    """Its tools by their full names."""
    prompts: tuple[Prompt, ...] = ()
    resources: bool = False
    """Whether it has resources."""
    instructions: str = ""
    about: str = ""
    """What it says it is: name and version."""
    notes: tuple[str, ...] = ()
    """What of it was left out."""


def introduced(features: ServerFeatures, client: Client) -> ServerFeatures:
    """Take in what a server said of itself when it was connected."""
    about = client.server_info
    return replace(
        features,
        about=f"{about.name} {about.version}".strip() if about is not None else "",
        instructions=(client.instructions or "").strip(),
    )


async def with_tools(features: ServerFeatures, client: Client, server: str) -> ServerFeatures:
    """Ask for all tools of the server of a name."""
    found: list[Tool] = [one async for one in _pages(client.list_tools, "tools")]
    found.sort(key=lambda tool: tool.name)
    named: dict[str, Tool] = {}
    for tool in found[:MOST_TOOLS]:
        named[full_name(server, tool.name, taken=named)] = tool
    cut = (f"of its tools the first {MOST_TOOLS:,} by name count",)
    return replace(features, tools=named, notes=cut if len(found) > MOST_TOOLS else ())


async def with_prompts(features: ServerFeatures, client: Client) -> ServerFeatures:
    """Ask for all prompts."""
    found = tuple([one async for one in _pages(client.list_prompts, "prompts")])
    return replace(features, prompts=found)


async def has_resources(client: Client) -> bool:
    """Whether there is any resource: many servers say that they could have some."""
    from mcp import MCPError

    try:
        if (await client.list_resources()).resources:
            return True
        return bool((await client.list_resource_templates()).resource_templates)
    except (MCPError, ValueError, RuntimeError):
        return False


async def named_resources(client: Client) -> list[tuple[str, str]]:
    """Give the addresses of resources that can be typed, each with what it is called."""
    found = [(str(one.uri), one.name) async for one in _pages(client.list_resources, "resources")]
    return [(uri, name) for uri, name in found[:_LISTED] if uri.isprintable() and " " not in uri]


async def list_resources(client: Client) -> ResourceContents:
    """List resources and templates, as one text."""
    from mcp_types import TextResourceContents

    found = [(one.uri, one) async for one in _pages(client.list_resources, "resources")]
    templates = _pages(client.list_resource_templates, "resource_templates")
    found += [(one.uri_template, one) async for one in templates]
    lines = [f"{uri}  {one.name}  {one.description or ''}".rstrip() for uri, one in found]
    more = len(lines) - _LISTED
    shown = [*lines[:_LISTED], *([f"… and {more:,} more"] if more > 0 else [])]
    if not shown:
        return ()
    return (TextResourceContents(uri="resources", text="\n".join(shown)),)


def differences(before: Mapping[str, Tool], now: Mapping[str, Tool]) -> str:
    """Say which tools came, went and changed."""
    came = [f"+{name}" for name in now if name not in before]
    went = [f"-{name}" for name in before if name not in now]
    other = [f"~{name}" for name, tool in now.items() if name in before and before[name] != tool]
    listed = [*came, *went, *other]
    more = len(listed) - 5
    return ", ".join((*listed[:5], *([f"and {more} more"] if more > 0 else [])))


async def _pages(fetch: Callable[..., Awaitable[Any]], field: str) -> AsyncGenerator[Any, None]:
    """Go through a list page by page, as far as is sensible."""
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await fetch(cursor=cursor)
        for one in getattr(page, field):
            yield one
        cursor = page.next_cursor
        if cursor is None:
            break
