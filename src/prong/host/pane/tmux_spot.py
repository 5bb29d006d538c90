"""Where a pane goes in tmux, decided from what is there; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from prong.host.pane.pane import COLUMNS, LINES
from prong.host.pane.tmux_server import TmuxPane

WINDOW = "prong-team"
OUTSIDE = "Prong does not run inside tmux"


class TmuxSpot(msgspec.Struct, frozen=True, kw_only=True):
    """A place for a pane."""

    how: Literal["beside", "tiled", "window", "session"]
    """Beside the leader, in a window of ours, in a new window, in a new session."""
    target: str = ""
    """The pane to be split, or the session that the window is for."""
    across: bool = False
    """Side by side."""
    why: str = ""
    """Why it is not beside the leader."""


def place(
    panes: Sequence[TmuxPane], *, leader: str, ours: Collection[str], beside: int
) -> TmuxSpot:
    """Find the place for one more pane.

    `leader` is the pane that Prong runs in, empty or unknown if it runs in none; `ours` are the
    panes of this leader's teammates, less the one that is to be placed.
    """
    me = next((pane for pane in panes if pane.id == leader), None)
    mine = [pane for pane in panes if pane.id in ours and pane.kind != "hidden"]
    near = [pane for pane in mine if me is not None and pane.window == me.window]
    why = _why_not_beside(me, near, beside)
    if me is not None and not why:
        target = near[-1] if near else me
        return TmuxSpot(how="beside", target=target.id, across=not near)
    tiles = [pane for pane in mine if pane.kind == "team"]
    for target in tiles:
        count = sum(pane.window == target.window for pane in panes)
        if fits(target.window_width, target.window_height, count + 1):
            # If any can be split, the largest can.
            room = max(
                (pane for pane in panes if pane.window == target.window),
                key=lambda pane: pane.width * pane.height,
            )
            return TmuxSpot(how="tiled", target=room.id, across=room.width > 2 * COLUMNS, why=why)
    if me is not None:
        return TmuxSpot(how="window", target=me.session, why=why)
    if mine:
        return TmuxSpot(how="window", target=mine[0].session, why=why)
    return TmuxSpot(how="session", why=why)


def _why_not_beside(me: TmuxPane | None, near: Sequence[TmuxPane], beside: int) -> str:
    if me is None:
        return OUTSIDE
    if len(near) >= beside:
        return f"{beside} teammates are beside the leader already" if beside else "as is set"
    if me.zoomed:
        return "this window is zoomed"
    room = near[-1] if near else me
    width, height = (room.width, _half(room.height)) if near else (_half(room.width), room.height)
    if width < COLUMNS or height < LINES:
        return f"there is no room beside the leader at {me.window_width}x{me.window_height}"
    return ""


def _half(cells: int) -> int:
    return (cells - 1) // 2


def fits(width: int, height: int, count: int) -> bool:
    """Whether so many panes, tiled as tmux does it, are each large enough to be read."""
    rows = columns = 1
    while rows * columns < count:
        rows += 1
        if rows * columns < count:
            columns += 1
    return (width + 1) // columns - 1 >= COLUMNS and (height + 1) // rows - 1 >= LINES
