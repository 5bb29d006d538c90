"""The tools for the list of tasks that a team shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.tools.access import Access
from prong.tools.teamwork import NO_TEAM
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect


class TaskCreateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TeamTaskCreate takes."""

    title: str
    description: str = ""
    needs: Annotated[tuple[str, ...], Meta(description="Ids of tasks to be done before")] = ()


class TaskGetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What TeamTaskGet takes."""

    id: str


class TaskListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What TeamTaskList takes: nothing."""


class TaskUpdateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TeamTaskUpdate takes; what is left out stays."""

    id: str
    status: (
        Annotated[
            Literal["pending", "in_progress", "completed", "cancelled"],
            Meta(description="in_progress claims it"),
        ]
        | None
    ) = None
    owner: Annotated[str, Meta(description="Leader: give it to a member")] | None = None
    title: str | None = None
    description: str | None = None
    needs: tuple[str, ...] | None = None


SharedTaskArguments: TypeAlias = (
    TaskCreateArguments | TaskGetArguments | TaskListArguments | TaskUpdateArguments
)


class _SharedTaskTool:
    """What the tools for the list have in common."""

    name: ClassVar[str]
    budget = 20_000

    def access(self, args: SharedTaskArguments, context: Context) -> Sequence[Access]:
        """Touch nothing of the project."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: SharedTaskArguments, context: Context
    ) -> CallOutcome:
        """Do it, in the name of whoever calls."""
        del call_id
        return Failed(NO_TEAM) if context.team is None else await context.team.task(args)


class TeamTaskCreate(_SharedTaskTool):
    """Adds a task to the list."""

    name = "TeamTaskCreate"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TaskCreateArguments

    def title(self, args: TaskCreateArguments) -> str:
        """Name the task."""
        return f"new task: {args.title}"


class TeamTaskGet(_SharedTaskTool):
    """Tells all of one task."""

    name = "TeamTaskGet"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = TaskGetArguments

    def title(self, args: TaskGetArguments) -> str:
        """Name the task."""
        return f"task {args.id}"


class TeamTaskList(_SharedTaskTool):
    """Lists the tasks, a line each."""

    name = "TeamTaskList"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = TaskListArguments

    def title(self, args: TaskListArguments) -> str:
        """Say what is shown."""
        del args
        return "the team's tasks"


class TeamTaskUpdate(_SharedTaskTool):
    """Claims, ends or changes a task."""

    name = "TeamTaskUpdate"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TaskUpdateArguments

    def title(self, args: TaskUpdateArguments) -> str:
        """Name the task and what becomes of it."""
        return f"task {args.id}: {args.status or 'changed'}"


SHARED_TASK_TOOLS = (TeamTaskCreate, TeamTaskGet, TeamTaskList, TeamTaskUpdate)
