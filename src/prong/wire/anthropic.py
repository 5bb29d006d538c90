"""Anthropic's Messages API: entries to bytes and back.

Consecutive entries of one role share one message, so an entry is a run of content blocks and the
glue opens and closes messages. Content is always an array of blocks: a text that flips between
string and block as the marks move would be another prompt to the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from prong.entry import (
    Call,
    CallId,
    Entry,
    Image,
    Part,
    Reply,
    Result,
    Results,
    Role,
    StopReason,
    Text,
    User,
)
from prong.wire.dialect import (
    BOUNDS,
    NO_MARK,
    Decoder,
    Encoded,
    HeadSpec,
    ResponseBounds,
    Tail,
    Ttl,
)
from prong.wire.fault import read_fault
from prong.wire.raw import EMPTY, arguments, dump, kept, list_of, members, merge, tidy

MAX_TOKENS: Final = 32_000
"""Asked for where the caller leaves it open; the API demands a number."""

_MARKABLE: Final = frozenset({"text", "image", "document", "tool_use", "tool_result"})
_KNOWN: Final = frozenset({"text", "thinking", "tool_use"})
_RUNS: Final = frozenset({"tool_use", "tool_result"})
_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_PLACEHOLDER: Final = b'{"type":"text","text":"%s"}' % EMPTY.encode()


class _Source(msgspec.Struct):
    media_type: str = ""
    data: str = ""


class _Block(msgspec.Struct):
    """The fields of any block that the plain view needs."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    source: _Source | None = None
    tool_use_id: str = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")
    is_error: bool = False


class _Kind(msgspec.Struct):
    type: str


_kind = msgspec.json.Decoder(_Kind).decode
_known = msgspec.json.Decoder(_Block).decode
_blocks = msgspec.json.Decoder(list[_Block]).decode


class Anthropic(msgspec.Struct, frozen=True):
    """The Messages API."""

    @property
    def name(self) -> str:
        """Name it."""
        return "anthropic"

    def path(self, model: str, *, stream: bool) -> str:
        """Say where requests go, below the base URL."""
        del model, stream
        return "/v1/messages"

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, ending inside the array of messages."""
        data = b'{"model":' + dump(spec.model)
        mark_at = NO_MARK
        tools = [
            dump({"name": t.name, "description": t.description, "input_schema": _schema(t.schema)})
            for t in spec.tools
        ]
        if tools:
            data += b',"tools":[' + b",".join(tools)
            mark_at = len(data) - 1
            data += b"]"
        system = [_text(text) for text in spec.system if text.strip()]
        if system:
            data += b',"system":[' + b",".join(system)
            mark_at = len(data) - 1
            data += b"]"
        fields: dict[str, Any] = {}
        if spec.thinking is not None:
            fields["thinking"] = _thinking(spec.thinking)
        if spec.effort is not None:
            fields["output_config"] = {"effort": spec.effort}
        if merge(fields, spec.extra):
            data += b"," + members(fields)
        positions = max(1, len(tools) + len(system))
        return Encoded(data + b',"messages":[', mark_at, positions)

    def encode(self, entry: Entry) -> Encoded:
        """Render one entry, without glue."""
        match entry:
            case User(parts):
                blocks = _parts(parts)
            case Results(results):
                blocks = [_result(result) for result in results]
            case Reply(dialect="anthropic"):
                blocks = list(entry.blocks)
            case Reply():
                blocks = _foreign(entry)
        blocks = blocks or [_PLACEHOLDER]
        mark_at, end = NO_MARK, -1
        kinds: list[str] = []
        for data in blocks:
            end += len(data) + 1
            block = _block(data)
            kinds.append(block.type)
            if block.type in _MARKABLE and (block.type != "text" or block.text.strip()):
                mark_at = end - 1
        return Encoded(b",".join(blocks), mark_at, _positions(kinds))

    def glue(self, before: Role | None, role: Role) -> bytes:
        """Give the bytes between two entries; entries of one role share a message."""
        if before == role:
            return b","
        opening = b'{"role":"%s","content":[' % role.encode()
        return opening if before is None else b"]}," + opening

    def close(self, role: Role | None) -> bytes:
        """Give the bytes that end the array of messages; without any entry it gets a constant."""
        if role is None:
            return self.glue(None, "user") + _PLACEHOLDER + b"]}]"
        return b"]}]"

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of messages to the final brace."""
        del spec
        fields: dict[str, Any] = {}
        if tail.prewarm:
            fields["max_tokens"] = 0
        else:
            fields["max_tokens"] = MAX_TOKENS if tail.max_tokens is None else tail.max_tokens
            if tail.stream:
                fields["stream"] = True
        if tail.previous_id is not None:
            fields["diagnostics"] = {"previous_message_id": tail.previous_id}
        return b"," + members(merge(fields, tail.extra)) + b"}"

    def mark(self, ttl: Ttl | None) -> bytes:
        """Give the bytes of a cache mark."""
        assert ttl in {None, "5m", "1h"}, f"Anthropic has no cache lifetime {ttl}"
        life = b"" if ttl is None else b',"ttl":"%s"' % ttl.encode()
        return b',"cache_control":{"type":"ephemeral"%s}' % life

    def read(self, role: Role, data: bytes) -> Entry:
        """Turn what `encode` made back into an entry; the kind of a user entry is lost."""
        array = b"[" + data + b"]"
        if role == "assistant":
            return reply_of([bytes(block) for block in list_of(array)])
        blocks = _blocks(array)
        if all(block.type == "tool_result" for block in blocks):
            return Results(tuple(_result_of(block) for block in blocks))
        return User(_parts_of(blocks))

    def decoder(self, bounds: ResponseBounds = BOUNDS) -> Decoder:
        """Make a decoder for one response."""
        from prong.wire.anthropic_stream import AnthropicStream

        return AnthropicStream(bounds)

    def fault(self, status: int, body: bytes) -> tuple[str, str]:
        """Read an error response: the provider's kind and message."""
        return read_fault(status, body)


