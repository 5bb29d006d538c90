"""Tool calls as lines: a result always stands below the line of its own call."""

from __future__ import annotations

from prong.event import ToolFinished, ToolStarted
from prong.face.line import describe


class Calls:
    """Remembers whose line was written last, since calls may run beside each other."""

    def __init__(self) -> None:
        """Start with no calls."""
        self._last = ""

    def lines(self, event: ToolStarted | ToolFinished) -> list[tuple[str, str]]:
        """Say the beginning or the end of a call."""
        if isinstance(event, ToolFinished) and event.interrupted and not event.shown:
            return []
        orphan = isinstance(event, ToolFinished) and event.failed and self._last != event.call_id
        self._last = event.call_id
        above = [(f"* {event.title or event.name}", "bold")] if orphan else []
        return above + describe(event)
