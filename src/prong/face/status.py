"""What is being done now, what was said before, and what can be typed: of a view, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from prong.command import EFFORTS
from prong.event import Progressed
from prong.face.draw.phrase import lasted
from prong.face.edit.arrange import cut
from prong.face.edit.complete import Proposal, Sources
from prong.face.edit.external import CYCLE
from prong.face.line import counted, few, progress_bar
from prong.face.output import flat
from prong.face.slash import COMMANDS
from prong.session import Records
from prong.view import AgentView, Replied, Said, View

_NAMED = 3
"""Agents that are named in the line of what is being done."""
_DOING, _PRINTED = 32, 16
"""Cells for what is being done and for what it printed last, so that time and key are in sight."""
_PAST = 12
"""Lines of an earlier reply that are shown when a session is taken up."""


def describe_status(view: View, now: float, *, alone: bool = False) -> str:
    """Say in one line what is being done; empty if nothing is. `alone` leaves the others out."""
    parts: list[str] = []
    main = view.main
    if view.busy and main.asks:
        parts.append("waits for your answer")
    elif view.busy:
        doing = _progress(main) or cut(main.doing, _DOING) or "works"
        since = view.at if main.doing_since is None else main.doing_since
        printed = _output(main)
        told = f"{doing} {lasted(now - since)}{printed if alone else cut(printed, _PRINTED)}"
        parts.append(_trying(main, now) or told)
    if alone:
        return f"· {parts[0]}" if parts else ""
    if view.busy:
        parts.append("Ctrl+C interrupts")
    others = [agent for agent in view.agents.values() if agent.task_id and not agent.ended]
    parts += [
        f"{agent.task_id} {_progress(agent) or cut(agent.doing, _DOING) or agent.state}"
        for agent in others[:_NAMED]
    ]
    if len(others) > _NAMED:
        parts.append(f"{len(others) - _NAMED} more")
    ours = {agent.task_id for agent in others}
    commands = [task for task in view.running if task.task_id not in ours]
    if commands:
        parts.append(counted(len(commands), "command"))
    return f"· {' · '.join(parts)}" if parts else ""


def _trying(agent: AgentView, now: float) -> str:
    """Say when a request is tried again, and why; the reason may be long, so it comes last."""
    request = agent.retried
    if request is None:
        return ""
    wait = request.again_at - now
    when = f" in {wait:.0f} s" if wait > 0 else f", {-wait:.0f} s"
    return f"try {request.tries}{when}: {request.void}"


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
    own = [one for one in items if isinstance(one, Said) and one.kind == "user"]
    if not began or not items:
        return
    yield "(earlier)", "dim"
    if own:
        yield f"> {' '.join(few(own[-1].text, 3))}", "dim"
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
    resources = await records.resources() if "@" in text else {}
    models = await records.models() if text.startswith("/model ") else ()
    served = [Proposal(name, flat(told)) for name, told in resources.items()]
    return replace(_sources(view, records, files, models), resources=served)


def _sources(view: View, records: Records, files: Sequence[str], models: Sequence[str]) -> Sources:
    children = [one for one in view.agents.values() if one.task_id]
    values = {
        "mode": [Proposal(mode) for mode in (*CYCLE, "dontAsk", "bypassPermissions", "next")],
        "agent": [Proposal(one.task_id, one.title) for one in children],
        "task": [Proposal(one.task_id, one.title) for one in view.running],
        "session": [Proposal(one.id, one.title) for one in records.others()[:50]],
        "type": [Proposal(name) for name in records.types],
        "effort": [Proposal(level) for level in EFFORTS],
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
