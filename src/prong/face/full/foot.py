"""The lower part of the screen: what is told, what waits, what is typed, and the keys."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prong.face.draw.header import describe_work, draw_keys
from prong.face.draw.row import Row, Span, cells, fit, wrap
from prong.face.edit.arrange import lay_out
from prong.face.edit.editor import Editor
from prong.face.line import counted
from prong.face.output import flat
from prong.face.status import describe_status
from prong.view import View

_QUEUED, _NOTES = 3, 6
"""Rows at most."""


class Panel(msgspec.Struct, frozen=True):
    """Lines that were asked for; some can be chosen from."""

    lines: tuple[tuple[str, str], ...]
    picks: tuple[str, ...] = ()
    """What each of the first lines means, as a command with a slash."""
    at: int = 0
    """The line that is marked, or the first in sight."""
    stays: bool = False
    """Whether who types goes on below it; otherwise that closes it."""

    def moved(self, step: int) -> Panel:
        """Go up or down; where lines end that are not chosen from, only who draws them knows."""
        at = max(0, self.at + step)
        return msgspec.structs.replace(self, at=min(at, len(self.picks) - 1) if self.picks else at)


class Foot(msgspec.Struct, frozen=True):
    """Rows, and the line and cell of the caret."""

    rows: tuple[Row, ...]
    caret: tuple[int, int]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What stands there and is in no view."""

    editor: Editor
    prompt: str = "> "
    above: Sequence[Row] = ()
    """A question or a panel."""
    notes: Sequence[tuple[str, str]] = ()
    """Lines that are told in passing, each with a style."""
    todos: Sequence[Row] = ()
    """What the agent that is looked at has to do."""
    status: Sequence[Row] = ()
    """The user's own status line."""
    keys: Sequence[tuple[str, str]] = ()
    """Keys, and what they do."""
    below: int = 0
    """Rows of the conversation below what is in sight."""


def draw_foot(view: View, content: Content, width: int, *, now: float, height: int) -> Foot:
    """Draw it in at most so many lines."""
    notes = content.notes
    told = [row for text, style in notes for row in _note(text, style, width)][-_NOTES:]
    waiting = list(view.queued.values())[-_QUEUED:]
    told += [fit([Span(f"  waits: {flat(one.text)}", "dim")], width) for one in waiting]
    told += content.todos
    if status := describe_status(view, now, alone=True):
        told.append(fit([Span(status, "dim")], width))
    laid = lay_out(content.editor, content.prompt, width, max(1, height // 3))
    typed = [Row((Span(text, style),)) for text, style in laid.rows]
    if laid.tail:
        typed[laid.row] = Row((*typed[laid.row].spans, Span(laid.tail, "dim")))
    rule = draw_rule(f"{counted(content.below, 'row')} below" if content.below else "", width)
    last = draw_keys(content.keys, width, note=describe_work(view))
    top = [*content.above, *told]
    # A question needs the room more.
    status = [] if content.above else [fit(row.spans, width) for row in content.status]
    status = status[: max(0, height - len(typed) - 4)]
    room = max(0, height - len(typed) - 2 - len(status))
    top = top[:room] if content.above else top[-room:] if room else []
    rows = (*top, rule, *typed, *status, last)
    return Foot(rows, (len(top) + 1 + laid.row, laid.column))


def _note(text: str, style: str, width: int) -> list[Row]:
    return [row for line in text.split("\n") for row in wrap([Span(line, style)], width)]


def draw_panel(
    panel: Panel, width: int, height: int, *, asked: bool = False
) -> tuple[list[Row], Panel]:
    """Draw a panel in so many lines; `asked` says that a question waits behind it.

    Gives it back, too, with the line that is really the first in sight.
    """
    room = max(1, height - 1)
    lines: list[Row] = []
    for number, (text, style) in enumerate(panel.lines):
        if panel.picks:
            worn = "selected" if number == panel.at else style
            lines.append(fit([Span(text or " ", worn)], width))
        else:
            lines += wrap([Span(text, style)], width)
    first = panel.at - room // 2 if panel.picks else panel.at
    first = max(0, min(first, len(lines) - room))
    shown = lines[first : first + room]
    place = f" {first + 1} to {first + len(shown)} of {len(lines)}, Up and Down ·"
    place = place if len(lines) > room else ""
    does = "Enter chooses, Esc closes" if panel.picks else "Esc closes"
    does += "; then a question" if asked else ""
    seen = panel if panel.picks else msgspec.structs.replace(panel, at=first)
    return [draw_rule(f"{place} {does}".strip(), width), *shown], seen


def draw_rule(name: str, width: int) -> Row:
    """Draw a line across, with a name in it."""
    lead = f"── {name} " if name else ""
    return fit([Span(lead + "─" * (width - cells(lead)), "dim")], width)
