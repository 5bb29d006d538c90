"""Where things stand on a screen of a given size."""

from __future__ import annotations

import msgspec

from prong.face.draw.tree import Aspect

_BESIDE = 120
"""Columns from which the agents stand beside the conversation."""
_SHORT = 100
_MOST = 6
_LEAST = 3
"""Lines for a row of the conversation, one of the agents, and the rule between them."""


class Placement(msgspec.Struct, frozen=True):
    """The parts of a screen, in cells."""

    conversation: tuple[int, int]
    """Columns and lines."""
    agents: tuple[int, int]
    """Columns and lines; no lines if there is only one agent: the header tells of it."""
    beside: bool
    """Whether the agents stand at the right, or below."""
    short: bool
    """Whether each agent has but a short row."""


def stand_beside(columns: int, count: int) -> bool:
    """Whether `count` agents stand at the right of the conversation; one alone needs no room."""
    return columns >= _BESIDE and count > 1


def arrange(columns: int, lines: int, *, count: int, below: int = 2) -> Placement:
    """Divide a screen among a header, the conversation, `count` agents and lines for the input."""
    room = max(1, lines - 1 - below)
    if stand_beside(columns, count):
        width = min(66, columns * 9 // 20)
        return Placement((columns - width - 1, room), (width, room), beside=True, short=False)
    shown = 0 if count <= 1 or room < _LEAST else min(count, _MOST, max(1, room // 3))
    rule = 1 if shown else 0
    return Placement(
        (columns, max(1, room - shown - rule)),
        (columns, shown),
        beside=False,
        short=columns < _SHORT,
    )


def aspect_of(
    placement: Placement, *, now: float, selected: str = "", ascii_: bool = False
) -> Aspect:
    """Say how the tree is drawn in its place."""
    width, lines = placement.agents
    return Aspect(
        width=width,
        now=now,
        selected=selected,
        short=placement.short,
        most=max(1, lines),
        ascii=ascii_,
    )
