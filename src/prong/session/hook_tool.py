"""Calls a tool of an MCP server for a hook; its text is what a command would print."""

from __future__ import annotations

import anyio

from prong.agent.verdict import Verdict
from prong.config.hook import Hook
from prong.config.hook_output import read_verdict, unheard
from prong.config.hook_way import HookTool
from prong.entry import Text
from prong.host import Finished
from prong.session.mcp_servers import McpServers
from prong.tools.mcp import content_part, full_name
from prong.tools.tool import Failed


async def call_tool(servers: McpServers | None, hook: Hook, way: HookTool, told: bytes) -> Verdict:
    """Call it with what the event holds; without an answer, what waits for one does not happen."""
    server = servers.named(way.server) if servers is not None else None
    if server is None:
        return unheard(hook, "could not be asked: there is no such server")
    name = full_name(way.server, way.tool)
    with anyio.move_on_after(hook.seconds):
        found = await server.call(name, way.filled(told), lambda _: None)
        if isinstance(found, Failed):
            return unheard(hook, f"could not be asked: {found.why}")
        parts = [content_part(one, pictures=False) for one in found.content]
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        if found.is_error:
            return unheard(hook, f"failed: {text[:500]}")
        return read_verdict(hook, Finished(0, text.encode()))
    return unheard(hook, f"did not answer within {hook.seconds:g} s")
