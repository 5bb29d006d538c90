r"""Where notices and mails wait until the agent they are for has them in its journal.

One file of JSON lines, only ever appended to. A task is *expected* when it starts; its notice is
*written* when it ends, *delivered* when the agent takes it, *acknowledged* when the agent's own
journal holds it. Each record is one write, so a kill can only tear the last line, and a line
without its newline is no record. `sync` makes what was written survive a loss of power.

    expected -> written -> delivered -> acknowledged
        \_ on reopening: the task died with its process      \_ never offered again

A mail is *received*: one record with the place from where its mailbox is read next. From then on it
is treated as a notice is. A kill before that record reads it again, one after it never does.

A notice that was delivered but not acknowledged when the process died may or may not have reached
the journal. It is offered again; `unsettled` names these, so that the journal can be asked first.

Every line has a number and a checksum, so a changed byte and a line that is missing, doubled or out
of its order are found and told in `damage`; the lines beside it still count. Lines of older
programs have neither, and stand only before the first that has. A file that was cut at the end of
a line looks whole: what it has lost only the journal can tell.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread
import msgspec

from prong.closable import Closable
from prong.errors import JournalFull
from prong.host import make_private
from prong.ids import AgentPath, TaskId
from prong.journal.lock import remedy
from prong.journal.record import check, reseal
from prong.system import descriptor
from prong.team.notice import Notice
from prong.team.received import BoxPlace, Received
from prong.wire.raw import dump


class Expected(msgspec.Struct, frozen=True, tag_field="type", tag="expected"):
    """A task has started and will notify."""

    id: str
    agent: AgentPath
    task_id: TaskId
    title: str
    output_file: str = ""


class Told(msgspec.Struct, frozen=True):
    """What is remembered of a task that has notified."""

    agent: AgentPath
    summary: str
    output_file: str


REMEMBERED = 256
"""Tasks whose end can still be asked for."""


class _Written(msgspec.Struct, frozen=True, tag_field="type", tag="written"):
    notice: Notice


class _Delivered(msgspec.Struct, frozen=True, tag_field="type", tag="delivered"):
    ids: tuple[str, ...]


class _Acknowledged(msgspec.Struct, frozen=True, tag_field="type", tag="acknowledged"):
    ids: tuple[str, ...]


class _MailRead(msgspec.Struct, frozen=True, tag_field="type", tag="received"):
    mail: Received


class _Advanced(msgspec.Struct, frozen=True, tag_field="type", tag="advanced"):
    box: str
    cursor: BoxPlace


_OutboxRecord: TypeAlias = Expected | _Written | _Delivered | _Acknowledged | _MailRead | _Advanced


class _Numbered(msgspec.Struct, frozen=True):
    n: int


_OLD = b'{"type":'
"""How the lines of older programs begin."""


class Outbox(Closable):
    """The notices of one session; the session's lock keeps it to one process."""

    def __init__(self, path: str) -> None:
        """Open the file and take up what is in it."""
        self.path = Path(path)
        self._expected: dict[str, Expected] = {}
        self._waiting: dict[str, Notice | Received] = {}
        self._cursors: dict[str, BoxPlace] = {}
        self._seen: set[str] = set()
        self._told: dict[str, Told] = {}
        self._offered: dict[str, dict[str, Notice | Received]] = {}
        self._number = 0
        self.damage: list[str] = []
        """What is wrong with the file, and where; the lines in question are left out."""
        make_private(self.path.parent)
        self._handle = descriptor.open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self._size = self._replay()
        except BaseException:
            self.close()
            raise

    def expect(self, expected: Expected) -> None:
        """Note that a task has started.

        Raises JournalFull if it could not be written.
        """
        if expected.id not in self._seen:
            self._expected[expected.id] = expected
            self._append(expected)

    def orphans(self) -> list[Expected]:
        """Name the tasks that have started and not notified."""
        return list(self._expected.values())

    def put(self, notice: Notice) -> bool:
        """Keep a notice; False if there has been one of that id.

        Raises JournalFull if it could not be written; in this process it is offered even so.
        """
        if notice.id in self._seen:
            return False
        self._keep(notice)
        self._append(_Written(notice))
        return True

    def receive(self, mail: Received) -> bool:
        """Keep a mail; False if there has been one of that id.

        Raises JournalFull if it could not be written: then it was not read.
        """
        if mail.id in self._seen:
            self.advance(mail.box, mail.cursor)
            return False
        self._append(_MailRead(mail))
        self._read(mail)
        return True

    def advance(self, box: str, cursor: BoxPlace) -> None:
        """Note that a mailbox holds nothing to be kept up to a place.

        Raises JournalFull if it could not be written: then it is read again.
        """
        if self._cursors.get(box) != cursor:
            self._append(_Advanced(box, cursor))
            self._cursors[box] = cursor

    def cursor(self, box: str) -> BoxPlace | None:
        """Say from where a mailbox is to be read; None if it never was."""
        return self._cursors.get(box)

    def knows(self, notice_id: str) -> bool:
        """Tell whether an id has been used."""
        return notice_id in self._seen or notice_id in self._expected

    @property
    def unsettled(self) -> frozenset[str]:
        """The ids of all notices that are expected, or were not acknowledged."""
        return frozenset((*self._expected, *self._waiting))

    @property
    def ids(self) -> frozenset[str]:
        """All ids that have been used."""
        return frozenset((*self._seen, *self._expected))

    @property
    def addressees(self) -> frozenset[str]:
        """The agents for whom something waits that has not been handed to them."""
        return frozenset(self._offered)

    def waits(self, notice_id: str) -> bool:
        """Whether a notice is kept that nobody has acknowledged."""
        return notice_id in self._waiting

    def told(self, task_id: str) -> Told | None:
        """Say how a task ended, if it is one of the last that have notified."""
        return self._told.get(task_id)

    def pending(self, agent: str) -> list[Notice | Received]:
        """List what waits for an agent and has not been handed to it, oldest first."""
        return list(self._offered.get(agent, {}).values())

    def deliver(self, agent: str, *, hold: Container[str] = ()) -> list[Notice | Received]:
        """Hand over what waits for an agent, less the tasks in `hold`; it is not offered again.

        Raises JournalFull if that could not be written; then nothing was handed over.
        """
        waiting = self.pending(agent)
        notices = [n for n in waiting if isinstance(n, Received) or n.task_id not in hold]
        if notices:
            self._append(_Delivered(tuple(n.id for n in notices)))
            self._withdraw(notices)
        return notices

    def ack(self, ids: Iterable[str]) -> None:
        """Forget notices that are safe in the agent's journal; unknown ones do no harm.

        Raises JournalFull if that could not be written; they may then be offered after a restart.
        """
        known = tuple(i for i in ids if i in self._waiting or i in self._expected)
        if known:
            self._forget(known)
            self._append(_Acknowledged(known))

    async def sync(self) -> None:
        """Wait until what was written would survive a loss of power."""
        if self._handle < 0:
            return
        with contextlib.suppress(OSError):
            await anyio.to_thread.run_sync(descriptor.sync, self._handle)

    def close(self) -> None:
        """Close the file; what is pending stays on disk."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _keep(self, notice: Notice) -> None:
        self._expected.pop(notice.id, None)
        self._seen.add(notice.id)
        self._offer(notice)
        self._told.pop(notice.task_id, None)
        self._told[notice.task_id] = Told(notice.agent, notice.summary, notice.output_file)
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]

    def _read(self, mail: Received) -> None:
        self._cursors[mail.box] = mail.cursor
        self._seen.add(mail.id)
        if mail.text:
            self._offer(mail)

    def _offer(self, one: Notice | Received) -> None:
        self._waiting[one.id] = one
        self._offered.setdefault(one.agent, {})[one.id] = one

    def _withdraw(self, gone: Iterable[Notice | Received]) -> None:
        for one in gone:
            own = self._offered.get(one.agent, {})
            own.pop(one.id, None)
            if not own:
                self._offered.pop(one.agent, None)

    def _forget(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            # Whatever else was lost: what is in the journal was written once.
            self._seen.add(id_)
            self._expected.pop(id_, None)
            if (gone := self._waiting.pop(id_, None)) is not None:
                self._withdraw([gone])

    def _replay(self) -> int:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        torn = data[whole:]
        if torn:
            # The torn line must go, or the next record would be glued to it.
            os.ftruncate(self._handle, whole)
        if (healed := _healed(torn)) is not None:
            self._blame(data.count(b"\n") + 1, whole, "the newline at its end was changed")
            _write(self._handle, healed)
            data, whole = data[:whole] + healed, whole + len(healed)
        self._take_up(data[:whole])
        return whole

    def _take_up(self, data: bytes) -> None:
        start = unread = 0
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                self._check_order(line, unread)
                self._apply(msgspec.json.decode(line, type=_OutboxRecord))
                unread = 0
            except ValueError as error:
                unread += 1
                self._blame(number, start, str(error))
            start += len(line) + 1

    def _check_order(self, line: bytes, unread: int) -> None:
        """Note what is missing before a line; raises ValueError if the line itself is unsound."""
        if not self._number and line.startswith(_OLD):
            return
        if check(line, 0) is None:
            raise ValueError("the checksum does not match")
        number = msgspec.json.decode(line, type=_Numbered).n
        expected, self._number = self._number + 1, max(number, self._number)
        # What cannot be read still stands where it stood.
        if not expected <= number <= expected + unread:
            self.damage.append(f"record {number} stands where {expected} should")

    def _blame(self, line: int, offset: int, why: str) -> None:
        self.damage.append(f"line {line}, byte {offset}: {why}")

    def _apply(self, record: _OutboxRecord) -> None:
        match record:
            case Expected():
                if record.id not in self._seen:
                    self._expected[record.id] = record
            case _Written(notice):
                if notice.id not in self._seen:
                    self._keep(notice)
            case _MailRead(mail):
                if mail.id not in self._seen:
                    self._read(mail)
            case _Advanced(box, cursor):
                self._cursors[box] = cursor
            case _Delivered():
                # Without an acknowledgement it may have been lost with the process.
                pass
            case _Acknowledged(ids):
                self._forget(ids)

    def _append(self, record: _OutboxRecord) -> None:
        # The name of a file need not be Unicode, and a notice may speak of any.
        data, _ = reseal(b'"n":%d,%s' % (self._number + 1, dump(record)[1:]), 0)
        try:
            _write(self._handle, data)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            what = "what waits for an agent could not be stored"
            raise JournalFull(f"{self.path}: {what} ({error}); {remedy(error)}") from error
        self._size += len(data)
        self._number += 1


def _healed(torn: bytes) -> bytes | None:
    # No interrupted write leaves a whole line and a byte that is not its newline.
    return torn[:-1] + b"\n" if torn and check(torn[:-1], 0) is not None else None


def _write(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    if written < len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")
