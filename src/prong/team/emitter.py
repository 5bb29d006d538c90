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
        match event:
            case ReplyFinished(text=text, sidecar="") if text:
                self.text = text
                self._write(text)
            case ToolStarted(title=title):
                self.tool_uses += 1
                self._write(f"* {title}")
            case _:
                pass
        self._tell(self._path, event)

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.take(f"{text}\n".encode())

    def log_to(self, log: Log) -> None:
        """Write what the child says and does to the log of its run."""
        self._log = log
