"""Ends what an earlier process left open, so that whatever starts in a record also ends."""

from __future__ import annotations

from collections.abc import Iterator

from prong.event import (
    MAIN,
    AgentFinished,
    Event,
    MessageUnqueued,
    RequestFailed,
    RequestSettled,
    SessionFinished,
    TaskFinished,
    ToolFinished,
    TurnFinished,
)
from prong.ids import AgentPath, RequestId, depth_of
from prong.view.state import AgentView, Called, View

_WHY = "the process that had the session open was killed"


def endings(view: View) -> Iterator[tuple[AgentPath, Event]]:
    """Give the events that are missing at the end of a record, each with its agent.

    What lies within something else ends before it, a child before its parent.
    """
    if not view.is_open:
        return
    for request_id, asked in view.questions.items():
        yield asked.agent, RequestSettled(request_id=RequestId(request_id), outcome="unanswered")
    for message_id in view.queued:
        yield MAIN, MessageUnqueued(message_id=message_id, outcome="lost")
    agents = sorted(view.agents.values(), key=lambda agent: depth_of(agent.path), reverse=True)
    for agent in agents:
        for event in _of_agent(agent):
            yield agent.path, event
    for task in view.running:
        ended = TaskFinished(task_id=task.task_id, status="killed", summary=_WHY)
        yield task.agent, ended
    for agent in agents:
        if not agent.ended:
            yield agent.path, AgentFinished(status="killed", detail=_WHY)
    yield MAIN, SessionFinished(cost=view.cost, usage=view.usage)


def _of_agent(agent: AgentView) -> Iterator[Event]:
    for call_id, place in agent.open_calls.items():
        call = agent.transcript[place]
        if isinstance(call, Called):
            yield ToolFinished(
                call_id=call.call_id,
                name=call.name,
                failed=True,
                interrupted=True,
                text=_WHY,
                title=call.title or call_id,
            )
    for request in agent.open_requests:
        yield RequestFailed(
            request_id=request.id, why=_WHY, error="killed", sidecar=request.sidecar
        )
    if agent.in_turn:
        yield TurnFinished(text="", why="interrupted", detail=_WHY)
