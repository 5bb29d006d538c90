"""What is said of a session, line after line, as its events come."""

from __future__ import annotations

from prong.event import (
    MAIN,
    AgentStarted,
    Envelope,
    Event,
    MessageUnqueued,
    ReceiptIssued,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    TaskFinished,
    TaskStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from prong.face.call import Calls
from prong.face.line import BROKEN_OFF, describe, describe_end
from prong.face.prose import Prose
from prong.face.screen import InputLine, Screen
from prong.face.task_list import TaskLines
from prong.session import Session

_ASIDE = TaskStarted | TaskFinished | AgentStarted | ReceiptIssued
"""What others do is told between lines, not in the midst of one."""

_AS_IT_IS = ToolStarted | ToolFinished
"""Of these, lines are commands, code and output."""


class EventPrinter:
    """Writes events on a screen."""

    def __init__(self, session: Session, screen: Screen) -> None:
        """Write what a session tells."""
        self._session = session
        self._screen = screen
        self._calls = Calls()
        self._tasks = TaskLines()
        self._prose = Prose()
        self._sent: dict[str, InputLine] = {}
        """Messages that wait, by their ids."""

    def expect(self, ids: tuple[str, ...], line: InputLine) -> None:
        """Take note of a message that waits: it is written once it is taken in."""
        self._sent |= dict.fromkeys(ids, line)

    def withdrawn(self, message_id: str) -> InputLine | None:
        """Forget a message that was taken back; gives it as it was typed."""
        return self._sent.pop(message_id, None)

    def echo(self, line: InputLine, lead: str = "> ") -> None:
        """Leave what was typed on the screen, as it was typed."""
        text = line.buffer.text if line.buffer is not None else line.text
        first, *rest = text.split("\n")
        self._screen.line("\n".join([f"{lead}{first}", *(f"  {more}" for more in rest)]))

    def write(self, envelope: Envelope) -> None:
        """Say what an event tells."""
        # These name the child themselves.
        own = envelope.agent == MAIN or isinstance(envelope.event, _ASIDE)
        badge, event = "" if own else f"[{envelope.agent}] ", envelope.event
        match event:
            case TextDelta() | ReplyFinished() | RequestFailed() | TurnFinished():
                if not badge:
                    # Of a child its task tells how it ended, and what it says is its own.
                    self._said(event)
            case MessageUnqueued():
                self._unqueued(event)
            case ReplyDiscarded() if not badge:
                self._rest()
                for text, style in self._lines(event):
                    self._screen.line(text, style=style, words=True)
            case _:
                aside = badge or isinstance(event, _ASIDE)
                write = self._screen.notice if aside else self._screen.line
                words = not isinstance(event, _AS_IT_IS)
                for text, style in self._lines(event):
                    write(badge + text, style=style, words=words)

    def _said(self, event: TextDelta | ReplyFinished | RequestFailed | TurnFinished) -> None:
        match event:
            case TextDelta(text=text):
                self._more(text)
            case ReplyFinished(sidecar=""):
                self._rest()
            case RequestFailed(sidecar="", text=text):
                self._rest()
                if text:
                    self._screen.line(BROKEN_OFF, style="dim", words=True)
            case TurnFinished(why=why, detail=detail) if why != "done" or detail:
                style = "dim" if why == "done" else "bad"
                self._screen.line(describe_end(why, detail), style=style, words=True)
            case _:
                pass

    def _more(self, text: str) -> None:
        """Show more of a reply: whole blocks for good, of the rest the line that is written now."""
        screen = self._screen
        if screen.erases:
            screen.reply(self._prose.feed(text, screen.size[0] - 1), self._prose.pending)
        else:
            screen.text(text)

    def _rest(self) -> None:
        """Show the rest of a reply that has ended."""
        if self._screen.erases:
            self._screen.reply(self._prose.finish(self._screen.size[0] - 1), "")
        self._screen.end()

    def _unqueued(self, event: MessageUnqueued) -> None:
        line = self._sent.pop(event.message_id, None)
        if line is None or event.outcome == "withdrawn":
            return
        self.echo(line)
        if event.outcome == "lost":
            self._screen.line("(lost: the session ended before it was taken in)", style="bad")

    def _lines(self, event: Event) -> list[tuple[str, str]]:
        match event:
            case ToolStarted() | ToolFinished():
                lines = self._calls.lines(event)
                return [] if self._dispatched(event) else lines
            case AgentStarted():
                return self._tasks.began(event)
            case TaskStarted():
                return self._tasks.started(event)
            case ReceiptIssued():
                return self._tasks.paid(event)
            case TaskFinished():
                return self._tasks.ended(event, self._session.view())
            case _:
                return describe(event)

    def _dispatched(self, event: ToolStarted | ToolFinished) -> bool:
        """Whether it is the answer to a call whose agent works on, which is for the model alone."""
        if not isinstance(event, ToolFinished) or event.failed:
            return False
        agents = self._session.view().agents.values()
        return any(one.call_id == event.call_id and one.notify for one in agents)
