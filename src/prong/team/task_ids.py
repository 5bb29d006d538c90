"""The ids of tasks: none is given twice, not even by another process of the session."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prong.ids import TaskId


class TaskIds:
    """All ids that the tasks of a board have or had."""

    def __init__(self, known: Iterable[str], numbers: Iterable[int], *, prefix: str = "") -> None:
        """Take those of earlier processes: as they were told, and of commands the numbers.

        A board that is not the session's only one has a `prefix`.
        """
        numbers = tuple(numbers)
        self._prefix = prefix
        self._ids = {*known, *(f"{prefix}task-{number}" for number in numbers)}
        self._earlier = frozenset(self._ids)
        self._last = max(numbers, default=0)
        self._calls: dict[str, TaskId] = {}
        """Tasks by the ids of the calls that started them."""

    def add(self, task_id: TaskId, call_id: str = "") -> None:
        """Take note of a task, and of the call that started it: it is found by that, too."""
        self._ids.add(task_id)
        self.know_as(call_id, task_id)

    def know_as(self, call_id: str, task_id: TaskId) -> None:
        """Let a task be found by the id of the call that started it, too."""
        if call_id:
            self._calls[call_id] = task_id

    def id_of(self, name: str) -> str:
        """Give the id of the task that goes by a name: its own, or that of its call."""
        return self._calls.get(name, name)

    def knows(self, task_id: str) -> bool:
        """Whether there is or was a task of that id."""
        return task_id in self._ids

    def highest(self, kind: str) -> int:
        """Give the highest number that an earlier process used: 7 of fork-7; 0 if it has none."""
        ids = map(re.compile(rf"{re.escape(kind)}-([0-9]{{1,9}})").fullmatch, self._earlier)
        return max((int(found[1]) for found in ids if found), default=0)

    def following(self) -> TaskId:
        """Give the id of the next command."""
        self._last += 1
        while self.knows(task_id := f"{self._prefix}task-{self._last}"):
            self._last += 1
        return TaskId(task_id)
