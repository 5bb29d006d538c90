"""Tool calls: one line each, which unfolds into arguments and result."""

from __future__ import annotations

import json
from typing import cast

import msgspec

from prong.command import OWN_COMMAND
from prong.face.draw.patch import diff_size, draw_diff, is_diff
from prong.face.draw.phrase import lasted, name_of
from prong.face.draw.row import Row, Span, cells, fit, wrap
from prong.face.draw.stack import Drawn, Plain, RowSource, Stack
from prong.face.line import counted
from prong.view import AgentView, Called

_LEAD = Span("  ")
_GLYPHS = {"running": "◐", "done": "▸", "failed": "✗", "refused": "✗", "interrupted": "✗"}
_CHILDREN = {
    "working": ("◐", "good"),
    "waiting": ("·", "dim"),
    "asking": ("?", "asks"),
    "failed": ("✗", "bad"),
    "killed": ("✗", "bad"),
}
_STYLES = {"running": "asks", "done": "good"}
_WORTH = 10
"""Cells that the first line of a result must have to be worth showing."""
_OWN = 12
"""Rows of output that are shown at once, of the commands of which some is."""
_PEEK = 400
"""Characters of a result that are looked at for its first line."""
_COUNTED = 20_000
"""Characters of a result up to which its lines are counted."""


class StartedAgent(msgspec.Struct, frozen=True):
    """What the line of a call says of the agent that it has started."""

    name: str
    state: str
    started_at: float
    ended_at: float | None

    @classmethod
    def of(cls, agent: AgentView) -> StartedAgent:
        """Take it from an agent."""
        return cls(name_of(agent), agent.state, agent.started_at, agent.ended_at)


class Company(msgspec.Struct, frozen=True):
    """What beside a call itself is drawn of it."""

    now: int = 0
    """The time, while it runs."""
    child: StartedAgent | None = None
    """The agent that it has started."""
    output: str = ""
    """The last that it has written while it runs."""


def draw_call(call: Called, width: int, company: Company, *, unfolded: bool) -> RowSource:
    """Draw a call, and if it is unfolded all of it."""
    head = _head(call, width, company, unfolded=unfolded)
    if not unfolded:
        return Drawn([head, *_glimpse(call, width)])
    return Stack(Drawn([head, *_arguments(call, width)]), _result(call, width, company))


def _is_glimpsed(call: Called) -> bool:
    """Whether its output is shown at once: that of the user's own, and what was being looked at."""
    own = call.name == OWN_COMMAND and call.state != "running"
    return own or _is_cut_off(call)


def _is_cut_off(call: Called) -> bool:
    """Whether it was stopped when it had printed something."""
    return call.state == "interrupted" and bool(call.shown)


def _glimpse(call: Called, width: int) -> list[Row]:
    """Draw what is shown of a result before it is unfolded."""
    if not _is_glimpsed(call):
        return []
    result = _result(call, width, Company())
    more = len(result) - _OWN
    if more <= 0:
        return list(result.window(0, _OWN))
    if _is_cut_off(call):
        # Whoever stopped it has seen the end.
        above = fit([_LEAD, Span(f"… {counted(more, 'earlier line')}", "dim")], width, lead=2)
        return [above, *result.window(more, len(result))]
    below = fit([_LEAD, Span(f"▸ {counted(more, 'more line')}", "dim")], width, lead=2)
    return [*result.window(0, _OWN), below]


def _head(call: Called, width: int, company: Company, *, unfolded: bool) -> Row:
    failed = call.state not in _STYLES
    glyph, style = _GLYPHS[call.state], _STYLES.get(call.state, "bad")
    if company.child is not None:
        glyph, style = _CHILDREN.get(company.child.state, (glyph, style))
    glyph = "▾" if unfolded and not failed else glyph
    state = _state(call, company)
    peek = "" if unfolded or _is_glimpsed(call) else _peek(call, company)
    title = Span(call.title or call.name, "strong")
    room = width - 2 - (cells(state) + 2 if state else 0)
    # A title is cut before the state is: a reader must see at least whether it went well.
    shown = fit([title], max(8, room)).spans
    spans = [Span(f"{glyph} ", style), *shown]
    if state:
        spans.append(Span(f"  {state}", "bad" if failed else "dim"))
    if peek and sum(cells(span.text) for span in spans) + _WORTH <= width:
        spans.append(Span(f"  {peek}", "bad" if failed else "dim"))
    return fit(spans, width, lead=2)


def _state(call: Called, company: Company) -> str:
    if company.child is not None:
        child = company.child
        end = child.ended_at if child.ended_at is not None else company.now
        word = {"asking": "waits for you", "working": "running"}.get(child.state, child.state)
        return f"{child.name}  {word}  {lasted(end - child.started_at)}"
    if call.state == "running":
        return f"running  {lasted(company.now - call.at)}"
    size = diff_size(call.shown) if is_diff(call.shown) else ""
    time = lasted(call.duration) if call.duration >= 1 else ""
    return "  ".join(filter(None, ["" if call.state == "done" else call.state, size, time]))


def _peek(call: Called, company: Company) -> str:
    """Give the first line of a result, or the last of what is being written."""
    if call.state == "running":
        lines = company.output[-_PEEK:].split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    if company.child is not None or is_diff(call.shown):
        return ""
    text = call.shown or call.text
    lines = text[:_PEEK].split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    return f"{first}{_rest(text)}" if first else ""


def _rest(text: str) -> str:
    """Say how much more there is; of a large text without reading it."""
    if len(text) > _COUNTED:
        return f" ({len(text) / 1_000:,.0f} kB)"
    count = text.count("\n") + (not text.endswith("\n"))
    return f" (+{counted(count - 1, 'line')})" if count > 1 else ""


def _result(call: Called, width: int, company: Company) -> RowSource:
    if call.state == "running":
        return (
            Plain(company.output, width, lead=_LEAD, style="dim") if company.output else Drawn([])
        )
    text = call.shown or call.text
    if is_diff(text):
        return Drawn(draw_diff(text, width, lead=_LEAD))
    if not text.strip():
        return Drawn([fit([_LEAD, Span("(nothing)", "dim")], width)])
    # What a call had printed when it was cut off is no failure of its own.
    good = call.state == "done" or _is_cut_off(call)
    return Plain(text, width, lead=_LEAD, style="" if good else "bad")


def _arguments(call: Called, width: int) -> list[Row]:
    """Draw what was asked of the tool, unless the diff shows it."""
    if is_diff(call.shown) or not call.arguments:
        return []
    try:
        read: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        read = call.arguments
    if not isinstance(read, dict):
        return wrap([Span(call.arguments[:_SHOWN], "dim")], width, first=[_LEAD], rest=[_LEAD])
    rows: list[Row] = []
    for name, value in cast("dict[str, object]", read).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows += _argument(name, text, width)
    return rows


_SHOWN = 4_000


def _argument(name: str, text: str, width: int) -> list[Row]:
    label = Span(f"{name}: ", "dim")
    if "\n" not in text and len(text) <= _SHOWN:
        return wrap([label, Span(text)], width, first=[_LEAD], rest=[Span("    ")])
    body = Plain(text[:_SHOWN], width, lead=Span("    "))
    rows = [fit([_LEAD, label], width), *body.window(0, len(body))]
    if len(text) > _SHOWN:
        rest = f"… {len(text) - _SHOWN:,} more characters"
        rows.append(fit([Span("    "), Span(rest, "dim")], width))
    return rows
