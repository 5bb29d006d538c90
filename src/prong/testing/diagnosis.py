"""Cache diagnostics: where a request's structure parts from an earlier one's, cached or not."""

from __future__ import annotations

from typing import Any

from prong.testing.cache import chain_of
from prong.testing.request import Request, Section

_OPENAI_REASONS = {
    "model": "model_changed",
    "prompt_cache_key": "prompt_cache_key_changed",
    "text_format": "text_format_changed",
    "reasoning_effort": "reasoning_effort_changed",
    "verbosity": "verbosity_changed",
    "service_tier": "service_tier_changed",
}


def anthropic_diagnosis(previous: Request | None, request: Request) -> dict[str, Any] | None:
    """Give the `diagnostics` of an answer; None means that nothing parts the two."""
    if previous is None:
        return _reason("previous_message_not_found")
    old, new = _params(previous), _params(request)
    if old.get("model") != new.get("model") or old.get("speed") != new.get("speed"):
        return _reason("model_changed", request.tokens)
    section, shared = _parting(previous, request)
    if section is not None and section != "messages":
        return _reason(f"{section}_changed", request.tokens - shared)
    if old != new:
        return _reason("unavailable")
    if section == "messages":
        return _reason("messages_changed", request.tokens - shared)
    return None


def openai_diagnosis(
    previous: Request | None, request: Request, *, exact: bool
) -> dict[str, Any] | None:
    """Give the `prompt_cache_diagnostics` of an answer."""
    if not exact:
        return {"type": "unavailable"}
    if previous is None:
        return {"type": "comparison_response_not_found"}
    old, new = _params(previous), _params(request)
    section, shared = _parting(previous, request)
    for name, reason in _OPENAI_REASONS.items():
        if old.get(name) != new.get(name):
            return _miss(reason, request, shared)
    if section == "tools" or old != new:
        return _miss("tools_changed", request, shared)
    if section is not None:
        return _miss("input_changed", request, shared)
    return {"type": "cache_hit"}


def _params(request: Request) -> dict[str, bytes]:
    return {param.name: param.value for param in request.params if param.name != "images"}


def _parting(previous: Request, request: Request) -> tuple[Section | None, int]:
    """Find the section in which two requests part, and the tokens they share before that."""
    old, new = chain_of(previous.blocks, ()), chain_of(request.blocks, ())
    shared = 0
    for index, digest in enumerate(old):
        if index >= len(new):
            return previous.blocks[index].section, shared
        if digest != new[index]:
            # One more tool pushes a system block back: the earlier of the two sections parted.
            both = {previous.blocks[index].section, request.blocks[index].section}
            first: Section = "messages"
            for section in ("system", "tools"):
                first = section if section in both else first
            return first, shared
        shared += request.blocks[index].tokens
    for block in request.blocks[len(old) :]:
        if block.section != "messages":
            return block.section, shared
    return None, shared


def _reason(kind: str, missed: int | None = None) -> dict[str, Any]:
    reason: dict[str, Any] = {"type": kind}
    if missed is not None:
        reason["cache_missed_input_tokens"] = missed
    return {"cache_miss_reason": reason}


def _miss(reason: str, request: Request, shared: int) -> dict[str, Any]:
    return {
        "type": "cache_miss",
        "reason": reason,
        "cache_missed_tokens": request.tokens - shared,
        "comparison_reusable_tokens": shared,
    }
