"""A session as Claude Code stores it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def claude(path: Path, *, cwd: str = "/w", last: str = "Done.") -> Path:
    """Write a session of Claude Code."""
    common = {"sessionId": "s", "version": "2.1.325", "cwd": cwd, "isSidechain": False}
    use = {"type": "tool_use", "id": "toolu_1", "name": "MultiEdit", "input": {"file_path": "a"}}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"content": "MEND IT"}},
        {
            "type": "assistant",
            "uuid": "a1",
            "parentUuid": "u1",
            "message": {"id": "m1", "model": "claude-sonnet-5-5", "content": [use]},
        },
        {
            "type": "user",
            "uuid": "r1",
            "parentUuid": "a1",
            "message": {
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "EDITED"}]
            },
        },
        {
            "type": "assistant",
            "uuid": "a2",
            "parentUuid": "r1",
            "message": {"id": "m2", "content": [{"type": "text", "text": last}]},
        },
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({**one, **common}) + "\n" for one in lines))
    return path


def claude_slug(cwd: Path) -> str:
    """Name the folder in which it keeps the sessions of a folder."""
    return "".join(c if c.isalnum() else "-" for c in str(cwd))
