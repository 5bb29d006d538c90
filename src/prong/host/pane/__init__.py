"""Panes of the user's terminal: opened, listed, named, hidden and closed."""

from prong.host.pane.pane import (
    OpenedPane,
    Pane,
    PaneBackend,
    PaneColour,
    PaneMark,
    PaneSetup,
    PaneSpec,
    sweep,
)

__all__ = [
    "OpenedPane",
    "Pane",
    "PaneBackend",
    "PaneColour",
    "PaneMark",
    "PaneSetup",
    "PaneSpec",
    "sweep",
]
