"""Forks and other background work of a view, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from prong.face.line import counted, few
from prong.view import AgentView, View

_REPORT_LINES = 6


def list_tasks(view: View) -> list[str]:
    """Say what has run in the background, and what does."""
    children = [agent for agent in view.agents.values() if agent.task_id]
    ours = {child.task_id for child in children}
    lines = [_child(child) for child in children]
    lines += [
        f"{task.task_id}  running  {task.title} ({task.kind})"
        for task in view.running
        if task.task_id not in ours
    ]
    return lines or ["nothing has run in the background"]


def _child(child: AgentView) -> str:
    detail = f" ({child.detail})" if child.detail else ""
    if child.branch:
        detail += f" (branch {child.branch})"
    return f"{child.task_id}  {child.ended or 'running'}  {child.title}{detail}"


def report(view: View, task_id: str) -> list[str]:
    """Give the first lines of what a child has reported to whom it was to tell."""
    child = view.child(task_id)
    if child is None or child.ended != "completed" or not child.notify:
        return []
    return few(child.result, _REPORT_LINES)


def tell_stopping(view: View) -> Iterator[str]:
    """Say what ends with the session."""
    for task in view.running:
        yield f"{task.task_id} is stopped: {task.title}"
    if any(view.child(task.task_id) for task in view.running):
        yield "(they do not go on by themselves; after a resume, /tell ID TEXT wakes one)"


def describe_leaving(view: View) -> str:
    """Say what leaving now would mean."""
    running = len(view.running)
    if not running:
        return "(nothing runs; once more, /quit or Ctrl+D leaves)"
    verb = "runs" if running == 1 else "run"
    return (
        f"({counted(running, 'background task')} {verb}; "
        f"once more or /quit leaves and stops {'it' if running == 1 else 'them'})"
    )
