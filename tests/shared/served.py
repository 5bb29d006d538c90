"""Sessions with MCP servers made for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MANY = str(Path(__file__).parents[1] / "door" / "mcp_many_server.py")
OLD = str(Path(__file__).parents[1] / "door" / "mcp_old_server.py")


def server_config(*words: str, name: str = "many", **more: Any) -> dict[str, Any]:
    """Configure the server of many words."""
    return {"mcpServers": {name: {"command": sys.executable, "args": [MANY, *words], **more}}}


def old_config(name: str = "many") -> dict[str, Any]:
    """Configure the server of the older kind."""
    return {"mcpServers": {name: {"command": sys.executable, "args": [OLD]}}}


def wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens at its port."""
    until = time.monotonic() + 50
    while True:
        assert process.poll() is None, f"the server has ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            assert time.monotonic() < until, f"nobody listens at {port}"
            time.sleep(0.05)
        else:
            return


def patient(**more: Any) -> dict[str, Any]:
    """Give settings by which a session waits until its servers are there."""
    return {"mcp": {"wait": 60, **more}}
