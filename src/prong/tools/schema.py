"""The JSON schema of a tool's arguments, as the model sees it.

The bytes are part of every prompt, so they must be the same for ever: keys come in one fixed order,
nested structs stand inline, and nothing is derived from docstrings or class names, which are for
people. An optional field is simply not required; that it also accepts null is not advertised, nor
is a default of nothing (false, 0, an empty text or list).
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

ORDER = (
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "items",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "default",
    "properties",
    "required",
    "additionalProperties",
)
"""Keys in the order they are written; any other follows in alphabetical order."""

Json = dict[str, Any]


def schema(arguments: type[msgspec.Struct]) -> bytes:
    """Encode the JSON schema of an argument type."""
    (top,), definitions = msgspec.json.schema_components([arguments], ref_template="{name}")
    return msgspec.json.encode(_inline(top, definitions, ()))


def _inline(node: Json, definitions: dict[str, Json], within: tuple[str, ...]) -> Json:
    reference = node.get("$ref")
    if reference is not None:
        assert reference not in within, f"{reference} holds itself; a flat schema cannot"
        within = (*within, reference)
        # A struct's own description is its docstring; only what its user says of it counts.
        named = {k: v for k, v in definitions[reference].items() if k != "description"}
        node = named | {k: v for k, v in node.items() if k != "$ref"}
    node = _without_null({k: v for k, v in node.items() if k != "title"})
    if "$ref" in node:
        return _inline(node, definitions, within)
    if "type" not in node and all(isinstance(v, str) for v in node.get("enum", [0])):
        # Implied by the values, but some servers build their grammar from the type alone.
        node["type"] = "string"
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _inline(node[key], definitions, within)
    if "anyOf" in node:
        node["anyOf"] = [_inline(each, definitions, within) for each in node["anyOf"]]
    if "properties" in node:
        properties = cast("dict[str, Json]", node["properties"])
        node["properties"] = {k: _inline(v, definitions, within) for k, v in properties.items()}
        if not node.get("required"):
            node.pop("required", None)
    return {k: node[k] for k in sorted(node, key=_rank)}


def _without_null(node: Json) -> Json:
    """Turn "this or null" into "this", and leave out a default of nothing."""
    if "anyOf" in node:
        rest = [each for each in node["anyOf"] if each != {"type": "null"}]
        node = {**node, "anyOf": rest}
        if len(rest) == 1:
            del node["anyOf"]
            node = {**rest[0], **node}
    # That nothing is the default of what may be left out goes without saying.
    if "default" in node and not node["default"]:
        del node["default"]
    return node


def _rank(key: str) -> tuple[int, str]:
    return (ORDER.index(key) if key in ORDER else len(ORDER), key)
