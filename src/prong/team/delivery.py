"""The way of a notice or a mail: put into the outbox, from there into the inbox of its reader.

An agent that is subscribed gets its notices as they are put. A notice waits in the inbox until the
agent's next turn boundary. If the agent has read the whole output of the task by then, the notice
is put in shorter words: what it has read is not told again. On disk it stays as it was written, so
that a crash can only make it longer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from prong.agent import Inbox
from prong.entry import Text, User
from prong.errors import JournalFull
from prong.event import Event, Warned
from prong.team.notice import Notice, render
from prong.team.outbox import Expected, Outbox
from prong.team.received import Received, render_mail
from prong.team.work import Ending

Emit: TypeAlias = Callable[[Event], None]

_READ = "[You have read all of this by TaskOutput already.]"


class _Recipient(Struct, frozen=True):
    """An agent that is at work."""

    inbox: Inbox
    hold: Container[str]
    """Tasks whose notices have to wait on disk for the moment."""


class _QueuedEntry(Struct):
    """An entry that waits in an inbox, and what it is made of: notices, or mails."""

    inbox: Inbox
    entry: User
    made_of: list[Notice] | list[Received]


class Delivery(Struct):
    """The notices of a session on their way to their readers."""

    outbox: Outbox
    emit: Emit
    """Warns the user."""
    _readers: dict[str, _Recipient] = field(default_factory=dict[str, _Recipient])
    _stuck: set[str] = field(default_factory=set[str])
    """Agents whose notices could not be handed over: they stay on disk until the next resume."""
    _read: dict[str, str] = field(default_factory=dict[str, str])
    """Notices whose output was read, and what they tell beside it."""
    _waiting: list[_QueuedEntry] = field(default_factory=list[_QueuedEntry])

    def expect(self, expected: Expected) -> None:
        """Store that there will be a notice; a full disk is told and stops nobody."""
        try:
            self.outbox.expect(expected)
        except JournalFull as error:
            self.emit(Warned(text=str(error)))

    def send(self, expected: Expected, ending: Ending) -> None:
        """Store the notice of a task that has ended, and hand it over if its reader is at work."""
        notice = Notice(
            id=expected.id,
            agent=expected.agent,
            task_id=expected.task_id,
            status=ending.status,
            summary=ending.summary,
            result=ending.result,
            usage=ending.usage,
            output_file=expected.output_file,
        )
        try:
            self.outbox.put(notice)
        except JournalFull as error:
            self.emit(Warned(text=str(error)))
        reader = self._readers.get(notice.agent)
        # Where this one has to wait, so have those that waited: nothing sets free but a last one.
        if reader is None or notice.task_id not in reader.hold:
            self._hand_over(notice.agent)

    def receive(self, mail: Received) -> bool:
        """Store a mail, and hand it over if its reader is at work; whether it is a new one.

        Raises JournalFull if it could not be stored: it is still in its mailbox then.
        """
        new = self.outbox.receive(mail)
        self._hand_over(mail.agent)
        return new

    def subscribe(self, agent: str, inbox: Inbox, *, hold: Container[str] = ()) -> None:
        """Put an agent's notices into its inbox from now on, and those that wait for it."""
        self._readers[agent] = _Recipient(inbox, hold)
        self._stuck.discard(agent)
        self._hand_over(agent)

    @contextmanager
    def reading(self, agent: str, inbox: Inbox) -> Generator[None]:
        """Put an agent's notices into its inbox for a block; after it they stay on disk."""
        self.subscribe(agent, inbox)
        try:
            yield
        finally:
            self._readers.pop(agent, None)

    def owes(self, agent: str) -> bool:
        """Whether there are notices that an agent will still be given."""
        return agent not in self._stuck and bool(self.outbox.pending(agent))

    def shorten(self, notice_id: str, beside: str) -> None:
        """Note that the reader of a notice has seen all output; `beside` is what else it tells."""
        if not self.outbox.waits(notice_id):
            return
        self._read[notice_id] = beside
        for waiting in self._waiting:
            if any(one.id == notice_id for one in waiting.made_of):
                entry = self._entry(waiting.made_of)
                waiting.inbox.revise(waiting.entry, entry)
                waiting.entry = entry

    def _hand_over(self, agent: str) -> None:
        """Move notices from disk into an inbox, each to be acknowledged there."""
        reader = self._readers.get(agent)
        if reader is None or agent not in self.outbox.addressees:
            return
        try:
            ready = self.outbox.deliver(agent, hold=reader.hold)
        except JournalFull as error:
            self._stuck.add(agent)
            self.emit(Warned(text=f"{error}; notices stay on disk until the session is resumed"))
            return
        self._stuck.discard(agent)
        for made_of in (
            [one for one in ready if isinstance(one, Notice)],
            [one for one in ready if isinstance(one, Received)],
        ):
            if made_of:
                waiting = _QueuedEntry(reader.inbox, self._entry(made_of), made_of)
                self._waiting.append(waiting)
                reader.inbox.put(waiting.entry, taken=partial(self._taken, waiting))

    def _entry(self, made_of: list[Notice] | list[Received]) -> User:
        notices = [self._worded(one) for one in made_of if isinstance(one, Notice)]
        mails = [one for one in made_of if isinstance(one, Received)]
        return User((Text(render_mail(mails) if mails else render(notices)),), "notice")

    def _worded(self, notice: Notice) -> Notice:
        beside = self._read.get(notice.id)
        if beside is None:
            return notice
        return replace(notice, result=f"{_READ}\n\n{beside}" if beside else _READ)

    def _taken(self, waiting: _QueuedEntry) -> None:
        self._waiting.remove(waiting)
        for one in waiting.made_of:
            self._read.pop(one.id, None)
        self.outbox.ack([one.id for one in waiting.made_of])
