"""Tells the user's hooks of the comings and goings of children."""

from __future__ import annotations

from typing import Any

import anyio

from prong.agent import Verdict
from prong.entry import Text, User
from prong.errors import UsageError
from prong.event import Warned
from prong.host.worktree import Worktree
from prong.team.child import Child

_GRACE = 10.0
"""Seconds that hooks have when a child has been stopped: somebody waits for its end."""


async def announce(
    child: Child, event: str, *, worktree: Worktree | None = None, **more: Any
) -> Verdict:
    """Tell the hooks of an event of a child; they select by its type."""
    spec = child.spec
    place = worktree or spec.worktree
    payload: dict[str, Any] = {
        "agent_path": spec.path,
        "agent_type": spec.type,
        "task_id": spec.task_id,
        "parent_path": spec.parent,
        "description": spec.description,
        "run": child.runs,
        "worktree_path": place.path if place else "",
        "worktree_branch": place.branch if place else "",
        **more,
    }
    verdict = await child.agent.hooks.fire(event, payload, matcher=spec.type)
    for warning in verdict.warnings:
        child.agent.emit(Warned(text=warning))
    return verdict


async def admit(child: Child, event: str) -> None:
    """Tell the hooks of an event that they may forbid.

    Raises UsageError with their reason if they do.
    """
    verdict = await announce(child, event)
    if verdict.block is not None:
        raise UsageError(f"a {event} hook refused it: {verdict.block}")


async def may_stop(child: Child, *, again: bool) -> bool:
    """Ask the hooks whether a child that has done its work may stop; if not, it is told why."""
    verdict = await announce(child, "SubagentStop", status="completed", stop_hook_active=again)
    if verdict.stop is not None or verdict.block is None:
        return True
    kind = "directive" if child.spec.kind == "fork" else "reminder"
    child.agent.append(User((Text(verdict.block),), kind))
    return False


async def bid_farewell(child: Child) -> None:
    """Tell the hooks of a child that failed or was stopped: they cannot keep it."""
    with anyio.move_on_after(_GRACE):
        status = "failed" if child.status == "failed" else "killed"
        await announce(child, "SubagentStop", status=status, stop_hook_active=False)
