"""The user's own tmux window, left as it was.

Before our first pane comes into it, its layout is kept as an option of the window itself: whoever
closes the last pane there can restore it, after a crash as well. Titles are shown above panes while
ours are there. A window that the user has zoomed stays so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from prong.errors import PaneFailed
from prong.host.pane.tmux_server import BORDER, LAYOUT, TmuxPane, TmuxServer


async def keep_layout(server: TmuxServer, before: TmuxPane) -> None:
    """Remember how a window was, of which a pane tells, unless that is kept already."""
    if before.saved:
        return
    await server.run("set-option", "-w", "-t", before.id, LAYOUT, before.layout)
    if before.border in {"", "off"}:
        await server.run("set-option", "-w", "-t", before.id, BORDER, "1")
        await server.run("set-option", "-w", "-t", before.id, "pane-border-status", "top")


async def restore_layouts(server: TmuxServer) -> None:
    """Put back the layout of every window that had panes of ours and has none any more."""
    panes = await server.panes()
    windows = {pane.window: pane for pane in panes if pane.saved}
    for pane in panes:
        if pane.mark:
            windows.pop(pane.window, None)
    for window, pane in windows.items():
        for option in (LAYOUT, *((BORDER, "pane-border-status") if pane.bordered else ())):
            await server.run("set-option", "-w", "-u", "-t", window, option)
        # Panes that the user has opened or closed in the meantime have a layout of their own.
        if pane.saved != pane.layout and _leaves(pane.saved) == _leaves(pane.layout):
            await server.run("select-layout", "-t", window, pane.saved)
            await zoom_again(server, panes, window)


async def zoom_again(server: TmuxServer, before: Sequence[TmuxPane], window: str) -> None:
    """Zoom the pane of a window that was zoomed before something ended that."""
    for pane in before:
        if pane.window == window and pane.zoomed and pane.active:
            # It may be the one that was closed.
            with suppress(PaneFailed):
                await server.run("resize-pane", "-Z", "-t", pane.id)


def _leaves(layout: str) -> set[str]:
    """Give the panes that a layout holds."""
    return set(re.findall(r"\d+x\d+,\d+,\d+,(\d+)", layout))
