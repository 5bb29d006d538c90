"""The agents of a session and what runs in the background, a row each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from prong.event import MAIN, PermissionAsked
from prong.face.draw.phrase import dollars, lasted, name_of, percent, place_of
from prong.face.draw.row import Row, Span, cells, crop, fit, in_ascii
from prong.view import Accounted, AgentView, TaskView, View

_BAR = 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GLYPHS = {
    "idle": ("●", ""),
    "working": ("◐", "good"),
    "asking": ("?", "asks"),
    "waiting": ("·", "dim"),
    "completed": ("○", "dim"),
    "failed": ("✗", "bad"),
    "killed": ("✗", "bad"),
}
_BUSY = ("asking", "working", "waiting", "idle", "failed", "killed", "completed")
"""Who needs a look first."""


class Aspect(msgspec.Struct, frozen=True, kw_only=True):
    """How the tree is to be drawn."""

    width: int
    now: float = 0.0
    selected: str = ""
    """The path or task id of the row that is marked."""
    short: bool = False
    """One narrow row for each, without bars."""
    most: int | None = None
    """How many rows there may be: then the busiest come first, and the rest are counted."""
    ascii: bool = False


class _Line(msgspec.Struct, frozen=True):
    of: AgentView | TaskView
    branch: str

    @property
    def key(self) -> str:
        return self.of.path if isinstance(self.of, AgentView) else self.of.task_id

    @property
    def rank(self) -> int:
        state = self.of.state
        return _BUSY.index("working" if state == "running" else state)


def draw_tree(view: View, aspect: Aspect) -> list[Row]:
    """Draw all agents and commands, or the busiest of them."""
    lines = list(_lines(view, MAIN, ""))
    hidden: Sequence[_Line] = ()
    if aspect.most is not None and len(lines) > aspect.most:
        lines = sorted(lines, key=lambda line: line.rank)
        lines, hidden = lines[: aspect.most - 1], lines[aspect.most - 1 :]
    flat = aspect.short or bool(hidden)
    agents = [line for line in lines if isinstance(line.of, AgentView)]
    names = max([6, *(cells(_named(line, flat=flat)) for line in agents)])
    rows = [_row(view, line, aspect, min(names, 18), flat=flat) for line in lines]
    if hidden:
        rows.append(fit([Span(_counted(hidden), "dim")], aspect.width))
    return [in_ascii(row) for row in rows] if aspect.ascii else rows


def _lines(view: View, path: str, branch: str) -> Iterator[_Line]:
    """Walk the tree from an agent down; `branch` is what stands before its children."""
    agent = view.agents.get(path)
    if agent is None:
        return
    if path == MAIN:
        yield _Line(agent, "")
    children: list[AgentView | TaskView] = [*view.children(path)]
    if path == MAIN:
        # Of an agent whose parent nobody has told of, at least that it is there.
        others = (one for one in view.agents.values() if one.path != MAIN)
        children += [one for one in others if one.parent not in view.agents]
    agents = {one.task_id for one in view.agents.values()}
    children += [task for task in view.running if task.agent == path and task.task_id not in agents]
    for number, child in enumerate(children, 1):
        last = number == len(children)
        yield _Line(child, branch + ("└" if last else "├"))
        if isinstance(child, AgentView) and child.path != path:
            yield from _lines(view, child.path, branch + ("  " if last else "│ "))


def _named(line: _Line, *, flat: bool) -> str:
    name = name_of(line.of) if isinstance(line.of, AgentView) else line.of.title
    return name if flat else f"{line.branch}{name}"


def _row(view: View, line: _Line, aspect: Aspect, names: int, *, flat: bool) -> Row:
    if isinstance(line.of, TaskView):
        spans = _task(line.of, line.branch, aspect, names, flat=flat)
    elif aspect.short:
        spans = _short(view, line.of, names)
    else:
        spans = _long(view, line.of, "" if flat else line.branch, names, ascii_=aspect.ascii)
    if line.key == aspect.selected:
        spans = [Span(span.text, f"{span.style} selected".strip()) for span in spans]
    return fit(spans, aspect.width, key=line.key)


def _long(view: View, agent: AgentView, branch: str, names: int, *, ascii_: bool) -> list[Span]:
    glyph, style = _GLYPHS[agent.state]
    room = max(4, names - cells(branch))
    name = crop(name_of(agent), room)
    short = bool(_missed(view, agent))
    bar = cache_bar(agent.last_cached, ascii_=ascii_)
    share = percent(agent.last_cached) if agent.requests else ""
    return [
        Span(branch, "dim"),
        Span(f"{glyph} ", style),
        Span(f"{name}{' ' * (room - cells(name))} ", _name_style(agent)),
        Span(f"{f'{agent.requests}t':>3} "),
        Span(f"{bar} ", "bar.short" if short else "bar"),
        Span(f"{share:>4}{'!' if short else ' '}", "bad" if short else ""),
        Span(f"{dollars(agent.cost):>6} "),
        *_where(agent),
        *_doing(view, agent),
    ]


def _short(view: View, agent: AgentView, names: int) -> list[Span]:
    glyph, style = _GLYPHS[agent.state]
    name = crop(name_of(agent), names)
    missed = bool(_missed(view, agent))
    share = percent(agent.last_cached) if agent.requests else ""
    return [
        Span(f"{glyph} ", style),
        Span(f"{name}{' ' * (names - cells(name))} ", _name_style(agent)),
        Span(f"{share:>4}{'!' if missed else ' '}", "bad" if missed else ""),
        Span(f"{dollars(agent.cost):>6} "),
        *_where(agent),
        *_doing(view, agent),
    ]


def _where(agent: AgentView) -> list[Span]:
    """Say where an agent works, and how things stand with what leads there."""
    where = place_of(agent)
    found = [Span(f"{where}: ", "dim")] if where else []
    if agent.line and not agent.ended:
        found.append(Span(f"{agent.line}; ", "asks"))
    if agent.away:
        found.append(Span("its work is still there; ", "asks"))
    return found


def _name_style(agent: AgentView) -> str:
    """Members of a team are told apart by their colours too, in the themes that have them."""
    if agent.colour:
        return f"member.{agent.colour}"
    return "strong" if agent.kind == "main" else ""


def _task(task: TaskView, branch: str, aspect: Aspect, names: int, *, flat: bool) -> list[Span]:
    lead = "" if flat else branch
    time = lasted(aspect.now - task.started_at)
    room = max(names - cells(lead), aspect.width - cells(lead) - cells(time) - 6)
    return [Span(lead, "dim"), Span("$ ", "good"), Span(crop(task.title, room)), Span(f"  {time}")]


def _doing(view: View, agent: AgentView) -> list[Span]:
    """Say what an agent does, or how it ended."""
    match agent.state:
        case "asking":
            return [Span(f"asks: {_question(view, agent)}", "asks")]
        case "completed":
            told = ["done"]
            told += ["missed"] if _missed(view, agent) else []
            told += [f"work kept on {agent.branch}"] if agent.kept else []
            return [Span(", ".join(told), "dim")]
        case "failed" | "killed":
            detail = f": {agent.detail}" if agent.detail else ""
            return [Span(f"{agent.state}{detail}", "bad")]
        case "waiting":
            return [Span("waits for its turn", "dim")]
        case "idle":
            rests = {"work": "sleeps", "plan": "its plan waits for your answer", "end": "ends"}
            asks = "asks" if agent.rests == "plan" else "dim"
            return [Span(rests[agent.rests], asks)] if agent.rests else []
        case _:
            return [Span(agent.doing or "works")]


def _question(view: View, agent: AgentView) -> str:
    for asked in view.questions.values():
        if asked.agent == agent.path:
            if isinstance(asked.asked, PermissionAsked):
                return asked.asked.title
            return asked.asked.questions[0].question if asked.asked.questions else ""
    return ""


def _missed(view: View, agent: AgentView) -> str:
    receipt = view.receipts.get(agent.task_id)
    return agent.missed or (receipt.paid.miss if receipt is not None else "")


def cache_bar(share: float | None, *, ascii_: bool = False) -> str:
    """Draw a share in eighths of a cell; what falls short of all is never drawn full."""
    if share is None:
        return "[........]" if ascii_ else " " * _BAR
    eighths = min(round(share * 64), 64 if share >= 1 else 63)
    full, part = divmod(max(0, eighths), 8)
    if ascii_:
        return f"[{'#' * full}{'.' * (_BAR - full)}]"
    bar = "█" * full + (_EIGHTHS[part] if part else "")
    return bar.ljust(_BAR)


def _counted(hidden: Sequence[_Line]) -> str:
    states: dict[str, int] = {}
    for line in sorted(hidden, key=lambda line: line.rank):
        name = {"completed": "done", "running": "working"}.get(line.of.state, line.of.state)
        states[name] = states.get(name, 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in states.items())
    return f"… {len(hidden)} more: {told}"


def draw_fan(view: View, width: int) -> list[Row]:
    """Say in one row what the last fan-out shared, and what each of its forks read of it."""
    fans = [item for item in view.main.transcript if isinstance(item, Accounted)]
    if not fans:
        return []
    paid = [receipt.paid for receipt in fans[-1].receipts if receipt.paid.tokens_shared]
    if not paid:
        return []
    read = " ".join(percent(min(1.0, one.read / one.tokens_shared))[:-1] for one in paid)
    base = max(one.tokens_shared for one in paid)
    told = f"fan-out {len(fans)}: base {base:,} tok · read {read} %"
    return [fit([Span(told, "dim")], width)]
