"""Answers in the shape of the OpenAI Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prong.entry import Usage
from prong.testing.answer import Answer, event, pieces, reasoning_tokens
from prong.testing.script import Call, Failure, Part, Text, Think
from prong.testing.thought import sign

_Event = tuple[str, dict[str, Any]]


def usage_of(usage: Usage, reasoning: int) -> dict[str, Any]:
    """Put usage into the API's words."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.read,
            "cache_write_tokens": usage.written,
            "cache_write_tokens_details": {
                "ttl_30m_tokens": usage.written_30m,
                "ttl_12h_tokens": usage.written_12h,
            },
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.input + usage.output,
    }


def whole(answer: Answer) -> dict[str, Any]:
    """Make the response that answers a request without a stream."""
    incomplete = _incomplete(answer)
    return _response(answer) | {
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "completed_at": float(answer.created),
        "output": [_item(answer, i, part) for i, part in enumerate(answer.parts)],
        "usage": usage_of(answer.usage, reasoning_tokens(answer.parts)),
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """Make the events that answer a request with a stream."""
    for number, (name, data) in enumerate(_events(answer)):
        yield event(name, {"type": name, "sequence_number": number, **data})


def error(failure: Failure, request_id: str) -> dict[str, Any]:  # noqa: ARG001 # one signature for all APIs
    """Make the body of an error."""
    code = failure.code or ("rate_limit_exceeded" if failure.status == 429 else None)
    told = {"message": failure.message, "type": failure.kind, "param": None, "code": code}
    return {"error": told}


def _events(answer: Answer) -> Iterator[_Event]:
    begun = _response(answer)
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, part in enumerate(answer.parts):
        item = _item(answer, index, part)
        hollow: dict[str, Any] = {**item, "status": "in_progress"}
        if isinstance(part, Call):
            hollow["arguments"] = ""
        elif isinstance(part, Think):
            hollow = dict(item)
            hollow["summary"] = []
        else:
            hollow["content"] = []
        yield "response.output_item.added", {"output_index": index, "item": hollow}
        where = {"item_id": item["id"], "output_index": index}
        yield from _inside(answer, part, item, where)
        yield "response.output_item.done", {"output_index": index, "item": item}
    last = "response.incomplete" if _incomplete(answer) else "response.completed"
    yield last, {"response": whole(answer)}


def _inside(
    answer: Answer, part: Part, item: dict[str, Any], where: dict[str, Any]
) -> Iterator[_Event]:
    match part:
        case Call():
            for piece in pieces(part.json, answer.piece):
                yield "response.function_call_arguments.delta", {**where, "delta": piece}
            done = {**where, "name": part.name, "arguments": part.json}
            yield "response.function_call_arguments.done", done
        case Think(text):
            where = {**where, "summary_index": 0}
            empty = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", {**where, "part": empty}
            for piece in pieces(text, answer.piece):
                yield "response.reasoning_summary_text.delta", {**where, "delta": piece}
            yield "response.reasoning_summary_text.done", {**where, "text": text}
            yield "response.reasoning_summary_part.done", {**where, "part": item["summary"][0]}
        case Text(text):
            where = {**where, "content_index": 0}
            filled = item["content"][0]
            kind = "refusal" if filled["type"] == "refusal" else "output_text"
            field = "refusal" if kind == "refusal" else "text"
            extra: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
            yield "response.content_part.added", {**where, "part": {**filled, field: ""}}
            for piece in pieces(text, answer.piece):
                yield f"response.{kind}.delta", {**where, "delta": piece, **extra}
            yield f"response.{kind}.done", {**where, field: text, **extra}
            yield "response.content_part.done", {**where, "part": filled}


def _incomplete(answer: Answer) -> str | None:
    if answer.prewarm:
        return None
    if answer.reason == "length":
        return "max_output_tokens"
    return "content_filter" if answer.reason == "refusal" and not answer.parts else None


def _item(answer: Answer, index: int, part: Part) -> dict[str, Any]:
    name = f"{answer.id.removeprefix('resp_')}_{index}"
    is_last = index == len(answer.parts) - 1
    status = "incomplete" if is_last and answer.reason == "length" else "completed"
    match part:
        case Text(text):
            content: dict[str, Any] = {
                "type": "output_text",
                "text": text,
                "annotations": [],
                "logprobs": [],
            }
            if answer.reason == "refusal":
                content = {"type": "refusal", "refusal": text}
            return {
                "id": f"msg_{name}",
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": [content],
            }
        case Think(text):
            item: dict[str, Any] = {
                "id": f"rs_{name}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
            }
            if b'"reasoning.encrypted_content"' in bytes(answer.request.fields.get("include", b"")):
                item["encrypted_content"] = sign(text, answer.prefix)
            return item
        case Call():
            return {
                "id": f"fc_{name}",
                "type": "function_call",
                "call_id": part.id,
                "name": part.name,
                "arguments": part.json,
                "status": status,
            }


def _response(answer: Answer) -> dict[str, Any]:
    request = answer.request
    options = request.object("prompt_cache_options")
    response: dict[str, Any] = {
        "id": answer.id,
        "object": "response",
        "created_at": float(answer.created),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.field("instructions"),
        "max_output_tokens": request.field("max_output_tokens"),
        "model": request.model,
        "output": [],
        "parallel_tool_calls": request.field("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": request.field("prompt_cache_key"),
        "reasoning": request.field("reasoning"),
        "service_tier": "default",
        "store": request.field("store", True),
        "temperature": 1.0,
        "text": request.field("text", {"format": {"type": "text"}}),
        "tool_choice": request.field("tool_choice", "auto"),
        # The real thing repeats the tools; a test has no use for them, and they are long.
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }
    if options:
        response["prompt_cache_options"] = {"mode": "implicit", "ttl": "30m"} | {
            name: value for name, value in options.items() if name != "prewarm"
        }
    if answer.diagnosis is not None:
        response["prompt_cache_diagnostics"] = answer.diagnosis
    return response
