"""Tells of tasks that died with an earlier process of the session."""

from __future__ import annotations

from collections.abc import Container

from prong.ids import AgentPath, TaskId
from prong.journal.replay import Replay
from prong.team.log import numbers, read_tail
from prong.team.outbox import Expected
from prong.team.standing import told
from prong.team.task import TaskBoard
from prong.team.work import Ending, result_text


def recover(
    board: TaskBoard, agent: AgentPath, replay: Replay | None = None, *, keep: Container[str] = ()
) -> list[str]:
    """Report tasks as killed that died with an earlier process of this session; gives which.

    Those in `keep` are taken up again by somebody else. Of commands that have left output, and of
    which neither the outbox nor the `replay` of the session knows, nobody knows whose they are, so
    that `agent` is told.
    """
    known = board.delivery.outbox.orphans()
    if replay is not None:
        known += [
            Expected(name, agent, TaskId(name), name, str(board.folder / f"{name}.log"))
            for name in _strays(board, replay)
        ]
    lost = [one for one in known if not board.runs(one.task_id) and one.task_id not in keep]
    for one in lost:
        ending = Ending(
            status="killed",
            summary=f'Background command "{one.title}" ended with the session',
            result=result_text(read_tail(one.output_file), one.output_file),
        )
        board.delivery.send(one, ending)
    return [f"{one.task_id} ({one.title})" for one in lost]


def _strays(board: TaskBoard, replay: Replay) -> list[str]:
    knows = board.delivery.outbox.knows
    found = [f"task-{n}" for n in numbers(board.folder) if not knows(f"task-{n}")]
    return sorted(set(found) - told(replay, found))
