"""Our bodies against the vendors' own types: no field that they do not know, none of another shape."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from prong.entry import (
    Call,
    CallId,
    Entry,
    Image,
    Reply,
    Result,
    Results,
    Text,
    ToolSpec,
    User,
    role_of,
)
from prong.wire import Anthropic, Chat, Dialect, HeadSpec, Responses, Tail

SPEC = HeadSpec(
    model="model-1",
    system=("You are Prong.",),
    tools=(ToolSpec("Read", "Read a file.", msgspec.Raw(b'{"type":"object"}')),),
    effort="high",
    thinking=True,
    cache_key="family-1",
)
CALL = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
NATIVE = {
    "anthropic": (
        b'{"type":"thinking","thinking":"hm","signature":"c2ln"}',
        b'{"type":"text","text":"Hi"}',
        b'{"type":"tool_use","id":"c1","name":"Read","input":{"a":1}}',
    ),
    "responses": (
        b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}',
        b'{"type":"function_call","call_id":"c1","name":"Read","arguments":"{}"}',
    ),
    "chat": (msgspec.json.encode({"role": "assistant", "content": None, "tool_calls": [CALL]}),),
}


def sent(vendor: Dialect, tail: Tail) -> bytes:
    entries: tuple[Entry, ...] = (
        User((Text("Look."), Image("image/png", "AA=="))),
        Reply(NATIVE[vendor.name], vendor.name),
        Results((Result(CallId("c1"), (Text("one"), Image("image/png", "AA==")), failed=True),)),
        Reply((), "elsewhere", text="Well.", calls=(Call(CallId("c2"), "Read", "{"),)),
        Results((Result(CallId("c2"), (Text("two"),)),)),
        User((Text("Go on."),)),
    )
    data, before = vendor.head(SPEC).data, None
    for entry in entries:
        encoded = vendor.encode(entry)
        at = encoded.mark_at if encoded.mark_at >= 0 else len(encoded.data)
        mark = vendor.mark(None) if encoded.mark_at >= 0 else b""
        data += vendor.glue(before, role_of(entry)) + encoded.data[:at] + mark + encoded.data[at:]
        before = role_of(entry)
    return data + vendor.close(before) + vendor.tail(tail)


def drained(value: Any, raw: Any) -> Any:
    """Walk through what was validated lazily; where text was sent the types allow text."""
    if isinstance(raw, dict):
        return {key: drained(value[key], raw[key]) for key in raw if key in value}
    if isinstance(raw, list):
        return [drained(item, twin) for item, twin in zip(value, raw, strict=True)]
    return raw


def params(vendor: Dialect) -> Any:
    """Import the vendor's types here: its package takes seconds."""
    match vendor.name:
        case "anthropic":
            from anthropic.types import message_create_params

            return message_create_params.MessageCreateParamsStreaming
        case "responses":
            from openai.types.responses import response_create_params

            return response_create_params.ResponseCreateParamsStreaming
        case _:
            from openai.types.chat import completion_create_params

            return completion_create_params.CompletionCreateParamsStreaming


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    "vendor",
    [Anthropic(), Responses(), Responses(explicit=False), Chat()],
    ids=["anthropic", "responses", "responses-plain", "chat"],
)
def test_bodies_fit_the_vendors_types(vendor: Dialect):
    """Every field of a body is one the vendor's client knows, with a value it would take."""
    body = sent(vendor, Tail(max_tokens=9, previous_id="id_1"))
    raw = json.loads(body)
    assert drained(TypeAdapter(params(vendor)).validate_json(body), raw) == raw
