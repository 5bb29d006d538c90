"""What the terminal understands, and whether there is a screen beside it."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    from prong.system import windows_call

    WHY_NO_KEYS = "on Windows keys are not read one by one"
    """Why a face cannot have single keys; empty if it can."""

    def is_dumb() -> bool:
        """Whether the terminal says that it understands nothing but text."""
        named = os.environ.get("TERM")
        return named == "dumb" if named else not windows_call.understand_escapes()

else:
    WHY_NO_KEYS = ""
    """Why a face cannot have single keys; empty if it can."""

    def is_dumb() -> bool:
        """Whether the terminal says that it understands nothing but text."""
        return os.environ.get("TERM", "dumb") == "dumb"


def has_screen() -> bool:
    """Whether a browser has where to appear, or the user has named one.

    Elsewhere the only ones that could be found are of the terminal: they would take it, cover the
    address, and run no scripts.
    """
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in names)
