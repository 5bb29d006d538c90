"""What is being done now, what was said before, and what can be typed: of a view, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prong.event import Progressed
from prong.face.edit.complete import Proposal, Sources
from prong.face.edit.external import CYCLE
from prong.face.line import counted, few, progress_bar
from prong.face.slash import COMMANDS
from prong.session import Records
from prong.view import AgentView, Replied, Said, View

_NAMED = 3
"""Agents that are named in the line of what is being done."""
_PAST = 12
"""Lines of an earlier reply that are shown when a session is taken up."""


def describe_status(view: View, now: float, *, alone: bool = False) -> str:
    """Say in one line what is being done; empty if nothing is. `alone` leaves the others out."""
    parts: list[str] = []
    main = view.main
    if view.busy and main.asks:
        parts.append("waits for your answer")
    elif view.busy:
        doing = _progress(main) or main.doing or "works"
        since = max((one.at for one in main.open_requests), default=view.at)
        parts.append(f"{doing} {max(0.0, now - since):.0f} s{_output(main)}")
    if alone:
        return f"· {parts[0]}" if parts else ""
    others = [agent for agent in view.agents.values() if agent.task_id and not agent.ended]
    parts += [
        f"{agent.task_id} {_progress(agent) or agent.doing or agent.state}"
        for agent in others[:_NAMED]
    ]
    if len(others) > _NAMED:
        parts.append(f"{len(others) - _NAMED} more")
    ours = {agent.task_id for agent in others}
    commands = [task for task in view.running if task.task_id not in ours]
    if commands:
        parts.append(counted(len(commands), "command"))
    if view.busy:
        parts.append("Ctrl+C interrupts")
    return f"· {' · '.join(parts)}" if parts else ""


def _progress(agent: AgentView) -> str:
    if agent.live is None or agent.live.progress is None:
        return ""
    what, done, total = agent.live.progress
    told = Progressed(what="load" if what == "load" else "prompt", done=done, total=total)
    return progress_bar(told, 12)


def _output(agent: AgentView) -> str:
    """Give the last line that a running command has printed."""
    if agent.live is None or not agent.live.outputs:
        return ""
    lines = [*agent.live.outputs.values()][-1].split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last}" if last else ""


def recount(view: View, began: int) -> Iterator[tuple[str, str]]:
    """Say how an earlier conversation ended, for whoever takes it up."""
    items = [one for one in view.main.transcript if isinstance(one, Said | Replied)]
    said = next((one for one in reversed(items) if isinstance(one, Said)), None)
    if not began or said is None:
        return
    yield "(earlier)", "dim"
    yield f"> {' '.join(few(said.text, 3))}", "dim"
    last = items[-1]
    if isinstance(last, Replied) and last.text.strip():
        lines = few(last.text.strip(), 10_000)
        if len(lines) > _PAST:
            yield f"… {counted(len(lines) - _PAST, 'earlier line')}", "dim"
        for line in lines[-_PAST:]:
            yield line, "dim"


def settled_items(agent: AgentView) -> int:
    """Count the items at the beginning of a transcript that will not change any more."""
    return min(agent.open_calls.values(), default=len(agent.transcript))


async def find_sources(view: View, records: Records, text: str) -> Sources:
    """Find what a text can be completed with; what takes a while only where it is wanted."""
    files = await records.files() if "@" in text else ()
    models = await records.models() if text.startswith("/model ") else ()
    return _sources(view, records, files, models)


def _sources(view: View, records: Records, files: Sequence[str], models: Sequence[str]) -> Sources:
    children = [one for one in view.agents.values() if one.task_id]
    values = {
        "mode": [Proposal(mode) for mode in (*CYCLE, "dontAsk", "bypassPermissions", "next")],
        "agent": [Proposal(one.task_id, one.title) for one in children],
        "task": [Proposal(one.task_id, one.title) for one in view.running],
        "session": [Proposal(one.id, one.title) for one in records.others()[:50]],
        "type": [Proposal(name) for name in records.types],
        "effort": [Proposal(level) for level in ("low", "medium", "high")],
        "model": [Proposal(name) for name in models],
    }
    commands: dict[str, str] = {}
    for name, told in [*((one.name, one.help) for one in COMMANDS), *records.skills.items()]:
        commands.setdefault(name, told)
    return Sources(
        commands=commands,
        arguments={one.name: one.wants for one in COMMANDS if one.wants},
        values=values,
        files=files,
    )
