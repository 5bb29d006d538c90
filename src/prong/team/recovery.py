"""Tells of tasks that died with an earlier process of the session."""

from __future__ import annotations

from collections.abc import Container, Sequence

from prong.ids import AgentPath, TaskId
from prong.team.log import numbers, read_tail
from prong.team.outbox import Expected
from prong.team.task import TaskBoard
from prong.team.work import Ending, result_text


def strays(board: TaskBoard) -> list[str]:
    """Name the commands that have left output and of which the outbox knows nothing."""
    knows = board.delivery.outbox.knows
    return [f"task-{n}" for n in numbers(board.folder) if not knows(f"task-{n}")]


def recover(
    board: TaskBoard, agent: AgentPath, *, keep: Container[str] = (), strays: Sequence[str] = ()
) -> list[str]:
    """Report tasks as killed that died with an earlier process of this session; gives which.

    Those in `keep` are taken up again by somebody else. Of `strays` nobody knows whose they are, so
    that `agent` is told.
    """
    known = [Expected(n, agent, TaskId(n), n, str(board.folder / f"{n}.log")) for n in strays]
    lost = [
        one
        for one in (*board.delivery.outbox.orphans(), *known)
        if not board.runs(one.task_id) and one.task_id not in keep
    ]
    for one in lost:
        ending = Ending(
            status="killed",
            summary=f'Background command "{one.title}" ended with the session',
            result=result_text(read_tail(one.output_file), one.output_file),
        )
        board.delivery.send(one, ending)
    return [f"{one.task_id} ({one.title})" for one in lost]
