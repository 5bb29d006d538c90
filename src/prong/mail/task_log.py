"""The shared task list on disk: events, appended by whoever changes something.

Who changes something holds the lock, reads what others have added, decides, and appends. So no two
decide on the same state, and each task has one owner. Every process keeps what it has read and
reads on from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from zlib import crc32

import msgspec

from prong.errors import NotPossibleNow, UnknownName, UsageError
from prong.foreign_json import NOT_JSON
from prong.mail.authority import LEADER, OUTSIDE
from prong.mail.doorbell import ring
from prong.mail.keyring import Keyring, Verifier
from prong.mail.locked_file import append, locked, open_file, sync
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
from prong.mail.signed_line import VERSION, Unsound, sign
from prong.mail.team_file import TeamFile
from prong.system.descriptor import read_at
from prong.system.file_lock import unlock

_PLACE = "tasks"
_CHECKED = 64


class _TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    n: int
    """Each has a higher one than those before it: a line that is copied down counts once."""
    sender: str = msgspec.field(name="from")
    at: float
    body: TaskEvent


class SharedTasks:
    """The tasks of one team; any number of processes and threads use them at once."""

    def __init__(self, path: Path, team: TeamFile, keys: Keyring) -> None:
        """Read and write the task list of a team, with its members' keys."""
        self.path = path
        self.damage: list[str] = []
        """Lines that do not count, and why."""
        self._team = team
        self._keys = keys
        # Members in one process share this, each in a thread of its own.
        self._mutex = Lock()
        self._tasks: dict[str, SharedTask] = {}
        self._number = 0
        self._offset = 0
        self._check = 0

    def list(self) -> tuple[SharedTask, ...]:
        """Give all tasks, oldest first."""
        with self._looked():
            return tuple(self._tasks.values())

    def get(self, id_: str) -> SharedTask:
        """Give a task; raises UnknownName."""
        with self._looked():
            return find(self._tasks, id_)

    def waits_for(self, id_: str) -> tuple[str, ...]:
        """Name the tasks that a task still waits for."""
        with self._looked():
            return open_needs(self._tasks, find(self._tasks, id_))

    def free(self, by: str) -> SharedTask | None:
        """Give the first task that a member could claim."""
        with self._looked():
            return claimable(self._tasks, by)

    def create(
        self, title: str, description: str = "", *, by: str, needs: tuple[str, ...] = ()
    ) -> SharedTask:
        """Add a task; raises UsageError."""
        with self._changing(by) as fd:
            id_ = str(len(self._tasks) + 1)
            event = TaskCreated(id=id_, title=title, description=description, needs=needs)
            self._append(fd, event, by)
            return self._tasks[id_]

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
        if owner:
            self._check_owner(owner)
        event = TaskChanged(
            id=id_, status=status, owner=owner, title=title, description=description, needs=needs
        )
        with self._changing(by) as fd:
            self._append(fd, event, by)
            return self._tasks[id_]

    def claim(self, id_: str, *, by: str) -> ClaimOutcome:
        """Take a task that is free; one of many that ask at once gets it."""
        with self._changing(by) as fd:
            task = find(self._tasks, id_)
            if why := unclaimable(self._tasks, task, by):
                return ClaimOutcome(task, why)
            self._check_owner(by)
            self._append(fd, TaskClaimed(id=id_), by)
            return ClaimOutcome(self._tasks[id_])

    def claim_next(self, *, by: str) -> SharedTask | None:
        """Take the first task that is free, if there is one."""
        with self._changing(by) as fd:
            task = claimable(self._tasks, by)
            if task is None:
                return None
            self._check_owner(by)
            self._append(fd, TaskClaimed(id=task.id), by)
            return self._tasks[task.id]

    def release(self, owner: str, *, by: str = LEADER) -> tuple[SharedTask, ...]:
        """Free what a member was working on; gives those tasks."""
        with self._changing(by) as fd:
            held = [task.id for task in self._tasks.values() if held_by(task, owner)]
            if not held:
                return ()
            self._append(fd, TasksReleased(owner=owner), by)
            return tuple(self._tasks[id_] for id_ in held)

    @contextmanager
    def _looked(self) -> Generator[None]:
        with self._mutex:
            try:
                fd = open_file(self.path, os.O_RDONLY)
            except FileNotFoundError as error:
                raise self._missing() from error
            try:
                self._read(fd)
            finally:
                os.close(fd)
            yield

    @contextmanager
    def _changing(self, by: str) -> Generator[int]:
        """Hold the lock with all that others have added read; what is appended is synced after."""
        with self._mutex:
            try:
                with locked(self.path) as fd:
                    self._read(fd)
                    before = self._offset
                    yield fd
                    if self._offset == before:
                        return
                    unlock(fd)
                    sync(fd, self.path)
            except FileNotFoundError as error:
                raise self._missing() from error
        # It is done, whatever has become of the team since.
        with suppress(UsageError):
            for name in self._team.read().names:
                if name != by:
                    ring(self.path.parent, name)

    def _missing(self) -> UsageError:
        if self._team.path.exists():
            return NotPossibleNow(f"{self.path} is missing; restore it, or make it empty (touch)")
        return UnknownName(f"the team {self._team.name} is gone")

    def _append(self, fd: int, event: TaskEvent, by: str) -> None:
        # Read under the lock: whoever was let go before its tasks were freed takes no new ones.
        key = self._keys.key(by) if by in {*self._team.read().names, OUTSIDE} else None
        if key is None:
            raise UnknownName(f"{by[:40]!r} is not in this team, so it cannot change its tasks")
        apply_event(self._tasks, event, by)
        line = _TaskLine(n=self._number + 1, sender=by, at=time.time(), body=event)
        append(fd, self.path, sign(line, key=key, team=self._team.name, place=_PLACE))
        self._read(fd)

    def _check_owner(self, name: str) -> None:
        if name == OUTSIDE:
            raise NotPossibleNow("from outside no task can be taken; create one, or tell a member")
        if name not in self._team.read().names:
            raise UnknownName(f"there is no {name[:40]!r} in {self._team.name} to own a task")

    def _read(self, fd: int) -> None:
        if self._check != self._checked(fd):
            # It was restored or cut: what this process has read is no longer what is there.
            self._tasks, self._number, self._offset = {}, 0, 0
        pieces: list[bytes] = []
        at = self._offset
        while piece := read_at(fd, 1 << 20, at):
            pieces.append(piece)
            at += len(piece)
        *lines, _torn = b"".join(pieces).split(b"\n")
        verifier = Verifier(self._keys, team=self._team.name, place=_PLACE)
        for line in lines:
            if line:
                self._take(line, verifier)
            self._offset += len(line) + 1
        self._check = self._checked(fd)

    def _take(self, line: bytes, verifier: Verifier) -> None:
        try:
            by = verifier.sender(line)
            found = msgspec.json.decode(line, type=_TaskLine)
            if found.n > self._number:
                self._tasks.update(apply_event(self._tasks, found.body, by))
                self._number = found.n
        except (Unsound, UsageError, *NOT_JSON) as error:
            told = f"{self.path}, byte {self._offset}: {Unsound(str(error))}"
            if told not in self.damage:
                self.damage.append(told)

    def _checked(self, fd: int) -> int:
        start = max(0, self._offset - _CHECKED)
        return crc32(read_at(fd, self._offset - start, start))
