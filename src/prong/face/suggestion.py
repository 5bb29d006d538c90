"""What the user may want to say next: asked of the model beside the conversation."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from prong.command import Accepted, Suggest
from prong.event import MAIN, Envelope, TurnFinished, TurnStarted
from prong.face.output import flat
from prong.session import Session

_LONGEST = 300
"""Characters of a suggestion; a longer one is no line."""


class Suggesting:
    """Asks after each turn of the main agent that worked, and gives way to whatever else comes."""

    def __init__(self, session: Session) -> None:
        """Ask about a session."""
        self._session = session
        self._turned = anyio.Event()
        self._asking = anyio.CancelScope()

    def heed(self, envelope: Envelope) -> None:
        """Take note of what happens: a turn that has worked, or one that begins."""
        if envelope.agent != MAIN:
            return
        match envelope.event:
            case TurnFinished(why="done"):
                self._turned.set()
            case TurnStarted():
                self.cancel()
            case _:
                pass

    def cancel(self) -> None:
        """Give up, as when the user has said something."""
        self._asking.cancel()

    async def run(self, show: Callable[[str], None]) -> None:
        """Ask whenever there is something to ask for, and have it shown."""
        while self._session.records.suggests:
            await self._turned.wait()
            self._turned = anyio.Event()
            if self._is_idle():
                with anyio.CancelScope() as self._asking:
                    outcome = await self._session.send(Suggest())
                    if isinstance(outcome, Accepted) and self._is_idle():
                        show(_line(outcome.text))

    def _is_idle(self) -> bool:
        view = self._session.view()
        return not (view.busy or view.queued or view.questions)


def _line(text: str) -> str:
    """Give a suggestion as it can be sent; empty if it is none."""
    line = flat(text).strip().strip("\"'`")
    return line if len(line) <= _LONGEST else ""
