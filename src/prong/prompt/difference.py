"""Where two requests part: the section, the item and the byte of their first difference.

Works on whole bodies, so that requests captured elsewhere can be compared too. Marks do not count:
they are no part of what a cache is keyed by.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Section: TypeAlias = Literal["model", "tools", "system", "messages", "parameters"]

_ORDER: tuple[Section, ...] = ("model", "tools", "system", "parameters", "messages")
_MARKS = ("cache_control", "prompt_cache_breakpoint")
_MESSAGES = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions", "systemInstruction")
_PARTS = ("output", "parts", "content")
_IGNORED = frozenset(
    {
        "stream",
        "stream_options",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "metadata",
        "diagnostics",
        "prompt_cache_options",
        "cache_control",
        "generationConfig",
    }
)
_Object: TypeAlias = dict[str, msgspec.Raw]
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Difference(msgspec.Struct, frozen=True):
    """The first place where two requests differ."""

    section: Section
    path: str
    """Where it is, such as `tools[17].description` or `messages[4].content[0].text`."""
    byte: int
    """Offset inside the value at that path; -1 where one side has no such value."""
    left: str
    """What stands there in the first request, from a little before the difference."""
    right: str
    shared_items: int
    """Tools, system texts and message blocks before the difference, in the cache's order."""
    shared_bytes: int
    """How many bytes those items have."""


class _Segment(msgspec.Struct, frozen=True):
    section: Section
    path: str
    data: bytes
    shell: bytes = b""
    """What a block's message says besides its blocks, such as the role."""

    @property
    def size(self) -> int:
        return len(self.data) + len(self.shell)


def first_difference(left: bytes, right: bytes) -> Difference | None:
    """Compare two request bodies in the order in which a cache reads them.

    Returns None when neither has anything the other has not, marks and delivery options aside.
    """
    a, b = _items(left), _items(right)
    shared = 0
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return _describe(x, y, index, shared)
        shared += x.size
    if len(a) == len(b):
        return None
    longer, index = (a, len(b)) if len(a) > len(b) else (b, len(a))
    more = longer[index]
    texts = (_short(more.data), "") if longer is a else ("", _short(more.data))
    return Difference(more.section, more.path, -1, *texts, index, shared)


def prompt_bytes(body: bytes) -> int:
    """Count the bytes of what a cache is keyed by, in the measure of `shared_bytes`."""
    return sum(item.size for item in _items(body))


def _items(body: bytes) -> list[_Segment]:
    fields = _decode_object(body)
    items = [
        _Segment("model", name, bytes(fields[name]))
        for name in ("model", "speed")
        if name in fields
    ]
    rest = [
        name
        for name in sorted(fields)
        if name not in {"model", "speed", "tools", *_SYSTEM, *_MESSAGES, *_IGNORED}
    ]
    for number, tool in enumerate(_elements(fields.get("tools"))):
        items.append(_Segment("tools", f"tools[{number}]", _unmarked(tool)))
    for name in _SYSTEM:
        if name in fields:
            for number, text in enumerate(_elements(fields[name])):
                items.append(_Segment("system", f"{name}[{number}]", _unmarked(text)))
    items += [_Segment("parameters", name, bytes(fields[name])) for name in rest]
    for name in _MESSAGES:
        for number, message in enumerate(_elements(fields.get(name))):
            items += _blocks(f"{name}[{number}]", message)
    return items


def _blocks(path: str, message: msgspec.Raw) -> list[_Segment]:
    if not bytes(message).startswith(b"{"):
        return [_Segment("messages", path, bytes(message))]
    fields = _decode_object(message)
    key = next((name for name in _PARTS if name in fields), "content")
    content = bytes(fields.get(key, b""))
    if not content.startswith(b"["):
        return [_Segment("messages", path, _unmarked(message))]
    shell = b",".join(
        msgspec.json.encode(name) + b":" + bytes(value)
        for name, value in fields.items()
        if name != key
    )
    return [
        _Segment("messages", f"{path}.{key}[{number}]", _unmarked(block), b"{%s}" % shell)
        for number, block in enumerate(_decode_list(content))
    ]


def _elements(value: msgspec.Raw | None) -> list[msgspec.Raw]:
    if value is None:
        return []
    return _decode_list(value) if bytes(value).startswith(b"[") else [value]


def _unmarked(value: msgspec.Raw) -> bytes:
    data = bytes(value)
    if not data.startswith(b"{") or not any(mark.encode() in data for mark in _MARKS):
        return data
    fields = _decode_object(data)
    if not any(mark in fields for mark in _MARKS):
        return data
    kept = (
        msgspec.json.encode(key) + b":" + bytes(item)
        for key, item in fields.items()
        if key not in _MARKS
    )
    return b"{" + b",".join(kept) + b"}"


def _describe(x: _Segment, y: _Segment, index: int, shared: int) -> Difference:
    if x.section != y.section:
        # One side has an item more in the earlier section, where the other has none.
        more = min(x, y, key=lambda item: _ORDER.index(item.section))
        texts = (_short(x.data), "") if more is x else ("", _short(y.data))
        return Difference(more.section, more.path, -1, *texts, index, shared)
    if x.path != y.path:
        left, right = f"{x.path}: {_short(x.data)}", f"{y.path}: {_short(y.data)}"
        return Difference(x.section, x.path, -1, left, right, index, shared)
    if x.shell != y.shell:
        path, left, right = _descend(x.path.rpartition(".")[0], x.shell, y.shell)
    else:
        path, left, right = _descend(x.path, x.data, y.data)
    byte = next(
        (i for i, (p, q) in enumerate(zip(left, right, strict=False)) if p != q),
        min(len(left), len(right)),
    )
    start = max(0, byte - 20)
    return Difference(
        x.section, path, byte, _short(left[start:]), _short(right[start:]), index, shared
    )


def _descend(path: str, left: bytes, right: bytes) -> tuple[str, bytes, bytes]:
    """Follow the first differing member down to where the two values differ themselves."""
    if left.startswith(b"{") and right.startswith(b"{"):
        a, b = _decode_object(left), _decode_object(right)
        for key, value in a.items():
            if key not in b or bytes(value) != bytes(b[key]):
                return _descend(f"{path}.{key}", bytes(value), bytes(b.get(key, b"")))
    if left.startswith(b"[") and right.startswith(b"["):
        for number, (p, q) in enumerate(zip(_decode_list(left), _decode_list(right), strict=False)):
            if bytes(p) != bytes(q):
                return _descend(f"{path}[{number}]", bytes(p), bytes(q))
    return path, left, right


def _short(data: bytes, limit: int = 80) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= limit else text[: limit - 1] + "…"
