"""The shared task list as values: events, what they add up to, and what may follow; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from prong.errors import BadInput, NotPossibleNow, UnknownName
from prong.mail.authority import LEADER, OUTSIDE

TITLE_LENGTH = 200
DESCRIPTION_LENGTH = 65_536
NEEDS = 100
"""Tasks that one may wait for."""
TASKS = 10_000
"""Tasks that a team may have."""

SharedStatus = Literal["pending", "in_progress", "completed", "cancelled"]


class SharedTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of work that any member may take."""

    id: str
    title: str
    description: str = ""
    status: SharedStatus = "pending"
    owner: str = ""
    """Who works on it or did; of a pending one, who is to."""
    by: str
    """Who created it."""
    needs: tuple[str, ...] = ()
    """Tasks that must be over before it can be taken."""

    @property
    def over(self) -> bool:
        """Whether it holds up no other."""
        return self.status in {"completed", "cancelled"}


class ClaimOutcome(msgspec.Struct, frozen=True):
    """Whether a task was taken."""

    task: SharedTask
    """As it is now."""
    why: str = ""
    """Why it was not; empty if it was."""

    @property
    def granted(self) -> bool:
        """Whether it is now the one's who asked."""
        return not self.why


class TaskCreated(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="created"):
    """A task was added."""

    id: str
    title: str
    description: str = ""
    needs: tuple[str, ...] = ()


class TaskChanged(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="changed"
):
    """Fields of a task were changed; those that are None were not."""

    id: str
    title: str | None = None
    description: str | None = None
    status: SharedStatus | None = None
    owner: str | None = None
    needs: tuple[str, ...] | None = None


class TaskClaimed(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="claimed"):
    """A member has taken a free task."""

    id: str


class TasksReleased(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="released"):
    """What a member was working on is free again."""

    owner: str


TaskEvent: TypeAlias = TaskCreated | TaskChanged | TaskClaimed | TasksReleased
TaskMap: TypeAlias = Mapping[str, SharedTask]
"""All tasks by their ids, in order."""


def apply_event(tasks: TaskMap, event: TaskEvent, by: str) -> dict[str, SharedTask]:
    """Give the tasks that are new or other after an event.

    Raises UsageError if it cannot follow on what is there; the tasks are then as they were.
    """
    match event:
        case TaskCreated():
            task = _created(tasks, event, by)
            return {task.id: task}
        case TaskChanged():
            task = _changed(tasks, event, by)
            return {task.id: task}
        case TaskClaimed(id=id_):
            task = find(tasks, id_)
            if why := unclaimable(tasks, task, by):
                raise NotPossibleNow(why)
            return {id_: msgspec.structs.replace(task, status="in_progress", owner=by)}
        case TasksReleased(owner=owner):
            if by not in {LEADER, owner}:
                raise NotPossibleNow(f"only {owner} or the leader can give up its tasks")
            return {id_: _freed(task) for id_, task in tasks.items() if held_by(task, owner)}


def find(tasks: TaskMap, id_: str) -> SharedTask:
    """Give a task; raises UnknownName."""
    if (task := tasks.get(id_)) is None:
        last = f"the last is {[*tasks][-1]}" if tasks else "there are none"
        raise UnknownName(f"there is no task {id_[:40]!r} in this team; {last}")
    return task


def open_needs(tasks: TaskMap, task: SharedTask) -> tuple[str, ...]:
    """Name the tasks that a task still waits for."""
    return tuple(id_ for id_ in task.needs if not tasks[id_].over)


def unclaimable(tasks: TaskMap, task: SharedTask, by: str) -> str:
    """Say why a member cannot take a task; empty if it can."""
    if task.over:
        return f"task {task.id} is {task.status}"
    if task.owner not in {"", by}:
        return f"task {task.id} is {task.owner}’s"
    if task.status == "in_progress":
        return f"task {task.id} is yours already"
    if waits := open_needs(tasks, task):
        return f"task {task.id} waits for {', '.join(waits)}"
    return ""


def held_by(task: SharedTask, owner: str) -> bool:
    """Whether somebody works on a task, or is to."""
    return task.owner == owner and not task.over


def claimable(tasks: TaskMap, by: str) -> SharedTask | None:
    """Give the first task that a member could take."""
    return next((task for task in tasks.values() if not unclaimable(tasks, task, by)), None)


def _created(tasks: TaskMap, event: TaskCreated, by: str) -> SharedTask:
    if event.id in tasks:
        raise BadInput(f"there is a task {event.id} already")
    if len(tasks) >= TASKS:
        raise NotPossibleNow(f"a team has at most {TASKS:,} tasks; create a new team")
    task = SharedTask(
        id=event.id,
        title=event.title,
        description=event.description,
        by=by,
        needs=tuple(dict.fromkeys(event.needs)),
    )
    _check_texts(task)
    _check_needs(tasks, task)
    return task


def _changed(tasks: TaskMap, event: TaskChanged, by: str) -> SharedTask:
    old = find(tasks, event.id)
    if old.owner not in {"", by} and by != LEADER:
        raise NotPossibleNow(
            f"task {old.id} is {old.owner}’s; ask {old.owner} or the leader to change it"
        )
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    task = msgspec.structs.replace(old, **{n: v for n, v in fields.items() if v is not None})
    task = _settled(task, event, by)
    _check_texts(task)
    if event.needs is not None:
        task = msgspec.structs.replace(task, needs=tuple(dict.fromkeys(event.needs)))
        _check_needs(tasks, task)
    begins = task.status == "in_progress" and old.status != "in_progress"
    if begins and (waits := open_needs(tasks, task)):
        raise NotPossibleNow(f"task {task.id} waits for {', '.join(waits)}; it cannot begin yet")
    return task


def _settled(task: SharedTask, event: TaskChanged, by: str) -> SharedTask:
    """Let owner and status agree: who begins a task owns it, and what nobody owns is pending."""
    if event.status == "pending" and event.owner is None:
        return msgspec.structs.replace(task, owner="")
    if task.status != "in_progress" or task.owner:
        return task
    if event.status is None:
        return msgspec.structs.replace(task, status="pending")
    if by == OUTSIDE:
        raise NotPossibleNow("from outside no task can be begun; name a member as its owner")
    return msgspec.structs.replace(task, owner=by)


def _freed(task: SharedTask) -> SharedTask:
    return msgspec.structs.replace(task, owner="", status="pending")


def _check_texts(task: SharedTask) -> None:
    if not task.title.strip():
        raise BadInput("a task needs a title")
    if len(task.title) > TITLE_LENGTH or not task.title.isprintable():
        raise BadInput(
            f"a task's title is one line of at most {TITLE_LENGTH} characters; "
            f"put the rest into the description"
        )
    if len(task.description) > DESCRIPTION_LENGTH:
        raise BadInput(
            f"a task's description has at most {DESCRIPTION_LENGTH:,} characters; "
            f"write it to a file and name the file"
        )


def _check_needs(tasks: TaskMap, task: SharedTask) -> None:
    if len(task.needs) > NEEDS:
        raise BadInput(f"a task can wait for at most {NEEDS} others; put one between")
    for id_ in task.needs:
        if id_ not in tasks:
            raise UnknownName(f"task {task.id} cannot wait for {id_[:40]!r}: there is no such task")
    if task.id in _reached(tasks, task.needs):
        raise BadInput(f"task {task.id} would wait for itself")


def _reached(tasks: TaskMap, ids: Iterable[str]) -> set[str]:
    found, todo = set[str](), list(ids)
    while todo:
        if (id_ := todo.pop()) not in found:
            found.add(id_)
            todo += tasks[id_].needs
    return found
