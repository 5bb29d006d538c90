"""Answers in the shape of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from prong.entry import Usage
from prong.testing.answer import Answer, event, pieces
from prong.testing.script import Call, Failure, Part, Text, Think
from prong.testing.thought import sign

_REASONS = {
    "end": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Put usage into the API's words."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written_5m,
            "ephemeral_1h_input_tokens": usage.written_1h,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def whole(answer: Answer) -> dict[str, Any]:
    """Make the message that answers a request without a stream."""
    return _message(answer) | {
        "content": [_block(part, answer.prefix) for part in answer.parts],
        "stop_reason": _REASONS[answer.reason],
        "stop_details": _details(answer),
        "usage": usage_of(answer.usage),
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """Make the events that answer a request with a stream."""
    # The first event tells the input; one token of output is what the real thing shows there.
    begun = msgspec.structs.replace(answer.usage, output=min(1, answer.usage.output))
    message = _message(answer) | {"usage": usage_of(begun)}
    yield event("message_start", {"type": "message_start", "message": message})
    yield event("ping", {"type": "ping"})
    for index, part in enumerate(answer.parts):
        yield _start(index, part)
        for delta in _deltas(part, answer):
            data = {"type": "content_block_delta", "index": index, "delta": delta}
            yield event("content_block_delta", data)
        yield event("content_block_stop", {"type": "content_block_stop", "index": index})
    delta = {
        "stop_reason": _REASONS[answer.reason],
        "stop_sequence": None,
        "stop_details": _details(answer),
    }
    usage = {
        "input_tokens": answer.usage.uncached,
        "cache_creation_input_tokens": answer.usage.written,
        "cache_read_input_tokens": answer.usage.read,
        "output_tokens": answer.usage.output,
    }
    yield event("message_delta", {"type": "message_delta", "delta": delta, "usage": usage})
    yield event("message_stop", {"type": "message_stop"})


def error(failure: Failure, request_id: str) -> dict[str, Any]:
    """Make the body of an error."""
    return {
        "type": "error",
        "error": {"type": failure.kind, "message": failure.message},
        "request_id": request_id,
    }


def _message(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_of(answer.usage),
    }
    if "diagnostics" in answer.request.fields:
        message["diagnostics"] = answer.diagnosis
    return message


def _details(answer: Answer) -> dict[str, Any] | None:
    if answer.reason != "refusal":
        return None
    return {"type": "refusal", "category": None, "explanation": "The scripted model refuses."}


def _block(part: Part, prefix: bytes) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": sign(text, prefix)}
        case Call():
            try:
                given = msgspec.json.decode(part.json, type=dict[str, Any])
            except msgspec.DecodeError:
                given = {}
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}


def _start(index: int, part: Part) -> bytes:
    match part:
        case Text():
            block: dict[str, Any] = {"type": "text", "text": ""}
        case Think():
            block = {"type": "thinking", "thinking": "", "signature": ""}
        case Call():
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    data = {"type": "content_block_start", "index": index, "content_block": block}
    return event("content_block_start", data)


def _deltas(part: Part, answer: Answer) -> Iterator[dict[str, str]]:
    match part:
        case Text(text):
            for piece in pieces(text, answer.piece):
                yield {"type": "text_delta", "text": piece}
        case Think(text):
            for piece in pieces(text, answer.piece):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": sign(text, answer.prefix)}
        case Call():
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in pieces(part.json, answer.piece):
                yield {"type": "input_json_delta", "partial_json": piece}
