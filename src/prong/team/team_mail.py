"""The mail of those agents of a process that are in a team.

Mail is read from a member's box into the outbox, and from there goes the way of notices. It is read
when a doorbell rings, every second, and at once if whoever sent it is in this process: so nobody
who looks whether all is quiet can look between a mail and its arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec.structs import astuple

from prong.errors import JournalFull, ProngError, UnknownName, UsageError
from prong.event import Event, Warned
from prong.ids import AgentPath
from prong.journal.replay import Replay
from prong.mail import (
    EVERYONE,
    Cursor,
    Mail,
    MailBatch,
    MailBody,
    SharedTask,
    SharedTasks,
    TeamFolder,
)
from prong.team.delivery import Delivery
from prong.team.membership import Membership
from prong.team.outbox import Outbox
from prong.team.received import Received
from prong.team.standing import told

NOT_STORED = (UsageError, JournalFull)
"""Why a mail is not sent, or a team not changed: who asked is told, and may ask again."""
_T = TypeVar("_T")


class MailOwner(Protocol):
    """An agent of this process that has a mailbox."""

    @property
    def membership(self) -> Membership:
        """Its place in the team."""
        ...

    def take(self, mail: Mail, mail_id: str) -> str:
        """Heed a mail; gives what the model is told of it, or nothing.

        After a kill the same mail may come again: then it has the same effect.
        """
        ...

    async def look(self) -> None:
        """Look whether the shared tasks have something for it."""
        ...

    def lose(self) -> None:
        """Be in no team any more: its mailbox is gone."""
        ...


@dataclass(slots=True)
class _OpenBox:
    """A mailbox that is read."""

    owner: MailOwner
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    warned: str = ""
    """What was last said to be wrong with it."""


@dataclass(slots=True, kw_only=True)
class TeamMail:
    """Reads and sends the mail of all members in this process."""

    home: Path
    group: TaskGroup
    delivery: Delivery
    emit: Callable[[AgentPath, Event], None]
    past: Replay | None = None
    """What a resumed session finds in its journal, which knows better than the outbox."""
    _folders: dict[str, TeamFolder] = field(default_factory=dict[str, TeamFolder])
    _boxes: dict[AgentPath, _OpenBox] = field(default_factory=dict[AgentPath, _OpenBox])
    _using: anyio.Lock = field(default_factory=anyio.Lock)
    """Held by whoever uses the shared tasks: a folder reads them into one place."""
    _offers: dict[str, str] = field(default_factory=dict[str, str])
    """Free tasks that a member is thinking about, by id: others are not woken for them."""

    async def open_folder(self, team: str) -> TeamFolder:
        """Open a team's folder, once for all its members here; raises UsageError."""
        if team not in self._folders:
            opened = await anyio.to_thread.run_sync(TeamFolder.open, self.home, team)
            return self._folders.setdefault(team, opened)
        return self._folders[team]

    def forget(self, team: str) -> None:
        """Let go of a team that is no more."""
        self._folders.pop(team, None)

    async def listen(self, owner: MailOwner) -> None:
        """Read an agent's mail from now on; what waits for it is there when this returns."""
        box = self._boxes[owner.membership.path] = _OpenBox(owner)
        await self._collect(box)
        self.group.start_soon(self._attend, box, name=f"mail {owner.membership.box}")

    def leave(self, path: AgentPath) -> None:
        """Leave an agent's mail in its box from now on."""
        if (box := self._boxes.pop(path, None)) is not None:
            box.scope.cancel()
            self.withdraw(box.owner.membership.name)

    async def post(
        self, membership: Membership, to: str, body: MailBody, *, about: str = ""
    ) -> str:
        """Send a mail, and read it at once for those that are here; raises as `Membership.post`."""
        mail_id = await membership.post(to, body, about=about)
        for box in list(self._boxes.values()):
            other = box.owner.membership
            if other.folder.name == membership.folder.name and to in {other.name, EVERYONE}:
                await self._collect(box)
        return mail_id

    async def use_tasks(self, membership: Membership, deed: Callable[[SharedTasks], _T]) -> _T:
        """Do something with the tasks of a team, alone; raises what that raises."""
        async with self._using:
            return await anyio.to_thread.run_sync(deed, membership.folder.tasks)

    def offer(self, name: str, tasks: Sequence[SharedTask]) -> SharedTask | None:
        """Choose a free task for a member to think about, which no other here does."""
        for task in tasks:
            if self._offers.setdefault(task.id, name) == name:
                return task
        return None

    def withdraw(self, name: str) -> None:
        """Let others think about what a member was offered."""
        self._offers = {task: to for task, to in self._offers.items() if to != name}

    async def _attend(self, box: _OpenBox) -> None:
        membership = box.owner.membership
        with box.scope:
            async with membership.folder.doorbell(membership.name) as bell:
                if bell.fault:
                    why = f"mail is looked for every second only: {bell.fault}"
                    self.emit(membership.path, Warned(text=why))
                seen = None
                while True:
                    rung = await bell.wait()
                    now = membership.folder.fingerprint(membership.name)
                    if rung or now != seen:
                        done = await self._collect(box) and await self._look(box)
                        # What could not be done is tried again, and said again if it was mended.
                        seen, box.warned = (now, "") if done else (None, box.warned)

    async def _look(self, box: _OpenBox) -> bool:
        """Let whoever reads a box look at the tasks; whether that was possible."""
        try:
            await box.owner.look()
        except (ProngError, OSError) as error:
            self._warn(box, f"the tasks of the team cannot be looked at: {error}")
            return False
        return True

    async def _collect(self, box: _OpenBox) -> bool:
        """Read what is new in a box; whether all of it could be read and stored."""
        async with box.lock:
            try:
                while await self._read_on(box):
                    pass
            except UnknownName as error:
                self._warn(box, f"its mail cannot be read any more: {error}")
                box.scope.cancel()
                box.owner.lose()
            except (ProngError, OSError) as error:
                self._warn(box, f"its mail cannot be read: {error}")
            else:
                return True
        return False

    async def _read_on(self, box: _OpenBox) -> bool:
        """Read once; whether there is more. Raises ProngError, OSError."""
        membership, outbox = box.owner.membership, self.delivery.outbox
        cursor = Cursor(*(outbox.cursor(membership.box) or ()))
        known = _Known(outbox, membership)
        read = partial(membership.folder.read, membership.name, cursor, known)
        batch = await anyio.to_thread.run_sync(read)
        for note in batch.notes:
            self.emit(membership.path, Warned(text=note))
        for piece in batch.damaged:
            # Noted before it is told, so that it is told once; the place is still the old one.
            outbox.receive(_received(membership, piece.id, "", cursor))
            why = f"mail to {membership.box} was set aside: {piece.why} (byte {piece.offset})"
            self.emit(membership.path, Warned(text=why))
        stood = self._stood(membership, batch)
        for mail, after in batch.mails:
            mail_id = known.own_id(mail.id)
            text = "" if mail_id in stood else box.owner.take(mail, mail_id)
            self.delivery.receive(_received(membership, mail.id, mail.sender, after, text))
        outbox.advance(membership.box, astuple(batch.cursor))
        await anyio.to_thread.run_sync(membership.folder.prune, membership.name, batch.cursor)
        return batch.more

    def _stood(self, membership: Membership, batch: MailBatch) -> set[str]:
        """Name those mails that stand in the journal, though the outbox has lost them."""
        if self.past is None or not batch.mails:
            return set()
        return told(self.past, {_own_id(mail.id, membership) for mail, _ in batch.mails})

    def _warn(self, box: _OpenBox, text: str) -> None:
        """Say what is wrong, once as long as it is the same."""
        if box.warned != text:
            box.warned = text
            self.emit(box.owner.membership.path, Warned(text=text))


@dataclass(slots=True, frozen=True)
class _Known:
    """The ids, as a mailbox has them, of what one reader has read before."""

    outbox: Outbox
    membership: Membership

    def own_id(self, mail_id: str) -> str:
        """Give the id in the outbox."""
        return _own_id(mail_id, self.membership)

    def __contains__(self, mail_id: object) -> bool:
        """Whether it was read."""
        return isinstance(mail_id, str) and self.outbox.knows(self.own_id(mail_id))


def _own_id(mail_id: str, membership: Membership) -> str:
    """Give a mail's id in the outbox, where several may have read a copy of it."""
    return f"{mail_id}-{membership.name}"


def _received(
    membership: Membership, mail_id: str, sender: str, cursor: Cursor, text: str = ""
) -> Received:
    return Received(
        id=_own_id(mail_id, membership),
        agent=membership.path,
        sender=sender,
        box=membership.box,
        cursor=astuple(cursor),
        text=text,
    )
