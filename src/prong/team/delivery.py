"""Hands notices over: from the outbox on disk into the inbox of the agent they are for.

A notice waits in the inbox until the agent's next turn boundary. If the agent has read the whole
output of the task by then, the notice is put in shorter words: what it has read is not told again.
On disk it stays as it was written, so that a crash can only make it longer.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from msgspec.structs import replace

from prong.agent import Inbox
from prong.entry import Text, User
from prong.team.notice import Notice, render
from prong.team.outbox import Outbox

_READ = "[You have read all of this by TaskOutput already.]"


@dataclass(slots=True)
class _Waiting:
    """An entry that waits in an inbox, and the notices it is made of."""

    inbox: Inbox
    entry: User
    notices: list[Notice]


@dataclass(slots=True)
class Delivery:
    """The way of a session's notices from disk to their readers."""

    outbox: Outbox
    _read: dict[str, str] = field(default_factory=dict[str, str])
    """Notices whose output was read, and what they tell beside it."""
    _waiting: list[_Waiting] = field(default_factory=list[_Waiting])

    def collect(self, agent: str, inbox: Inbox, *, hold: Container[str] = ()) -> None:
        """Move an agent's notices into its inbox, each to be acknowledged there.

        Raises JournalFull if that could not be noted on disk.
        """
        notices = self.outbox.deliver(agent, hold=hold)
        if not notices:
            return
        waiting = _Waiting(inbox, self._entry(notices), notices)
        self._waiting.append(waiting)
        inbox.put(waiting.entry, taken=lambda: self._taken(waiting))

    def read(self, notice_id: str, beside: str) -> None:
        """Note that the reader of a notice has seen all output; `beside` is what else it tells."""
        if not self.outbox.waits(notice_id):
            return
        self._read[notice_id] = beside
        for waiting in self._waiting:
            if any(notice.id == notice_id for notice in waiting.notices):
                entry = self._entry(waiting.notices)
                waiting.inbox.revise(waiting.entry, entry)
                waiting.entry = entry

    def _entry(self, notices: list[Notice]) -> User:
        return User((Text(render([self._worded(notice) for notice in notices])),), "notice")

    def _worded(self, notice: Notice) -> Notice:
        beside = self._read.get(notice.id)
        if beside is None:
            return notice
        return replace(notice, result=f"{_READ}\n\n{beside}" if beside else _READ)

    def _taken(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        for notice in waiting.notices:
            self._read.pop(notice.id, None)
        self.outbox.ack([notice.id for notice in waiting.notices])
