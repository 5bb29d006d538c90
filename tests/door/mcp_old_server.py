"""An MCP server of the older kind for tests, by hand: it shakes hands, asks, and changes.

With a number as its argument it has so many tools more.
"""

from __future__ import annotations

import json
import sys
from typing import Any

FORM = {
    "type": "object",
    "properties": {
        "color": {"type": "string"},
        "count": {"type": "integer", "default": 1},
    },
    "required": ["color"],
}
names = ["form", "grow", *(f"tool_{number}" for number in range(int(*sys.argv[1:2] or [0])))]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def form() -> str:
    params = {"message": "Which one?", "requestedSchema": FORM}
    send({"id": "ask", "method": "elicitation/create", "params": params})
    while (answer := receive()).get("id") != "ask":
        pass
    given = answer["result"]
    return f"{given['action']} {given.get('content')}"


def grow() -> str:
    names.append("grown")
    send({"method": "notifications/tools/list_changed"})
    return "grown"


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "serverInfo": {"name": "old", "version": "1"},
                "capabilities": {"tools": {"listChanged": True}},
                "instructions": "Be kind to the old.",
            }
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            return {"tools": tools}
        case "tools/call":
            text = form() if params["name"] == "form" else grow()
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return None


while True:
    asked = receive()
    if "id" not in asked:
        continue
    result = answer(asked.get("method", ""), asked.get("params") or {})
    if result is None:
        send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"id": asked["id"], "result": result})
