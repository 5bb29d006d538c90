"""Answers in the shape of the OpenAI Chat Completions API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prong.entry import Usage
from prong.testing.answer import Answer, event, pieces, reasoning_tokens
from prong.testing.answer_responses import error
from prong.testing.script import Call, Text, Think

__all__ = ["error", "stream", "usage_of", "whole"]

_REASONS = {
    "end": "stop",
    "calls": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
    "pause": "stop",
}


def usage_of(usage: Usage, reasoning: int, *, writes: bool = True) -> dict[str, Any]:
    """Put usage into the API's words; models that cache by themselves tell of no writes."""
    details: dict[str, Any] = {"audio_tokens": 0}
    if not usage.silent:
        details["cached_tokens"] = usage.read
    if writes:
        details["cache_write_tokens"] = usage.written
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }


def whole(answer: Answer) -> dict[str, Any]:
    """Make the completion that answers a request without a stream."""
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    refused = answer.reason == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused or not text else text,
        "refusal": text if refused else None,
    }
    thinking = "".join(part.text for part in answer.parts if isinstance(part, Think))
    if thinking:
        message["reasoning_content"] = thinking
    calls = [part for part in answer.parts if isinstance(part, Call)]
    if calls:
        message["tool_calls"] = [_call(one) for one in calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _REASONS[answer.reason],
    }
    return _base(answer, "chat.completion") | {"choices": [choice], "usage": _usage(answer)}


def stream(answer: Answer) -> Iterator[bytes]:
    """Make the chunks that answer a request with a stream."""
    base = _base(answer, "chat.completion.chunk")
    with_usage = answer.request.object("stream_options").get("include_usage") is True
    if with_usage:
        base["usage"] = None
    yield _chunk(base, {"role": "assistant", "content": "", "refusal": None})
    for delta in _deltas(answer):
        yield _chunk(base, delta)
    yield _chunk(base, {}, _REASONS[answer.reason])
    if with_usage:
        last: dict[str, Any] = {"choices": [], "usage": _usage(answer)}
        yield event(None, base | last)
    yield b"data: [DONE]\n\n"


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    number = 0
    for part in answer.parts:
        match part:
            case Text(text):
                name = "refusal" if answer.reason == "refusal" else "content"
                for piece in pieces(text, answer.piece):
                    yield {name: piece}
            case Think(text):
                for piece in pieces(text, answer.piece):
                    yield {"reasoning_content": piece}
            case Call():
                opening = _call(part)
                opening["function"] = {"name": part.name, "arguments": ""}
                yield {"tool_calls": [{"index": number, **opening}]}
                for piece in pieces(part.json, answer.piece):
                    yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}
                number += 1


def _call(part: Call) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.json}
    return {"id": part.id, "type": "function", "function": function}


def _chunk(base: dict[str, Any], delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return event(None, base | {"choices": [choice]})


def _base(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": answer.id,
        "object": kind,
        "created": answer.created,
        "model": answer.model,
        "service_tier": "default",
        "system_fingerprint": "fp_prong",
    }


def _usage(answer: Answer) -> dict[str, Any]:
    writes = answer.usage.written > 0 or "prompt_cache_options" in answer.request.fields
    return usage_of(answer.usage, reasoning_tokens(answer.parts), writes=writes)
