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
    AgentFinished,
    AgentRested,
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
from prong.ids import AgentPath, TaskId, task_of
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
        self, path: AgentPath, begins: AgentStarted, emit: Callable[[AgentPath, Event], None]
    ) -> None:
        """Take the path under which the member is shown, and what is told when it begins."""
        self._path = path
        self._begins = begins
        self._emit = emit
        self._seen = View()
        """The member's session, as far as it was heard."""
        self._begun = False
        """Whether the leader's faces have been told that it is there."""
        self._told = False
        """Whether they are told what it does."""

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
                        past = 0 if anew else member.what.seq
                        # Another process of it would first end what the one before left open,
                        # which is ended here already.
                        anew = False
                        async for envelope in member:
                            self.take(envelope, past)
            self._lose()
            await anyio.sleep(_AGAIN)

    def _check(self, what: ShownSession) -> None:
        """Raise WorkerFailed if it is another session that is shown."""
        if what.session != self._begins.session:
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
            self.begin(main.model)
            if main.in_turn:
                self._tell(MAIN, TurnStarted())
            elif main.rests:
                self._tell(MAIN, AgentRested(waits=main.rests))

    def begin(self, model: str = "") -> None:
        """Tell that the member is there, unless that was told: nobody speaks of it before."""
        if not self._begun:
            self._begun = True
            self._emit(self._path, replace(self._begins, model=model or self._begins.model))

    def end(self, why: str) -> None:
        """Tell that the member is gone, if it has not said so itself; empty if it left in order."""
        self._lose()
        status = "killed" if why else "completed"
        self._finish(AgentFinished(status=status, detail=why))

    def _finish(self, event: AgentFinished) -> None:
        if self._begun:
            self._emit(self._path, event)
        self._begun = False

    def _lose(self) -> None:
        """End in the leader's stream what the member cannot end there any more, but not itself."""
        if self._told:
            for agent, event in endings(self._seen):
                if agent != MAIN or not isinstance(event, AgentFinished):
                    self._tell(agent, event)
        self._told = False

    def _tell(self, agent: AgentPath, event: Event) -> None:
        if agent == MAIN and isinstance(event, AgentStarted):
            self.begin(event.model)
        elif agent == MAIN and isinstance(event, AgentFinished):
            self._finish(event)
        elif (translated := self._translated(event)) is not None:
            self._emit(self._placed(agent), translated)

    def _placed(self, agent: AgentPath) -> AgentPath:
        """Give the path in the leader's tree of an agent in the member's."""
        return AgentPath(f"{self._path}{agent.removeprefix(MAIN)}")

    def _task(self, task: TaskId) -> TaskId:
        return TaskId(f"{task_of(self._path)}:{task}")

    def _translated(self, event: Event) -> Event | None:
        """Put an event as the leader's faces understand it; None if it says them nothing."""
        match event:
            case AgentStarted():
                name, parent = self._task(event.task_id), self._placed(event.parent)
                return replace(event, task_id=name, parent=parent, session=self._begins.session)
            case TaskStarted() | TaskFinished() | ReceiptIssued():
                return replace(event, task_id=self._task(event.task_id))
            case Warned(text=text):
                return Warned(text=f"{task_of(self._path)}: {text}")
            case _:
                return None if isinstance(event, _ITS_OWN) else event
