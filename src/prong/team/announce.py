"""Says to faces that a child begins, what it was told, and how it ended."""

from __future__ import annotations

from prong.entry import Entry, Part, Results, User, plain
from prong.event import AgentFinished, AgentStarted, InputTaken
from prong.team.child import Child


def announce(child: Child, *, resumed: bool) -> None:
    """Say that a child begins to work."""
    spec, agent = child.spec, child.agent
    agent.emit(
        AgentStarted(
            kind=spec.kind,
            model=agent.prompt.head.model,
            parent=spec.parent,
            agent_type=spec.type if spec.kind == "typed" else "",
            title=spec.description,
            task_id=spec.task_id,
            call_id=spec.call_id,
            isolation=spec.isolation,
            notify=spec.notify,
            run=child.runs,
            resumed=resumed,
        )
    )


def tell_task(child: Child) -> None:
    """Say what a child was told to do."""
    agent = child.agent
    tip = agent.prompt.tip
    assert tip is not None
    entry = agent.prompt.head.dialect.read(tip.role, tip.data)
    told = entry.parts if isinstance(entry, User) else _carried(entry)
    agent.emit(InputTaken(kind=tip.kind, text=plain(told)))


def _carried(entry: Entry) -> tuple[Part, ...]:
    """Give what the result of a call carries to a fork that cannot be told in plain text."""
    results = entry.results if isinstance(entry, Results) else ()
    return tuple(part for result in results for part in result.parts)


def tell_end(child: Child) -> None:
    """Say how a child ended."""
    report = child.report
    child.agent.emit(
        AgentFinished(
            status="failed" if child.status == "running" else child.status,
            detail=child.detail,
            result=report.result if report.structured else child.text,
        )
    )
