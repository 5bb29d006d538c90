"""What a face has done beside the talk: a title for the session, what may be said next."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup

from prong.event import MAIN, Envelope, TurnFinished
from prong.face.carry import Titling
from prong.face.suggestion import Suggesting
from prong.session import Session


class SideWork:
    """Everything that the model is asked while nobody waits for it."""

    def __init__(self, session: Session) -> None:
        """Work for a session."""
        self.titling = Titling(session)
        self.suggesting = Suggesting(session)

    def heed(self, envelope: Envelope) -> None:
        """Take note of what happens."""
        self.suggesting.heed(envelope)
        event = envelope.event
        if isinstance(event, TurnFinished) and envelope.agent == MAIN and event.why == "done":
            self.titling.turned()

    def begin(self, group: TaskGroup, hint: Callable[[str], None] | None) -> None:
        """Begin; without a place for a hint only titles are made."""
        group.start_soon(self.titling.run)
        if hint is not None:
            group.start_soon(self.suggesting.run, hint)
