"""An agent's list of things to do, in as few rows as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from prong.event import Todo
from prong.face.draw.row import Row, Span, fit
from prong.face.line import BOXES

TODOS = "todos"
"""The key of every row: a press on one asks for the whole list."""
_STYLES = {"pending": "", "in_progress": "strong", "completed": "dim"}


def draw_todos(todos: Sequence[Todo], width: int, most: int) -> list[Row]:
    """Draw what is left to do in at most so many rows; nothing once all is done.

    With one row there is but the item at hand and how far the list has come. With more, items
    stand in their order, those that are done give way first, and what is left out is counted.
    """
    left = [todo for todo in todos if todo.status != "completed"]
    if not left or most < 1:
        return []
    done = len(todos) - len(left)
    count = f"todos {done} of {len(todos)} done"
    if most == 1 or len(todos) == 1:
        at_hand = next((todo for todo in left if todo.status == "in_progress"), left[0])
        return [_row([Span(f"{count} · ", "dim"), *_item(at_hand)], width)]
    shown = _chosen(todos, most - 1)
    rows = [_row([Span(count, "dim")], width)]
    if hidden := len(todos) - len(shown):
        undone = len(left) - sum(todo.status != "completed" for todo in shown)
        waiting = f", {undone} of them to do" if undone else ""
        rows = [_row([Span(f"{count}, {hidden} not shown{waiting}", "dim")], width)]
    return [*rows, *(_row([Span("  "), *_item(todo)], width) for todo in shown)]


def _chosen(todos: Sequence[Todo], most: int) -> list[Todo]:
    """Choose what is shown, in its order: first what is at hand, then what waits, then the rest."""
    if len(todos) <= most:
        return list(todos)
    rank = {"in_progress": 0, "pending": 1, "completed": 2}
    order = sorted(range(len(todos)), key=lambda at: (rank[todos[at].status], at))
    return [todos[at] for at in sorted(order[:most])]


def _item(todo: Todo) -> list[Span]:
    text = (todo.active if todo.status == "in_progress" else "") or todo.content
    style = _STYLES[todo.status]
    return [Span(f"{BOXES[todo.status]} {' '.join(text.split())}", style)]


def _row(spans: Sequence[Span], width: int) -> Row:
    return fit(spans, width, key=TODOS)
