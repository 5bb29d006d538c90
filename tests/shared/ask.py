"""Requests to the loopback server, as it parses them."""

from __future__ import annotations

import json
from typing import Any

from prong.testing.parse import parse
from prong.testing.request import Request

HELLO: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hello"}]}

RESULT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}],
}


def ask(*messages: Any, headers: dict[str, str] | None = None, **fields: Any) -> Request:
    body = {"model": "m", "max_tokens": 10, "messages": list(messages)} | fields
    return parse(
        "anthropic",
        json.dumps({k: v for k, v in body.items() if v is not ...}).encode(),
        headers or {},
    )
