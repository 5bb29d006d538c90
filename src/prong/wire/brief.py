"""Tools described in a line each, for models that cannot read much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from prong.entry import ToolSpec
from prong.wire.raw import raw

_BYTES_PER_TOKEN = 3.5
_SHARE = 0.25
"""Share of the context that the full texts of the tools may take."""


def full_size(tools: tuple[ToolSpec, ...]) -> float:
    """Guess how many tokens the full texts of tools take."""
    return sum(len(one.description) + len(bytes(one.schema)) for one in tools) / _BYTES_PER_TOKEN


def readable(tools: tuple[ToolSpec, ...], context: int | None) -> tuple[ToolSpec, ...]:
    """Describe tools in a line each if their full texts leave too little of what a model reads."""
    if context is None or full_size(tools) <= context * _SHARE:
        return tools
    return tuple(
        msgspec.structs.replace(tool, description=sentence(tool), schema=raw(needed_schema(tool)))
        for tool in tools
    )


def needed_schema(tool: ToolSpec) -> dict[str, Any]:
    """Give a schema of what must be there: what may be left out, a small model fills in."""
    schema = schema_of(tool)
    names = needed(schema)
    kinds = {name: {"type": schema["properties"][name].get("type", "string")} for name in names}
    return {"type": "object", "properties": kinds, "required": names}


def schema_of(tool: ToolSpec) -> Mapping[str, Any]:
    """Read a tool's schema."""
    import json

    return cast("Mapping[str, Any]", json.loads(bytes(tool.schema) or b"{}"))


def needed(schema: Mapping[str, Any]) -> list[str]:
    """Name the arguments that a call must have."""
    return [name for name in schema.get("properties") or () if name in schema.get("required", ())]


def sentence(tool: ToolSpec) -> str:
    """Take the first sentence of a description."""
    return " ".join(tool.description.split()).partition(". ")[0].rstrip(".")[:120]
