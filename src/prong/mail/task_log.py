"""The shared task list on disk: events, appended by whoever changes something.

Who changes something holds the lock, reads what others have added, decides, and appends. So no two
decide on the same state, and each task has one owner. Every process keeps what it has read and
reads on from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import msgspec

from prong.errors import UnknownName, UsageError
from prong.mail.locked_file import append, locked, open_file, sync, unlock
from prong.mail.shared_task import (
    ClaimOutcome,
    SharedStatus,
    SharedTask,
    TaskChanged,
    TaskClaimed,
    TaskCreated,
    TaskEvent,
    TasksReleased,
    apply_event,
    claimable,
    find,
    held_by,
    open_needs,
    unclaimable,
)
from prong.mail.signed_line import VERSION, Unsound, claimed_sender, is_signed, sign

_PLACE = "tasks"
_CHECKED = 64

_Event = TypeVar("_Event", bound=TaskEvent)


class _TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    id: str
    sender: str = msgspec.field(name="from")
    at: float
    body: TaskEvent


class SharedTasks:
    """The tasks of one team; any number of processes have one each."""

    def __init__(
        self,
        path: Path,
        team: str,
        keys: Callable[[str], bytes | None],
        rung: Callable[[str], None],
    ) -> None:
        """Read and write a file, with the keys of a team; `rung` is told who changes it."""
        self.path = path
        self.damage: list[str] = []
        """Lines that do not count, and why."""
        self._team = team
        self._key_of = keys
        self._tell = rung
        self._tasks: dict[str, SharedTask] = {}
        self._offset = 0
        self._check = 0

    def list(self) -> tuple[SharedTask, ...]:
        """Give all tasks, oldest first."""
        self._look()
        return tuple(self._tasks.values())

    def get(self, id_: str) -> SharedTask:
        """Give a task; raises UnknownName."""
        self._look()
        return find(self._tasks, id_)

    def waits_for(self, id_: str) -> tuple[str, ...]:
        """Name the tasks that a task still waits for."""
        self._look()
        return open_needs(self._tasks, find(self._tasks, id_))

    def free(self, by: str) -> SharedTask | None:
        """Give the first task that a member could claim."""
        self._look()
        return claimable(self._tasks, by)

    def create(
        self, title: str, description: str = "", *, by: str, needs: tuple[str, ...] = ()
    ) -> SharedTask:
        """Add a task; raises UsageError."""

        def decide() -> TaskCreated:
            id_ = str(len(self._tasks) + 1)
            return TaskCreated(id=id_, title=title, description=description, needs=needs)

        return self._tasks[self._change(by, decide).id]

    def update(
        self,
        id_: str,
        *,
        by: str,
        status: SharedStatus | None = None,
        owner: str | None = None,
        title: str | None = None,
        description: str | None = None,
        needs: tuple[str, ...] | None = None,
    ) -> SharedTask:
        """Change fields of a task; raises UsageError if it is another's, or if it cannot be."""
        if owner and self._key_of(owner) is None:
            raise UnknownName(f"there is no member {owner[:40]!r} in this team to own a task")
        event = TaskChanged(
            id=id_, status=status, owner=owner, title=title, description=description, needs=needs
        )
        self._change(by, lambda: event)
        return self._tasks[id_]

    def claim(self, id_: str, *, by: str) -> ClaimOutcome:
        """Take a task that is free; one of many that ask at once gets it."""
        with self._locked() as fd:
            task = find(self._tasks, id_)
            if why := unclaimable(self._tasks, task, by):
                return ClaimOutcome(task, why)
            self._append(fd, TaskClaimed(id=id_), by)
        self._tell(by)
        return ClaimOutcome(self._tasks[id_])

    def claim_next(self, *, by: str) -> SharedTask | None:
        """Take the first task that is free, if there is one."""
        with self._locked() as fd:
            task = claimable(self._tasks, by)
            if task is None:
                return None
            self._append(fd, TaskClaimed(id=task.id), by)
        self._tell(by)
        return self._tasks[task.id]

    def release(self, owner: str, *, by: str = "leader") -> tuple[SharedTask, ...]:
        """Free what a member was working on; gives those tasks."""
        with self._locked() as fd:
            held = [task.id for task in self._tasks.values() if held_by(task, owner)]
            if not held:
                return ()
            self._append(fd, TasksReleased(owner=owner), by)
        self._tell(by)
        return tuple(self._tasks[id_] for id_ in held)

    def _change(self, by: str, decide: Callable[[], _Event]) -> _Event:
        with self._locked() as fd:
            event = decide()
            self._append(fd, event, by)
        self._tell(by)
        return event

    @contextmanager
    def _locked(self) -> Generator[int]:
        """Hold the lock with all that others have added read; what is appended is synced after."""
        with locked(self.path) as fd:
            self._read(fd)
            before = self._offset
            yield fd
            unlock(fd)
            if self._offset != before:
                sync(fd, self.path)

    def _append(self, fd: int, event: TaskEvent, by: str) -> None:
        key = self._key_of(by)
        if key is None:
            raise UnknownName(f"{by[:40]!r} is not in this team, so it cannot change its tasks")
        changed = apply_event(self._tasks, event, by)
        line = _TaskLine(id=os.urandom(8).hex(), sender=by, at=time.time(), body=event)
        append(fd, self.path, sign(line, key=key, team=self._team, place=_PLACE))
        self._tasks.update(changed)
        self._offset = os.fstat(fd).st_size
        self._check = self._checked(fd)

    def _look(self) -> None:
        fd = open_file(self.path, os.O_RDONLY)
        try:
            self._read(fd)
        finally:
            os.close(fd)

    def _read(self, fd: int) -> None:
        if self._check != self._checked(fd):
            # It was restored or cut: what this process has read is no longer what is there.
            self._tasks, self._offset = {}, 0
        data = b""
        while piece := os.pread(fd, 1 << 20, self._offset + len(data)):
            data += piece
        *lines, _ = data.split(b"\n")
        for line in lines:
            self._take(line)
            self._offset += len(line) + 1
        self._check = self._checked(fd)

    def _take(self, line: bytes) -> None:
        try:
            by = self._proved_sender(line)
            found = msgspec.json.decode(line, type=_TaskLine)
            self._tasks.update(apply_event(self._tasks, found.body, by))
        except (Unsound, UsageError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            if line:
                self.damage.append(f"{self.path}, byte {self._offset}: {error}")

    def _proved_sender(self, line: bytes) -> str:
        by = claimed_sender(line)
        key = self._key_of(by)
        if key is None or not is_signed(line, key=key, team=self._team, place=_PLACE):
            raise Unsound("it is not signed by whom it names")
        return by

    def _checked(self, fd: int) -> int:
        start = max(0, self._offset - _CHECKED)
        return crc32(os.pread(fd, self._offset - start, start))
