"""The line at the top of a screen, the one with the keys, and what stands between them at first."""

from __future__ import annotations

from collections.abc import Sequence

from prong.event import MAIN
from prong.face.draw.phrase import dollars, lasted, percent
from prong.face.draw.row import EMPTY, Row, Span, cells, fit, wrap
from prong.face.line import counted
from prong.view import View

_SOON = 60
"""Seconds before the end of which the reader is warned."""


def draw_header(view: View, width: int, *, now: float, path: str = MAIN) -> Row:
    """Say the model, the mode, whose conversation is shown, and what it costs and saves."""
    agent = view.agents.get(path) or view.main
    model = agent.model or view.model
    left = [Span("prong", "strong"), Span(f"  {model}")]
    extras = [Span(f" · {view.mode}") if view.mode else Span(""), Span(f" · {path}", "dim")]
    if view.title:
        extras.append(Span(f" · {view.title}", "dim"))
    right = _figures(view, path, now)
    # What does not fit goes whole, the least wanted first: a figure cut in two would mislead. The
    # mode, by which one knows what may happen unasked, goes after all figures but the cost.
    while _long([*left, *extras, *right]) + 2 > width and (extras or len(right) > 1):
        if len(extras) > 1 or len(right) == 1:
            extras.pop()
        else:
            right.pop(1)
    left = [*fit(left, max(0, width - _long(right) - 1)).spans]
    space = width - _long([*left, *extras, *right])
    return fit([*left, *extras, Span(" " * max(1, space)), *right], width)


def _figures(view: View, path: str, now: float) -> list[Span]:
    """Give cost, saving, cache and warmth, those first that shall stay longest."""
    figures = [Span(dollars(view.cost))]
    if view.saved is not None and view.saved > 0:
        figures.append(Span(f"  saved {dollars(view.saved)}", "good"))
    agent = view.agents.get(path) or view.main
    if agent.last_cached is not None:
        figures.append(
            Span(f"  cache {percent(agent.last_cached)}", "warn" if agent.missed else "")
        )
    warm = view.warm_until(path)
    if warm is not None:
        left = warm - now
        style = "warn" if left < _SOON else ""
        told = f"  warm {_clock(left)}" if left > 0 else "  cold"
        figures.append(Span(told, style if left > 0 else "dim"))
    return figures


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return lasted(whole) if whole >= _SOON else f"0:{whole:02}"


def draw_keys(keys: Sequence[tuple[str, str]], width: int, *, note: str = "") -> Row:
    """Name keys and what they do, as many as fit; a note stands at the left."""
    spans = [Span(note)] if note else []
    room = width - cells(note)
    shown: list[Span] = []
    for key, does in keys:
        piece = [Span("  "), Span(key, "key"), Span(f" {does}", "dim")]
        if _long(shown) + _long(piece) > room:
            break
        shown += piece
    return fit([*spans, Span(" " * max(0, room - _long(shown))), *shown], width)


def draw_hints(view: View, width: int) -> list[Row]:
    """Say where one is and what can be typed, as long as nothing has been said."""
    hints = (
        Span(view.cwd, "strong"),
        Span(
            "Say what is to be done. @ and Tab name a file, / and Tab a command; !ls runs ls.",
            "dim",
        ),
    )
    return [EMPTY, *(row for hint in hints for row in wrap([hint], width))]


def describe_work(view: View) -> str:
    """Say in few words what goes on: who asks, and how much runs."""
    asks, running = len(view.questions), len(view.running)
    parts = [counted(asks, "question")] if asks else []
    parts += [f"{running} in the background"] if running else []
    return ", ".join(parts)


def _long(spans: Sequence[Span]) -> int:
    return sum(cells(span.text) for span in spans)
