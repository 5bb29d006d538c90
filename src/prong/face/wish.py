"""What slash commands show: each wish to see something, as lines."""

from __future__ import annotations

from prong.errors import UnknownName
from prong.face.slash import HELP, Show
from prong.face.team import list_tasks
from prong.session import Session


async def shown(session: Session, wish: Show) -> list[str]:
    """Give the lines that a wish asks for.

    Raises UsageError if there is no such thing.
    """
    view, records = session.view(), session.records
    match wish.what:
        case "cost":
            from prong.face.account import describe_cost

            return list(describe_cost(await records.costs()))
        case "agents":
            return _agents(session, wish.rest)
        case "receipt":
            return _receipts(session, wish.rest)
        case "resume":
            lines = [f"{info.id}  {info.title[:60]}" for info in records.others()[:20]]
            return [*lines, "/resume ID goes on with one"]
        case "doctor":
            from prong.face.doctor import describe_findings
            from prong.session import diagnose

            return describe_findings(diagnose(view.cwd))
        case "memory":
            from prong.face.inspect import describe_memory

            return describe_memory(records.memory)
        case "outline":
            return [records.outline()]
        case "plan":
            return [f"plan mode {records.plan_file}".strip()]
        case _:
            simple = {"help": [HELP], "model": [view.model], "mode": [view.mode]}
            return simple.get(wish.what) or list_tasks(view)


def _receipts(session: Session, task_id: str) -> list[str]:
    from prong.session import describe as describe_receipt

    found = [r for r in session.receipts() if task_id in {"", r.task_id}]
    if not found:
        raise UnknownName("there is no such receipt; /tasks lists what has run")
    return [describe_receipt(receipt) for receipt in found]


def _agents(session: Session, name: str) -> list[str]:
    from prong.face.roster import list_types, show_type
    from prong.session import type_report

    types = session.records.types
    if not name:
        return list_types(types)
    return show_type(type_report(types, name, session.view().tools))
