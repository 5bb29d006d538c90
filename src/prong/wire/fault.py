"""What servers say when they refuse or break: the vendors' JSON, other people's JSON, and HTML."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from prong.wire.dialect import Fault

_PASSING: Final = frozenset(
    {
        "api_error",
        "gateway_timeout_error",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "slow_down",
        "timeout",
        "timeout_error",
        "vector_store_timeout",
    }
)
_PASSING_STATUS: Final = frozenset({408, 409, 425, 429})
_LONGEST: Final = 200
_UNEXPLAINED: Final = "no explanation was given"


def read_fault(status: int, body: bytes) -> tuple[str, str]:
    """Read an error response: the provider's kind and message."""
    fallback = f"http_{status}"
    try:
        value: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return fallback, _prose(body) or _UNEXPLAINED
    kind, message, _ = _explain(value)
    return kind or fallback, message or _prose(body) or _UNEXPLAINED


def stream_fault(error: msgspec.Raw) -> Fault:
    """Turn an error that came inside a response into a fault."""
    try:
        kind, message, code = _explain(msgspec.json.decode(error))
    except (ValueError, RecursionError):
        kind, message, code = "", _prose(bytes(error)), None
    passing = kind in _PASSING or (
        code is not None
        and (code >= 500 or code in _PASSING_STATUS)
        and kind != "insufficient_quota"
    )
    return Fault(kind or "error", message or _UNEXPLAINED, retryable=passing)


def foreign_fault(body: bytes, lacks: str) -> Fault:
    """Turn a whole response that lacks what makes it a reply into a fault; the next is no other."""
    found = stream_fault(msgspec.Raw(body))
    if found.message != _UNEXPLAINED:
        return found
    why = f"the response has no {lacks}, so it is none of this API"
    return Fault("malformed", why, retryable=False)


def _explain(value: Any) -> tuple[str, str, int | None]:
    """Find kind, message and numeric code in an error object, however deep it is wrapped."""
    if isinstance(value, str):
        return "", value, None
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return _explain(items[0]) if items else ("", "", None)
    if not isinstance(value, dict):
        return "", "", None
    fields = cast("dict[str, Any]", value)
    inner = fields.get("error")
    if isinstance(inner, dict | str) and inner:
        return _explain(cast("Any", inner))
    code = fields.get("code")
    message = fields.get("message") or fields.get("detail") or ""
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode()[:_LONGEST]
    number = code if isinstance(code, int) else None
    # OpenAI's code says more than its type ("context_length_exceeded", not "invalid_request").
    names = (code, fields.get("type"))
    kind = next((name for name in names if isinstance(name, str) and name), "")
    return kind, message, number


def _prose(body: bytes) -> str:
    import re

    text = body[:20_000].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", " ", text)
    text = re.sub(r"<[^>]*>", " ", text)
    return " ".join(text.split())[:_LONGEST]
