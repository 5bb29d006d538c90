"""Says to faces that a child begins, and how it ended."""

from __future__ import annotations

from prong.event import AgentFinished, AgentStarted
from prong.team.child import Child


def announce(child: Child, *, resumed: bool) -> None:
    """Say that a child begins to work."""
    spec, agent = child.spec, child.agent
    agent.emit(
        AgentStarted(
            kind=spec.kind,
            model=agent.conversation.prompt.head.model,
            parent=spec.parent,
            agent_type=spec.type if spec.kind == "typed" else "",
            title=spec.description,
            task_id=spec.task_id,
            call_id=spec.call_id,
            isolation=spec.isolation,
            target=spec.target,
            member=spec.member.name if spec.member else "",
            colour=spec.member.colour if spec.member else "",
            notify=spec.notify,
            run=child.run.number,
            resumed=resumed,
        )
    )


def tell_end(child: Child) -> None:
    """Say how a child ended."""
    report = child.report
    child.agent.emit(
        AgentFinished(
            status="failed" if child.status == "running" else child.status,
            detail=child.run.detail,
            result=report.result if report.structured else child.text,
        )
    )
