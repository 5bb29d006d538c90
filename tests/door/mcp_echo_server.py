"""A small MCP server for tests: `python mcp_echo_server.py [stdio | http PORT]`."""

from __future__ import annotations

import base64
import os
import sys

import anyio
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    EmbeddedResource,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("echo", log_level="ERROR")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def say(text: str) -> str:
    """Say a text back."""
    return f"echo: {text}"


@server.tool()
def picture() -> Image:
    """Give a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def resource() -> EmbeddedResource:
    """Give a resource."""
    contents = TextResourceContents(uri="memo://one", mime_type="text/plain", text="inside")
    return EmbeddedResource(resource=contents)


@server.tool()
def fail() -> str:
    """Fail on purpose."""
    raise ToolError("on purpose")


calls = 0


@server.tool()
async def crash() -> str:
    """End the process."""
    global calls  # noqa: PLW0603 - of this process
    calls += 1
    if calls < int(os.environ.get("CRASH_AFTER", "1")):
        await anyio.sleep_forever()
    print("last words of the server", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool(name="odd name.with/marks")
def odd() -> int:
    """Tell the process id."""
    return os.getpid()


@server.tool()
def environment(name: str) -> str:
    """Read a variable."""
    return os.environ.get(name, "(unset)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["sse"]:
        server.run("sse", port=int(sys.argv[2]))
    else:
        server.run()
