"""What an editor is told of agents that a session has started; pure.

In the protocol's own words for editors that know sessions below sessions, and in two older ways
beside them: on the call that has started an agent stands which session shows it, and on what an
agent does stands which call has started it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prong.event import (
    MAIN,
    AgentFinished,
    AgentRested,
    AgentStarted,
    PermissionAsked,
    QuestionAsked,
    ReceiptIssued,
    RequestSettled,
)
from prong.face.acp.session_update import (
    CallContent,
    CallStatus,
    CallUpdate,
    SubagentUpdate,
    call_text,
)
from prong.ids import AgentPath, task_of
from prong.view import AgentView, View

_WHY = {"completed": "end_turn", "killed": "cancelled"}


def child_id(session_id: str, path: str) -> str:
    """Name the session of a child; no stored session can be named so."""
    return session_id if path == MAIN else f"{session_id}:{path}"


def call_id_of(path: str, call_id: str) -> str:
    """Name a tool call so that no two agents of a session have one name."""
    return call_id if path == MAIN else f"{task_of(AgentPath(path))}:{call_id}"


def starting_call(view: View, path: str) -> str:
    """Give the call that started a child, by the id that the editor has; empty if none did."""
    child = view.agents.get(path)
    if child is None or not child.call_id:
        return ""
    return call_id_of(child.parent, child.call_id)


def started_by(view: View, path: str, call_id: str) -> AgentView | None:
    """Find the child that a call has started."""
    return next((one for one in view.children(path) if one.call_id == call_id), None)


def state_update(session_id: str, path: AgentPath, event: object) -> SubagentUpdate | None:
    """Say on its parent's session what has become of a child's; None if nothing has."""
    below = child_id(session_id, path)
    match event:
        case AgentStarted(title=title):
            return SubagentUpdate(
                session_id=below,
                title=task_of(path),
                description=title,
                capabilities={"cancel": {}},
                state={"state": "running"},
            )
        case AgentFinished(status=status):
            why = _WHY.get(status, "error")
            return SubagentUpdate(session_id=below, state={"state": "idle", "stopReason": why})
        case AgentRested():
            return SubagentUpdate(session_id=below, state={"state": "idle"})
        case PermissionAsked() | QuestionAsked():
            return SubagentUpdate(session_id=below, state={"state": "requires_action"})
        case RequestSettled():
            return SubagentUpdate(session_id=below, state={"state": "running"})
        case _:
            return None


def call_update(
    view: View, child: AgentView, event: AgentStarted | AgentFinished | ReceiptIssued
) -> CallUpdate:
    """Say on the call that has started a child what has become of it."""
    status: CallStatus | msgspec.UnsetType = msgspec.UNSET
    content: tuple[CallContent, ...] | msgspec.UnsetType = msgspec.UNSET
    match event:
        case AgentStarted():
            status = "in_progress"
        case AgentFinished(status=ended):
            status = "completed" if ended == "completed" else "failed"
            content = report_content(view, child)
        case ReceiptIssued():
            content = report_content(view, child)
    return CallUpdate(
        tool_call_id=starting_call(view, child.path),
        status=status,
        content=content,
        meta=starting_meta(view, child),
    )


def starting_meta(view: View, child: AgentView) -> dict[str, Any]:
    """Say beside a call which agent it has started, and what that has shared and paid."""
    own: dict[str, Any] = {"agent": child.path}
    if (receipt := view.receipts.get(child.task_id)) is not None:
        own["receipt"] = receipt.receipt
    session = child_id(view.session_id, child.path)
    return {
        "tool_name": "Agent",
        "subagent_session_info": {"session_id": session, "message_start_index": 0},
        "prong": own,
    }


def report_content(view: View, child: AgentView) -> tuple[CallContent, ...]:
    """Show what a child gave back, and what it shared and paid."""
    receipt = view.receipts.get(child.task_id)
    told = (child.result or child.detail, f"Receipt: {receipt.text}" if receipt else "")
    return tuple(call_text(text) for text in told if text.strip())
