"""What a run without a terminal came to, as JSON: by our own keys, and by those scripts know."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from prong.entry import Usage
from prong.event import WorkKept
from prong.session import Session, Turn, as_json

Subtype: TypeAlias = Literal[
    "success", "error_max_turns", "error_max_budget_usd", "error_during_execution"
]
_SUBTYPES: dict[str, Subtype] = {
    "done": "success",
    "limit": "error_max_turns",
    "budget": "error_max_budget_usd",
}


class Denial(msgspec.Struct, frozen=True):
    """A tool call that was not allowed to run."""

    tool: str
    why: str


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of `stream-json`, and all of `json`."""

    subtype: Subtype
    is_error: bool
    """Whether it did not come to an end by itself; `why` says more."""
    result: str
    """The same as `text`."""
    session_id: str
    text: str
    why: str
    detail: str
    turns: int
    """Requests that were made."""
    num_turns: int
    """The same."""
    duration_ms: int
    usage: dict[str, Any]
    """Tokens by our own names, then by Anthropic's."""
    cost: float | None
    """In dollars; null when a price is unknown."""
    total_cost_usd: float | None
    """The same."""
    structured: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The answer as an object, if a JSON schema was given."""
    structured_output: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The same."""
    receipts: tuple[dict[str, Any], ...] = ()
    """What each child shared and paid."""
    denials: tuple[Denial, ...] = ()
    """Tool calls that were not allowed to run."""
    worktrees: tuple[WorkKept, ...] = ()
    """Where children have left work."""


def summarise(
    session: Session,
    turn: Turn,
    *,
    seconds: float,
    denials: tuple[Denial, ...],
    worktrees: tuple[WorkKept, ...],
) -> RunSummary:
    """Put together what a run came to."""
    structured = msgspec.UNSET if turn.structured is None else msgspec.Raw(turn.structured)
    return RunSummary(
        subtype=_SUBTYPES.get(turn.why, "error_during_execution"),
        is_error=not turn.ok,
        result=turn.text,
        session_id=session.id,
        text=turn.text,
        why=turn.why,
        detail=turn.detail,
        turns=session.records.requests,
        num_turns=session.records.requests,
        duration_ms=round(seconds * 1000),
        usage=usage_fields(session.usage),
        cost=session.cost,
        total_cost_usd=session.cost,
        structured=structured,
        structured_output=structured,
        receipts=tuple(as_json(receipt) for receipt in session.receipts()),
        denials=denials,
        worktrees=worktrees,
    )


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Count tokens by our own names, and by Anthropic's; what is said twice is the same."""
    return {
        **msgspec.structs.asdict(usage),
        "input_tokens": usage.uncached,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.read,
        "cache_creation_input_tokens": usage.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written_5m,
            "ephemeral_1h_input_tokens": usage.written_1h,
        },
        "server_tool_use": {"web_search_requests": usage.searches},
    }
