"""The JSON schema of a type, as the model sees it, and the way back from what the model writes.

The bytes are part of every prompt, so they must be the same for ever: keys come in one fixed order,
nested structs stand inline, and nothing is derived from docstrings or class names, which are for
people. An optional field is simply not required; that it also accepts null is not advertised, nor
is a default of nothing (false, 0, an empty text or list).

Types are those that msgspec knows (structs, dataclasses, typed dicts, what Python has), and models
of pydantic, which are asked for their own schema and check themselves; that package need not be
installed.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, cast

import msgspec

ORDER = (
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "prefixItems",
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

_ONE = frozenset({"items", "additionalProperties"})
_SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keys with other schemas below."""
_LEFT_OUT = frozenset({"title", "$defs", "discriminator"})
"""Names for people, and references to what stands inline."""


def schema(kind: Any) -> bytes:
    """Encode the JSON schema of a type.

    Raises TypeError if there is none: the type is not of JSON, or it holds itself.
    """
    (top,), definitions = msgspec.json.schema_components(
        [kind], schema_hook=_model_schema, ref_template="{name}"
    )
    return msgspec.json.encode(_inline(top, definitions, ()))


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Make what reads a type from JSON, and checks it; raises TypeError as `schema` does."""
    return msgspec.json.Decoder(kind, dec_hook=_read_model)


def to_json(value: object) -> bytes:
    """Write any value of such a type as JSON; raises TypeError if it is of none."""
    return msgspec.json.encode(value, enc_hook=_write_model)


class _PydanticModel(Protocol):
    """What pydantic's models have."""

    @classmethod
    def model_json_schema(cls, *, ref_template: str) -> Json: ...

    @classmethod
    def model_validate(cls, obj: object) -> object: ...

    def model_dump(self, *, mode: str) -> object: ...


def _is_model(kind: object) -> TypeGuard[type[_PydanticModel]]:
    """Whether a type is a model of pydantic; that package is not imported to find out."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema")


def _model_schema(kind: type) -> Json:
    if not _is_model(kind):
        raise NotImplementedError
    return kind.model_json_schema(ref_template="{model}")


def _read_model(kind: type, value: object) -> object:
    if not _is_model(kind):
        raise NotImplementedError
    return kind.model_validate(value)


def _write_model(value: object) -> object:
    if not _is_model(type(value)):
        raise TypeError(f"JSON cannot say what is of type {type(value).__name__}")
    return cast("_PydanticModel", value).model_dump(mode="json")


def _inline(node: Json, definitions: dict[str, Json], within: tuple[str, ...]) -> Json:
    definitions = {**definitions, **node.get("$defs", {})}
    if (reference := node.get("$ref")) is not None:
        if reference in within:
            raise TypeError(f"{reference} holds itself, which a flat schema cannot say")
        # A struct's own description is its docstring; only what its user says of it counts.
        named = {k: v for k, v in definitions[reference].items() if k != "description"}
        node = named | {k: v for k, v in node.items() if k != "$ref"}
        return _inline(node, definitions, (*within, reference))
    node = {k: v for k, v in node.items() if k not in _LEFT_OUT}
    if "type" not in node and all(isinstance(v, str) for v in node.get("enum", [0])):
        # Implied by the values, but some servers build their grammar from the type alone.
        node["type"] = "string"
    for key, below in node.items():
        if key in _ONE and isinstance(below, dict):
            node[key] = _inline(cast("Json", below), definitions, within)
        elif key in _SEVERAL:
            node[key] = [_inline(each, definitions, within) for each in below]
    if "properties" in node:
        required = node.get("required") or ()
        node["properties"] = {
            k: _inline(v if k in required else _without_null(v), definitions, within)
            for k, v in cast("dict[str, Json]", node["properties"]).items()
        }
        if not required:
            node.pop("required", None)
    return {k: node[k] for k in sorted(node, key=_rank)}


def _without_null(node: Json) -> Json:
    """Turn "this or null" into "this", and leave out a default of nothing.

    Only for what may be left out: elsewhere null is the one way to say that there is nothing.
    """
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
