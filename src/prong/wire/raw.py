"""JSON as bytes: written once, compact, in the order given, never with a line break in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from prong.entry import Image, Part, Text

EMPTY: Final = "(empty)"
"""Stands for a text that would be blank: vendors refuse blank text blocks."""

Fields = dict[str, msgspec.Raw]
"""An object's fields in order, their values as they came."""

_encode = msgspec.json.Encoder().encode
fields_of = msgspec.json.Decoder(Fields).decode
"""Read an object's fields, leaving the values as bytes."""
list_of = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""Read an array's elements as bytes."""
_string = msgspec.json.Decoder(str).decode


def dump(value: Any) -> bytes:
    """Write a value; text that is not Unicode (lone surrogates) is repaired."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_repair(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def raw(value: Any) -> msgspec.Raw:
    """Write a value to be put into another."""
    return msgspec.Raw(dump(value))


def _repair(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            fields = cast("dict[Any, Any]", value)
            return {_repair(key): _repair(item) for key, item in fields.items()}
        case list() | tuple():
            return [_repair(item) for item in cast("Sequence[Any]", value)]
        case _:
            return value


def tidy(data: msgspec.Raw | bytes) -> bytes:
    """Give foreign JSON as one line; only whitespace between tokens can be a line break.

    Raises:
        ValueError: It is not UTF-8, so it could not be sent back.

    """
    line = bytes(data).replace(b"\n", b" ").replace(b"\r", b" ").strip()
    line.decode()
    return line


def string(data: msgspec.Raw | None) -> str:
    """Read a value that should be a string; anything else counts as empty."""
    return _string(data) if data is not None and bytes(data)[:1] == b'"' else ""


def present(data: msgspec.Raw | None) -> bool:
    """Say whether a field is there and not null."""
    return data is not None and bytes(data) not in {b"", b"null"}


def is_object(text: str) -> bool:
    """Say whether a text is a JSON object."""
    try:
        fields_of(text)
    except (ValueError, RecursionError):
        return False
    return True


def arguments(text: str) -> tuple[str, msgspec.Raw]:
    """Settle a call's argument text: what the call says, and an object that may be sent back."""
    if not text.strip():
        return "{}", msgspec.Raw(b"{}")
    if is_object(text):
        line = tidy(text.encode())
        return line.decode(), msgspec.Raw(line)
    return text, raw({"malformed": text})


def kept(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Drop blank texts; what would be nothing at all becomes a constant text."""
    some = tuple(p for p in parts if isinstance(p, Image) or p.text.strip())
    return some or (Text(EMPTY),)


def merge(fields: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Add further fields, which win; where both hold an object the members are joined."""
    for key, value in extra.items():
        old = fields.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            fields[key] = {**cast("dict[str, Any]", old), **cast("Mapping[str, Any]", value)}
        else:
            fields[key] = value
    return fields


def members(fields: Mapping[str, Any]) -> bytes:
    """Write the fields of an object without its braces."""
    return dump(fields)[1:-1]
