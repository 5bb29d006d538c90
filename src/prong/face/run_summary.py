"""What a run without a terminal came to, as JSON: by our own keys, and by those scripts know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from prong.entry import Usage
from prong.event import ToolFinished, WorkKept
from prong.foreign_json import NOT_JSON
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


class PermissionDenial(msgspec.Struct, frozen=True):
    """The same by the names that scripts know."""

    tool_name: str
    tool_use_id: str
    tool_input: Any
    """Its arguments as an object; as the text that came if they are none."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of `stream-json`, and all of `json`."""

    subtype: Subtype
    is_error: bool
    """Whether it did not come to an end by itself; `why` says more."""
    result: str
    """The same as `text`."""
    errors: tuple[str, ...] = ()
    """What went wrong, the same as `detail`; none if nothing did."""
    session_id: str
    text: str
    why: str
    detail: str
    turns: int
    """Requests that were made."""
    num_turns: int
    """Those of this run; `turns` has those of the whole session, if it is a resumed one."""
    duration_ms: int
    duration_api_ms: int
    """What the requests of this run took, added up over its agents."""
    uuid: str
    """An id of this object alone."""
    usage: dict[str, Any]
    """Tokens by our own names, of the session; then by Anthropic's, of this run."""
    cost: float | None
    """In dollars; null when a price is unknown."""
    total_cost_usd: float | None
    """That of this run."""
    model_usage: dict[str, dict[str, Any]] = msgspec.field(name="modelUsage")
    """Tokens and cost of this run, by model."""
    structured: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The answer as an object, if a JSON schema was given."""
    structured_output: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The same."""
    receipts: tuple[dict[str, Any], ...] = ()
    """What each child shared and paid."""
    denials: tuple[Denial, ...] = ()
    """Tool calls that were not allowed to run."""
    permission_denials: tuple[PermissionDenial, ...] = ()
    """The same calls, with their arguments."""
    worktrees: tuple[WorkKept, ...] = ()
    """Where children have left work."""


class SpentSoFar(msgspec.Struct, frozen=True):
    """What a session had come to when a run began: scripts add up what each run tells them."""

    requests: int
    usage: Usage
    cost: float | None

    def cost_since(self, cost: float | None) -> float | None:
        """Give what was added; not known if one of both is not."""
        return None if cost is None or self.cost is None else cost - self.cost


def spent_so_far(session: Session) -> SpentSoFar:
    """Note what a session has come to."""
    return SpentSoFar(session.records.requests, session.usage, session.cost)


def summarise(
    session: Session,
    turn: Turn,
    *,
    before: SpentSoFar,
    seconds: float,
    refused: Sequence[ToolFinished],
    worktrees: tuple[WorkKept, ...],
) -> RunSummary:
    """Put together what a run came to."""
    from uuid import uuid4

    models = session.records.by_model(before.requests)
    structured = msgspec.UNSET if turn.structured is None else msgspec.Raw(turn.structured)
    return RunSummary(
        subtype=_SUBTYPES.get(turn.why, "error_during_execution"),
        is_error=not turn.ok,
        result=turn.text,
        errors=(turn.detail,) if turn.detail and not turn.ok else (),
        session_id=session.id,
        text=turn.text,
        why=turn.why,
        detail=turn.detail,
        turns=session.records.requests,
        num_turns=session.records.requests - before.requests,
        duration_ms=round(seconds * 1000),
        duration_api_ms=round(sum(summed.latency for summed in models.values()) * 1000),
        uuid=str(uuid4()),
        usage=usage_fields(session.usage, before.usage),
        cost=session.cost,
        total_cost_usd=before.cost_since(session.cost),
        model_usage={
            name: {
                "inputTokens": summed.usage.uncached,
                "outputTokens": summed.usage.output,
                "cacheReadInputTokens": summed.usage.read,
                "cacheCreationInputTokens": summed.usage.written,
                "webSearchRequests": summed.usage.searches,
                "costUSD": summed.cost,
            }
            for name, summed in models.items()
        },
        structured=structured,
        structured_output=structured,
        receipts=tuple(as_json(receipt) for receipt in session.receipts()),
        denials=tuple(Denial(call.name, call.text) for call in refused),
        permission_denials=tuple(map(_denied, refused)),
        worktrees=worktrees,
    )


def _denied(call: ToolFinished) -> PermissionDenial:
    try:
        given = msgspec.json.decode(call.arguments)
    except NOT_JSON:
        given = call.arguments
    return PermissionDenial(call.name, call.call_id, given)


def usage_fields(usage: Usage, before: Usage) -> dict[str, Any]:
    """Count tokens by our own names, and those that came since `before` by Anthropic's."""
    return {
        **msgspec.structs.asdict(usage),
        "input_tokens": usage.uncached - before.uncached,
        "output_tokens": usage.output - before.output,
        "cache_read_input_tokens": usage.read - before.read,
        "cache_creation_input_tokens": usage.written - before.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written_5m - before.written_5m,
            "ephemeral_1h_input_tokens": usage.written_1h - before.written_1h,
        },
        "server_tool_use": {"web_search_requests": usage.searches - before.searches},
    }
