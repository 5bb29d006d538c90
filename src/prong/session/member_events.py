"""What the faces of a team's leader are shown of a member that works in a session of its own.

The member's events are told again in the leader's stream, below the leader's main agent. Its
questions are left out, since they come by mail, and so is whatever speaks of its session as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from prong.errors import WorkerFailed
from prong.event import (
    MAIN,
    AgentStarted,
    EntryRecalled,
    Envelope,
    Event,
    EventsSkipped,
    MemoryKept,
    MessageQueued,
    MessageUnqueued,
    ModeChanged,
    PermissionAsked,
    QuestionAsked,
    ReceiptIssued,
    RequestSettled,
    SessionFinished,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    TitleChanged,
    TurnStarted,
    Warned,
)
from prong.ids import AgentPath, TaskId, parent_of, task_of
from prong.session.view_socket import ShownSession, watch
from prong.view import View, endings, fold

_ITS_OWN = (
    SessionStarted,
    SessionFinished,
    MessageQueued,
    MessageUnqueued,
    PermissionAsked,
    QuestionAsked,
    RequestSettled,
    ModeChanged,
    TitleChanged,
    MemoryKept,
    EntryRecalled,
    EventsSkipped,
)
"""Events that mean nothing outside the session they happened in."""

_AGAIN = 1.0
"""Seconds until a member whose socket was not there is looked for again."""


class MemberEvents:
    """Follows one member, and tells of it in the leader's stream."""

    def __init__(
        self, path: AgentPath, session: str, emit: Callable[[AgentPath, Event], None]
    ) -> None:
        """Take the path under which the member is shown, and the id of its session."""
        self._path = path
        self._session = session
        self._emit = emit
        self._seen = View()
        """The member's session, as far as it was heard."""
        self._told = False
        """Whether the leader's faces have been told that it works."""

    async def follow(self, sockets: Sequence[Path], *, anew: bool) -> None:
        """Tell of what the member does, until this is cancelled; its socket is one of these.

        With `anew` from its first event on. Else only of what happens from now on: what was before
        stands in the leader's record already.
        """
        while True:
            for socket in sockets:
                with suppress(OSError, TimeoutError):
                    async with watch(socket, since=self._seen.seq) as member:
                        self._check(member.what)
                        past = self._seen.seq if anew else member.what.seq
                        anew = True
                        async for envelope in member:
                            self.take(envelope, past)
            self.lose()
            await anyio.sleep(_AGAIN)

    def _check(self, what: ShownSession) -> None:
        """Raise WorkerFailed if it is another session that is shown."""
        if what.session != self._session:
            raise WorkerFailed(f"it is session {what.session} that is shown there")

    def take(self, envelope: Envelope, past: int = 0) -> None:
        """Take an event of the member in, and tell of it unless it belongs to the `past`."""
        before, self._seen = self._seen, fold(self._seen, envelope)
        if not self._told and self._seen.seq >= past:
            self._introduce(before if envelope.seq > past else self._seen)
        if self._told and (envelope.seq > past or not envelope.seq):
            self._tell(envelope.agent, envelope.event)

    def _introduce(self, seen: View) -> None:
        """Tell of the member as it stands."""
        self._told = True
        if (main := seen.agents.get(MAIN)) is not None and not main.ended:
            self._tell(MAIN, AgentStarted(kind="main", model=main.model, resumed=True))
            if main.in_turn:
                self._tell(MAIN, TurnStarted())

    def lose(self) -> None:
        """End in the leader's stream what the member cannot end there any more."""
        if self._told:
            for agent, event in endings(self._seen):
                self._tell(agent, event)
        self._told = False

    def _tell(self, agent: AgentPath, event: Event) -> None:
        if (translated := self._translated(event)) is not None:
            self._emit(self._placed(agent), translated)

    def _placed(self, agent: AgentPath) -> AgentPath:
        """Give the path in the leader's tree of an agent in the member's."""
        return AgentPath(f"{self._path}{agent.removeprefix(MAIN)}")

    def _task(self, task: TaskId) -> TaskId:
        return TaskId(f"{task_of(self._path)}:{task}")

    def _translated(self, event: Event) -> Event | None:
        """Put an event as the leader's faces understand it; None if it says them nothing."""
        match event:
            case AgentStarted(kind="main"):
                name, parent = task_of(self._path), parent_of(self._path)
                return replace(event, task_id=name, parent=parent, session=self._session)
            case AgentStarted():
                name, parent = self._task(event.task_id), self._placed(event.parent)
                return replace(event, task_id=name, parent=parent, session=self._session)
            case TaskStarted() | TaskFinished() | ReceiptIssued():
                return replace(event, task_id=self._task(event.task_id))
            case Warned(text=text):
                return Warned(text=f"{task_of(self._path)}: {text}")
            case _:
                return None if isinstance(event, _ITS_OWN) else event
