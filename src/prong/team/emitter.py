"""What a child says and does, on its way to the faces."""

from __future__ import annotations

from collections.abc import Callable

from prong.event import Event, ReplyFinished, ToolStarted
from prong.ids import AgentPath
from prong.team.log import Log


class Emitter:
    """Tells the faces of events in a child's name, and keeps a log and a count of what it does."""

    def __init__(
        self,
        path: AgentPath,
        tell: Callable[[AgentPath, Event], None],
        *,
        text: str = "",
        tool_uses: int = 0,
    ) -> None:
        """Take the child's path and the way to the faces; go on from what is known of it."""
        self._path = path
        self._tell = tell
        self._log: Log | None = None
        self.text = text
        """The text of its last reply."""
        self.tool_uses = tool_uses

    def emit(self, event: Event) -> None:
        """Tell of an event."""
        if line := log_line(event):
            if isinstance(event, ReplyFinished):
                self.text = line
            else:
                self.tool_uses += 1
            if self._log is not None:
                self._log.take(f"{line}\n".encode())
        self._tell(self._path, event)

    def log_to(self, log: Log) -> None:
        """Write what the child says and does to the log of its run."""
        self._log = log


def log_line(event: Event) -> str:
    """Give what a log of an agent has of an event: what it said, what it did; else nothing."""
    match event:
        case ReplyFinished(text=text, sidecar=""):
            return text
        case ToolStarted(title=title):
            return f"* {title}"
        case _:
            return ""
