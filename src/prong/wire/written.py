"""Calls that a model wrote as text instead of making them.

Small models behind compatible servers answer with `{"name": …, "arguments": …}`, in a fence, in
tags or with their braces doubled. If that is all a reply says, and every name is a tool that was
offered, it is taken for what it means. The message keeps its text as it came, and the calls are put
beside it: that is what the next request sends.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, cast

import msgspec

from prong.entry import Reply
from prong.wire.chat import reply_of
from prong.wire.raw import dump, fields_of, raw, tidy

_WRAPPERS = (
    ("```json", "```"),
    ("```tool_call", "```"),
    ("```", "```"),
    ("<tool_call>", "</tool_call>"),
)
_KEYS = ("arguments", "parameters")
_LONGEST = 200_000


def mended(reply: Reply, names: Container[str], call_id: str) -> Reply:
    """Give a reply its calls if its whole text is calls of those tools; else as it is."""
    if reply.calls or reply.dialect != "chat" or reply.stop != "end" or len(reply.blocks) != 1:
        return reply
    found = written(reply.text, names)
    if not found:
        return reply
    fields = fields_of(bytes(reply.blocks[0]))
    fields["tool_calls"] = raw(
        [
            {
                "id": f"{call_id}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for number, (name, arguments) in enumerate(found)
        ]
    )
    return reply_of(tidy(dump(fields)), stop="calls")


def written(text: str, names: Container[str]) -> list[tuple[str, str]]:
    """Read a text as calls: names, and arguments as JSON; nothing if it is anything else."""
    if len(text) > _LONGEST or '"name"' not in text:
        return []
    value = _parse(_unwrapped(text.strip()))
    each = cast("list[Any]", value) if isinstance(value, list) else [value]
    found = [_call(one, names) for one in each]
    return [one for one in found if one is not None] if all(found) else []


def _unwrapped(text: str) -> str:
    for before, after in _WRAPPERS:
        if text.startswith(before):
            return text.removeprefix(before).removesuffix(after).strip()
    return text


def _parse(text: str) -> Any:
    """Read JSON, also if a template has doubled its braces: the outer ones, or all."""
    single = text.replace("{{", "{").replace("}}", "}")
    for candidate in (text, text[1:-1], single):
        try:
            return msgspec.json.decode(candidate)
        except (ValueError, RecursionError):
            continue
    return None


def _call(value: Any, names: Container[str]) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    name = fields.get("name")
    key = next((key for key in _KEYS if key in fields), "")
    if not isinstance(name, str) or name not in names or fields.keys() - {"name", "id", key}:
        return None
    given = fields.get(key, {})
    if isinstance(given, str):
        given = _parse(given)
    return (name, dump(given).decode()) if isinstance(given, dict) else None
