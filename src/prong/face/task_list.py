"""Forks and other background work of a view, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from prong.errors import UnknownName
from prong.event import AgentStarted, ReceiptIssued, TaskFinished, TaskStarted, Todo
from prong.face.draw.phrase import place_of
from prong.face.line import BOXES, counted, describe, few
from prong.face.output import flat
from prong.session import FanReceipt, Receipt, in_brief, money, saving
from prong.view import AgentView, Replied, View

_REPORT_LINES = 3
_SHORT = 60
"""Characters of a result that stands in the line of its task."""


def list_todos(todos: Sequence[Todo]) -> list[str]:
    """List what an agent has to do, and what of it is done."""
    return [f"{BOXES[todo.status]} {todo.content}" for todo in todos] or ["no todos"]


def todos_of(view: View, name: str) -> list[str]:
    """List what an agent has to do, by its name; without one, the main agent.

    Raises UsageError if there is no such agent.
    """
    agent = view.child(name) if name else view.main
    if agent is None:
        raise UnknownName(f"there is no agent {name!r}; /tasks lists them")
    return list_todos(agent.todos)


class TaskLines:
    """Tells how children begin and end: a line for each, and one for all that worked together."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self._told: set[str] = set()
        """Tasks whose beginning is told otherwise."""
        self._receipts: dict[str, Receipt] = {}
        self._running: set[str] = set()
        """Forks, as far as events have told."""
        self._ended: list[Receipt] = []

    def began(self, event: AgentStarted) -> list[tuple[str, str]]:
        """Tell of a child that goes on; of a fork by hand the answer to the command tells."""
        if event.kind == "fork" and not event.session:
            self._running.add(event.task_id)
        if event.task_id and event.resumed:
            self._told.add(event.task_id)
            return [(f"{event.task_id} goes on: {event.title}", "")]
        if event.kind == "fork" and not event.call_id:
            self._told.add(event.task_id)
        return []

    def started(self, event: TaskStarted) -> list[tuple[str, str]]:
        """Tell of a task, unless that was done."""
        if event.task_id in self._told:
            self._told.remove(event.task_id)
            return []
        return describe(event)

    def paid(self, event: ReceiptIssued) -> list[tuple[str, str]]:
        """Keep a receipt for the end of its task, which follows; of a session there is no task."""
        receipt = msgspec.json.decode(event.receipt, type=Receipt)
        if receipt.session:
            return describe(event)
        self._receipts[event.task_id] = receipt
        return []

    def ended(self, event: TaskFinished, view: View) -> list[tuple[str, str]]:
        """Tell how a task ended, what it gave, shared and paid, in one line if that is enough."""
        receipt = self._receipts.pop(event.task_id, None)
        result = report(view, event.task_id)
        child = view.child(event.task_id)
        said = child.title if child and event.status == "completed" else event.summary
        if len(result) == 1 and len(result[0]) <= _SHORT:
            said, result = result[0], []
        paid = f" · {in_brief(receipt)}" if receipt is not None else ""
        lines = [(f"{event.task_id} {event.status}: {said}{paid}", "dim")]
        lines += [(f"  {line}", "") for line in result]
        if receipt is not None and receipt.kind == "fork":
            self._ended.append(receipt)
        self._running.discard(event.task_id)
        return lines + self._summed()

    def _summed(self) -> list[tuple[str, str]]:
        """Sum up once the last of several forks has ended."""
        if self._running:
            return []
        ended, self._ended = tuple(self._ended), []
        if len(ended) < 2:
            return []
        fan = FanReceipt(base="", size=len(ended), receipts=ended)
        parts = [money(fan.paid), saving(fan, digits=0)]
        return [(f"{counted(len(ended), 'fork')}: {', '.join(filter(None, parts))}", "dim")]


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
    detail = f" ({place})" if (place := place_of(child)) else ""
    detail += f" ({child.detail})" if child.detail else ""
    detail += f" ({child.line})" if child.line and not child.ended else ""
    if child.branch:
        detail += f" (branch {child.branch})"
    return f"{child.task_id}  {child.ended or 'running'}  {child.title}{detail}"


def report(view: View, task_id: str) -> list[str]:
    """Give the first lines of what a child has reported to whom it was to tell."""
    child = view.child(task_id)
    if child is None or child.ended != "completed" or not child.notify:
        return []
    lines = few(child.result, _REPORT_LINES)
    return (
        lines if len(lines) <= _REPORT_LINES else [*lines[:-1], f"{lines[-1]}; /report {task_id}"]
    )


def whole_report(view: View, task_id: str) -> list[str]:
    """Give all that a child has reported, or has said so far.

    Raises UsageError if there is no such child.
    """
    child = view.child(task_id)
    if child is None:
        told = f"there is no agent {task_id!r}" if task_id else "say whose: /report ID"
        raise UnknownName(f"{told}; /tasks lists them")
    if child.result:
        return child.result.splitlines()
    said = [item.text for item in child.transcript if isinstance(item, Replied) and item.text]
    state = f"{task_id} {child.ended or 'still works'}" + (f": {flat(said[-1])}" if said else "")
    return [state]


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
