"""Results whose order belongs to the machine: Glob lists first what was changed last.

A checkout gives files other times than those that they had when a run was recorded. So the lines of
such a result stand in one order in the normal form of a request, in whatever dialect it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_BY_TIME = frozenset({"Glob"})


def in_order(body: bytes) -> bytes:
    """Sort the lines of results that come in the order of times; all else stays as it is."""
    if not any(name.encode() in body for name in _BY_TIME):
        return body
    try:
        read: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body
    objects = list(_objects(read))
    calls = {found[0] for one in objects if (found := _call(one)) and found[1] in _BY_TIME}
    for one in objects:
        if _answered(one) in calls:
            for said in _texts(one):
                ordered = "\n".join(sorted(said.split("\n")))
                body = body.replace(msgspec.json.encode(said), msgspec.json.encode(ordered))
    return body


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Give every object of a body."""
    if isinstance(value, dict):
        yield value  # pyright: ignore[reportUnknownVariableType] # foreign JSON
    inner: Any = value.values() if isinstance(value, dict) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # likewise
    if isinstance(value, dict | list):
        for one in inner:
            yield from _objects(one)


def _call(one: dict[str, Any]) -> tuple[str, str] | None:
    """Give the id and the name of a call, as the three dialects have them."""
    function: Any = one.get("function")
    name: Any = function.get("name") if isinstance(function, dict) else one.get("name")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # likewise
    named: Any = one.get("call_id") or one.get("id")
    return (named, name) if isinstance(named, str) and isinstance(name, str) else None


def _answered(one: dict[str, Any]) -> str:
    """Give the id of the call that an object is the result of; empty if it is none."""
    if one.get("type") == "function_call_output":
        return str(one.get("call_id"))
    return str(one.get("tool_use_id") or one.get("tool_call_id") or "")


def _texts(one: dict[str, Any]) -> Iterator[str]:
    said: Any = one.get("content", one.get("output"))
    for part in said if isinstance(said, list) else [said]:  # pyright: ignore[reportUnknownVariableType] # likewise
        text: Any = part.get("text") if isinstance(part, dict) else part  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # likewise
        if isinstance(text, str):
            yield text
