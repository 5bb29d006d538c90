"""What the tools for a team's shared tasks do, in the name of one member."""

from __future__ import annotations

from functools import partial

from prong.agent.speaker import must_be
from prong.errors import NotPossibleNow
from prong.mail import SharedTask, SharedTasks
from prong.team.membership import Membership
from prong.team.notice import line
from prong.team.team_mail import NOT_STORED, TeamMail
from prong.tools.fence import neutral
from prong.tools.team_task import (
    SharedTaskArguments,
    TaskCreateArguments,
    TaskGetArguments,
    TaskListArguments,
    TaskUpdateArguments,
)
from prong.tools.tool import CallOutcome, Failed, done


async def use_list(
    mail: TeamMail, membership: Membership, args: SharedTaskArguments
) -> CallOutcome:
    """Do with the list what the arguments say."""
    try:
        must_be(membership.path)
        told = await mail.use_tasks(membership, partial(_use, by=membership.name, args=args))
    except NOT_STORED as error:
        return Failed(str(error))
    return done(told)


def _use(tasks: SharedTasks, *, by: str, args: SharedTaskArguments) -> str:
    match args:
        case TaskCreateArguments():
            made = tasks.create(args.title, args.description, by=by, needs=args.needs)
            return f"Task {made.id} is on the list."
        case TaskGetArguments():
            task = tasks.get(args.id)
            return "\n\n".join(filter(None, [shown(task, tasks), neutral(task.description)]))
        case TaskListArguments():
            return "\n".join(shown(task, tasks) for task in tasks.list()) or "There are no tasks."
        case TaskUpdateArguments():
            return shown(_update(tasks, by, args), tasks)


def _update(tasks: SharedTasks, by: str, args: TaskUpdateArguments) -> SharedTask:
    claims = args.status == "in_progress" and args.owner in {None, by}
    if claims and tasks.get(args.id).owner != by:
        outcome = tasks.claim(args.id, by=by)
        if not outcome.granted:
            raise NotPossibleNow(outcome.why)
    return tasks.update(
        args.id,
        by=by,
        status=args.status,
        owner=args.owner,
        title=args.title,
        description=args.description,
        needs=args.needs,
    )


def shown(task: SharedTask, tasks: SharedTasks) -> str:
    """Tell of a task in one line."""
    waits = tasks.waits_for(task.id) if task.status == "pending" else ()
    whose = f", {task.owner}" if task.owner else ""
    after = f", waits for {', '.join(waits)}" if waits else ""
    return f"{task.id}. [{task.status}{whose}{after}] {line(task.title)}"
