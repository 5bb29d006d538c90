"""Panes of the user's terminal: opened, listed, named, hidden and closed."""

from prong.host.pane.pane import (
    BESIDE,
    OpenedPane,
    Pane,
    PaneBackend,
    PaneColour,
    PaneMark,
    PaneSetup,
    PaneSpec,
    pane_colour,
    sweep,
)

__all__ = [
    "BESIDE",
    "OpenedPane",
    "Pane",
    "PaneBackend",
    "PaneColour",
    "PaneMark",
    "PaneSetup",
    "PaneSpec",
    "pane_colour",
    "sweep",
]