def reply_of(blocks: list[bytes], *, stop: StopReason = "end") -> Reply:
    """View a reply's blocks plainly."""
    text: list[str] = []
    thinking: list[str] = []
    calls: list[Call] = []
    for data in blocks:
        block = _block(data)
        if block.type == "text":
            text.append(block.text)
        elif block.type == "thinking":
            thinking.append(block.thinking)
        elif block.type == "tool_use":
            calls.append(Call(CallId(block.id), block.name, bytes(block.input).decode()))
    if stop in {"end", "calls"}:
        stop = "calls" if calls else "end"
    return Reply(
        blocks=tuple(blocks),
        dialect="anthropic",
        text="".join(text),
        thinking="".join(thinking),
        calls=tuple(calls),
        stop=stop,
    )


def _block(data: bytes) -> _Block:
    """View one block; of a kind that is not known nothing but the kind is relied on."""
    kind = _kind(data).type
    return _known(data) if kind in _KNOWN else _Block(kind)


def sendable(blocks: list[bytes]) -> list[bytes]:
    """Drop what the API refuses to see again: blank texts, and thinking that led to nothing."""
    views = [(data, _block(data)) for data in blocks]
    some = [(data, block) for data, block in views if block.type != "text" or block.text.strip()]
    while some and some[-1][1].type in {"thinking", "redacted_thinking"}:
        some.pop()
    return [data for data, _ in some]


def wire_id(call_id: str) -> str:
    """Fit a call's id to the letters the API allows; its own ids stay as they are."""
    return _ID.sub("_", call_id) or "_"


def _positions(kinds: Iterable[str]) -> int:
    count, before = 0, ""
    for kind in kinds:
        if kind != before or kind not in _RUNS:
            count += 1
        before = kind
    return count


def _schema(schema: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(tidy(schema))


def _thinking(thinking: bool | int) -> dict[str, Any]:  # noqa: FBT001 - the value of a field
    if thinking is True:
        return {"type": "adaptive"}
    if thinking is False:
        return {"type": "disabled"}
    return {"type": "enabled", "budget_tokens": thinking}


def _text(text: str) -> bytes:
    return dump({"type": "text", "text": text})


def _parts(parts: Iterable[Part]) -> list[bytes]:
    return [
        _text(part.text)
        if isinstance(part, Text)
        else dump(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": part.media_type, "data": part.data},
            }
        )
        for part in kept(parts)
    ]


def _result(result: Result) -> bytes:
    fields: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id(result.call_id),
        "content": [msgspec.Raw(part) for part in _parts(result.parts)],
    }
    if result.failed:
        fields["is_error"] = True
    return dump(fields)


def _foreign(reply: Reply) -> list[bytes]:
    """Render another vendor's reply; its thinking means nothing here."""
    blocks = [_text(reply.text)] if reply.text.strip() else []
    for call in reply.calls:
        fields = {"type": "tool_use", "id": wire_id(call.id), "name": call.name}
        blocks.append(dump({**fields, "input": arguments(call.arguments)[1]}))
    return blocks


def _parts_of(blocks: Iterable[_Block]) -> tuple[Part, ...]:
    return tuple(
        Image(block.source.media_type, block.source.data) if block.source else Text(block.text)
        for block in blocks
    )


def _result_of(block: _Block) -> Result:
    parts = _parts_of(_blocks(block.content))
    return Result(CallId(block.tool_use_id), parts, failed=block.is_error)
