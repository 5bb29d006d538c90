"""A small MCP server for tests, whose tool decides on permission by what it is asked about."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("gate", log_level="ERROR")


@server.tool()
def decide(tool_name: str, input: dict[str, Any], tool_use_id: str) -> str:  # noqa: A002 - as callers name it
    """Allow what touches a file called yes, change what touches change, mumble, or refuse."""
    said = json.dumps(input)
    assert tool_use_id
    if "mumble" in said:
        return "hm"
    if "change" in said:
        return json.dumps({"behavior": "allow", "updatedInput": {"command": "touch other"}})
    if tool_name == "Bash" and "yes" in said:
        return json.dumps({"behavior": "allow", "updatedInput": input})
    return json.dumps({"behavior": "deny", "message": "not by me"})


if __name__ == "__main__":
    server.run()
