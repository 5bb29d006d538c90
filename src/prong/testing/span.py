"""Checks a stream of events: numbered without a gap, and whatever starts ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isclose

from prong.event import (
    AgentFinished,
    AgentStarted,
    Delta,
    Envelope,
    Event,
    EventsSkipped,
    MessageQueued,
    MessageUnqueued,
    PermissionAsked,
    QuestionAsked,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    RequestSettled,
    SessionFinished,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from prong.session import Session
from prong.view import fold_all, settled


def check_events(envelopes: Iterable[Envelope], *, since: int = 0) -> None:
    """Check all events after number `since`, of one process or of several; deltas may be left out.

    A stream in which events are missing, and which says so, cannot be judged.

    Raises AssertionError that names the first event which does not fit.
    """
    watch = _Watch(since)
    for envelope in envelopes:
        if isinstance(envelope.event, EventsSkipped):
            return
        watch.take(envelope)
    watch.finish()


def check_view(session: Session, told: Sequence[Envelope]) -> None:
    """Check that what was recorded of a session makes the same view as what it told live.

    Raises AssertionError that names what differs.
    """
    everything = session.events().drain()
    past = fold_all(one for one in everything if one.seq <= session.records.began)
    live, recorded = settled(fold_all(told, past)), session.view()
    if recorded.holes:
        return
    assert live == settled(recorded), "the recorded events make another view than the live ones"
    assert not recorded.is_open
    assert not recorded.running
    assert not recorded.questions
    first = everything[0].event
    if session.records.began or (isinstance(first, SessionStarted) and first.resumed):
        # The journal may know of more than was recorded: a story may have changed either.
        return
    assert recorded.usage == session.usage
    assert (recorded.cost is None) == (session.cost is None)
    assert isclose(recorded.cost or 0.0, session.cost or 0.0)


class _Watch:
    def __init__(self, seq: int) -> None:
        self._seq = seq
        self._open: dict[tuple[str, ...], Envelope] = {}
        self._agents: set[str] = set()
        self._last: Envelope | None = None

    def take(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, Delta):
            assert envelope.seq == 0, f"a delta has no number: {envelope}"
            return
        self._seq += 1
        assert envelope.seq == self._seq, f"number {self._seq} is missing before {envelope}"
        if not isinstance(event, SessionStarted):
            assert ("session",) in self._open, f"outside of a session: {envelope}"
        if isinstance(event, AgentStarted):
            self._agents.add(envelope.agent)
        elif not isinstance(event, SessionStarted | SessionFinished):
            assert envelope.agent in self._agents, f"of an agent that never began: {envelope}"
        if isinstance(event, ReplyDiscarded):
            assert ("request", event.request_id) in self._open, f"of no open request: {envelope}"
        if (start := _start(envelope.agent, event)) is not None:
            assert start not in self._open, f"begun already: {envelope}"
            self._open[start] = envelope
        if (end := _end(envelope.agent, event)) is not None:
            found = self._open.pop(end, None)
            assert found or _alone(event), f"the end of nothing: {envelope}"
        self._last = envelope
        if isinstance(event, SessionFinished):
            self.finish()
            self._agents.clear()

    def finish(self) -> None:
        left = [envelope.event for envelope in self._open.values()]
        assert not left, f"begun and never ended: {left}"
        if self._last is not None:
            assert isinstance(self._last.event, SessionFinished), f"the last is {self._last}"


def _start(agent: str, event: Event) -> tuple[str, ...] | None:
    match event:
        case SessionStarted():
            return ("session",)
        case AgentStarted():
            return ("agent", agent)
        case TurnStarted():
            return ("turn", agent)
        case RequestSent():
            return ("request", event.request_id)
        case ToolStarted():
            return ("call", agent, event.call_id)
        case TaskStarted():
            return ("task", event.task_id)
        case PermissionAsked() | QuestionAsked():
            return ("asked", event.request_id)
        case MessageQueued():
            return ("queued", event.message_id)
        case _:
            return None


def _end(agent: str, event: Event) -> tuple[str, ...] | None:
    match event:
        case SessionFinished():
            return ("session",)
        case AgentFinished():
            return ("agent", agent)
        case TurnFinished():
            return ("turn", agent)
        case ReplyFinished() | RequestFailed():
            return ("request", event.request_id)
        case ToolFinished():
            return ("call", agent, event.call_id)
        case TaskFinished():
            return ("task", event.task_id)
        case RequestSettled():
            return ("asked", event.request_id)
        case MessageUnqueued():
            return ("queued", event.message_id)
        case _:
            return None


def _alone(event: Event) -> bool:
    """Whether an end needs no start: a call that was refused or not understood never began."""
    return isinstance(event, ToolFinished)
