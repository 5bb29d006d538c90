"""TaskOutput and TaskStop: look after background work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, SideEffect


class TaskOutputArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TaskOutput is called with."""

    task_id: Annotated[str, Meta(min_length=1)]
    block: Annotated[bool, Meta(description="Wait for its end")] = False
    timeout: Annotated[int, Meta(ge=0, le=600_000, description="In milliseconds")] = 30_000


class TaskOutput:
    """Reads what a task has produced since it was last asked."""

    name = "TaskOutput"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = TaskOutputArguments
    budget = 45_000

    def title(self, args: TaskOutputArguments) -> str:
        """Name the task."""
        return f"wait for {args.task_id}" if args.block else f"output of {args.task_id}"

    def access(self, args: TaskOutputArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: the task was allowed when it was started."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: TaskOutputArguments, context: Context
    ) -> CallOutcome:
        """Ask the board, or the team if it is a member in a session of its own."""
        del call_id
        name, wait = args.task_id, args.timeout / 1000 if args.block else 0.0
        told = await context.team.output(name, wait=wait) if context.team is not None else None
        return await context.tasks.output(name, wait=wait) if told is None else told


class TaskStopArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TaskStop is called with."""

    task_id: Annotated[str, Meta(min_length=1)]


class TaskStop:
    """Kills a task and everything it started."""

    name = "TaskStop"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TaskStopArguments
    budget = 10_000

    def title(self, args: TaskStopArguments) -> str:
        """Name the task."""
        return f"stop {args.task_id}"

    def access(self, args: TaskStopArguments, context: Context) -> Sequence[Access]:
        """Touch nothing but the agent's own work."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: TaskStopArguments, context: Context) -> CallOutcome:
        """Tell the board, or the team if it is a member in a session of its own."""
        del call_id
        outcome = await context.team.stop(args.task_id) if context.team is not None else None
        return await context.tasks.stop(args.task_id) if outcome is None else outcome
