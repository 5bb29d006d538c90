"""Answers in the shape of the Gemini API."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from prong.entry import Usage
from prong.testing.answer import Answer, event, pieces, reasoning_tokens
from prong.testing.script import Call, Failure, Part, Text, Think

_REASONS = {
    "end": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
    "pause": "OTHER",
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def signature_of(call: bytes) -> str:
    """Sign a call: its bytes must come back as they were."""
    return b64encode(blake2b(call, digest_size=18).digest()).decode()


def usage_of(usage: Usage, reasoning: int) -> dict[str, Any]:
    """Put usage into the API's words; what was not read is not told of."""
    told = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - reasoning,
        "totalTokenCount": usage.input + usage.output,
    }
    if usage.read:
        told["cachedContentTokenCount"] = usage.read
    if reasoning:
        told["thoughtsTokenCount"] = reasoning
    return told


def whole(answer: Answer) -> dict[str, Any]:
    """Make the response that answers a request without a stream."""
    parts = [one for part in _numbered(answer) for one in part]
    return _chunk(answer, parts, reason=_REASONS[answer.reason])


def stream(answer: Answer) -> Iterator[bytes]:
    """Make the events that answer a request with a stream."""
    yield event(None, _chunk(answer, [{"text": ""}]))
    for parts in _numbered(answer, answer.piece):
        for one in parts:
            yield event(None, _chunk(answer, [one]))
    yield event(None, _chunk(answer, [{"text": ""}], reason=_REASONS[answer.reason]))


def error(failure: Failure, request_id: str) -> dict[str, Any]:
    """Make the body of an error."""
    del request_id
    status = 503 if failure.status == 200 else failure.status
    told = {"code": status, "message": failure.message, "status": _STATUS.get(status, "UNKNOWN")}
    return {"error": told}


def _numbered(answer: Answer, size: int | None = None) -> Iterator[list[dict[str, Any]]]:
    """Give each part in pieces; the first call carries the signature for all of them."""
    called = False
    for part in answer.parts:
        yield _parts(part, size, signed=not called)
        called = called or isinstance(part, Call)


def _parts(part: Part, size: int | None, *, signed: bool) -> list[dict[str, Any]]:
    match part:
        case Text(text):
            return [{"text": piece} for piece in (pieces(text, size) if size else [text])]
        case Think(text):
            each = pieces(text, size) if size else [text]
            return [{"text": piece, "thought": True} for piece in each]
        case Call():
            try:
                given = msgspec.json.decode(part.json, type=dict[str, Any])
            except msgspec.DecodeError:
                given = {}
            call = msgspec.json.encode({"name": part.name, "args": given, "id": part.id})
            made: dict[str, Any] = {"functionCall": msgspec.Raw(call)}
            return [{**made, "thoughtSignature": signature_of(call)} if signed else made]


def _chunk(answer: Answer, parts: list[Any], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": usage_of(answer.usage, reasoning_tokens(answer.parts)),
        "modelVersion": answer.model,
        "responseId": answer.id,
    }
