"""The title of the terminal's window: what a session is about, and that somebody is waited for."""

from __future__ import annotations

import os.path
from collections.abc import Generator
from contextlib import contextmanager

from prong.face.output import control, drawable
from prong.view import View

_LONGEST = 60


def window_title(view: View) -> str:
    """Name the window after a session; a mark says that a question waits."""
    name = drawable(view.title or os.path.basename(view.cwd))[:_LONGEST]  # noqa: PTH119 - a plain string
    return f"{'? ' if view.questions else ''}prong · {name}"


def title_code(title: str) -> str:
    """Give what a terminal has to be sent to show a title."""
    return f"\x1b]2;{title}\x07"


@contextmanager
def borrowed_title() -> Generator[None]:
    """Have the terminal keep the title that it shows, and show it again afterwards."""
    control("\x1b[22;2t")
    try:
        yield
    finally:
        control("\x1b[23;2t")
