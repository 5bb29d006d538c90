"""TodoWrite: the agent's own list of things to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.event import Todo
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, SideEffect, done


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item as the model writes it."""

    content: Annotated[str, Meta(min_length=1, description="Such as 'Run the tests'")]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[str, Meta(description="Such as 'Running the tests'")] = msgspec.field(
        default="", name="activeForm"
    )


class TodoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TodoWrite is called with."""

    todos: tuple[TodoItem, ...]


class TodoWrite:
    """Replaces the list."""

    name = "TodoWrite"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TodoArguments
    budget = 2_000

    def title(self, args: TodoArguments) -> str:
        """Count what is done."""
        return f"{_completed(args)} of {len(args.todos)} done"

    def access(self, args: TodoArguments, context: Context) -> Sequence[Access]:
        """Touch nothing but the list."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: TodoArguments, context: Context) -> CallOutcome:
        """Keep the list and show it."""
        del call_id
        context.plan([Todo(t.content, t.status, t.active_form) for t in args.todos])
        said = f"The list is kept: {_completed(args)} of {len(args.todos)} done."
        active = sum(t.status == "in_progress" for t in args.todos)
        if active > 1:
            said += f" {active} items are in progress; it is better to have one at a time."
        return done(said)


def _completed(args: TodoArguments) -> int:
    return sum(t.status == "completed" for t in args.todos)
