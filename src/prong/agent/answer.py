"""Keeps a conversation valid: every call has a result, also after a crash."""

from __future__ import annotations

from prong.entry import Call, CallId, Reply, Result, Results, Text
from prong.prompt import Prompt

INTERRUPTED = "interrupted: the call was stopped or its result was lost; it may have run in part"
"""What the model reads as the result of a call that was not answered."""


def unanswered(prompt: Prompt) -> tuple[Call, ...]:
    """Give the calls of the last reply that have no result, in call order."""
    read = prompt.head.dialect.read
    answered: set[CallId] = set()
    node = prompt.tip
    while node is not None and node.kind != "reply":
        # A fork's directive may be carried by the result of a call.
        if node.kind in {"results", "directive"}:
            entry = read(node.role, node.data)
            if isinstance(entry, Results):
                answered.update(result.call_id for result in entry.results)
        node = node.parent
    if node is None:
        return ()
    reply = read(node.role, node.data)
    assert isinstance(reply, Reply)
    return tuple(call for call in reply.calls if call.id not in answered)


def interrupted(prompt: Prompt) -> Results | None:
    """Answer the calls that were left without a result; None if there are none."""
    calls = unanswered(prompt)
    if not calls:
        return None
    return Results(tuple(Result(call.id, (Text(INTERRUPTED),), failed=True) for call in calls))


def awaits_reply(prompt: Prompt) -> bool:
    """Whether a conversation ends with something that nobody has answered."""
    return prompt.tip is not None and prompt.tip.kind != "reply"
