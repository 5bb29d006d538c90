"""Questions that wait for somebody's answer.

A permission request is an event with a reply slot. One desk serves a whole session: a child's
question appears in the same face as its parent's, in an envelope with the child's path, and the
answer goes back to that child alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeAlias, cast

import anyio

from prong.errors import UsageError
from prong.event import Answer, Event, PermissionAsked, QuestionAsked, RequestSettled

Asked: TypeAlias = PermissionAsked | QuestionAsked
Respond: TypeAlias = Callable[[str, Asked], Awaitable[Answer | None]]
"""Answers for the user; gets the agent's path and the request. None: nobody can answer."""


class Desk:
    """Hands questions out and answers back, each exactly once."""

    def __init__(self, respond: Respond | None = None, *, attended: bool = False) -> None:
        """Take a function that answers, or say that a face is there to send answers."""
        self._respond = respond
        self.attended = attended
        self._slots: dict[str, tuple[anyio.Event, list[Answer]]] = {}
        self._numbers = count(1)
        self.pending: dict[str, tuple[str, Asked]] = {}
        """Requests without an answer, in the order in which they came."""

    @property
    def answerable(self) -> bool:
        """Whether there is anybody to answer."""
        return self.attended or self._respond is not None

    def number(self) -> str:
        """Make an id for a request."""
        return f"ask-{next(self._numbers)}"

    async def ask(self, path: str, asked: Asked, emit: Callable[[Event], None]) -> Answer | None:
        """Put a question and wait for the answer; None if nobody can answer it."""
        if not self.answerable:
            return None
        arrived, box = self._slots[asked.request_id] = (anyio.Event(), [])
        self.pending[asked.request_id] = (path, asked)
        emit(asked)
        answer = None
        try:
            if self._respond is not None:
                answer = await _responded(self._respond, path, asked)
            else:
                await arrived.wait()
                answer = box[0] if box else None
        finally:
            self._slots.pop(asked.request_id, None)
            self.pending.pop(asked.request_id, None)
            emit(RequestSettled(request_id=asked.request_id, outcome=_outcome(answer)))
        return answer

    def leave(self) -> None:
        """Nobody is there any more to send answers: what waits for one is unanswerable."""
        self.attended = False
        for arrived, _ in self._slots.values():
            arrived.set()

    def settle(self, answer: Answer) -> bool:
        """Deliver an answer; False if nothing waits for it."""
        slot = self._slots.get(answer.request_id)
        if slot is None or slot[1]:
            return False
        slot[1].append(answer)
        slot[0].set()
        return True


async def _responded(respond: Respond, path: str, asked: Asked) -> Answer | None:
    """Ask the caller's function; what it does wrong is told as its own."""
    try:
        answer = cast("object", await respond(path, asked))
    except Exception as error:
        raise UsageError(f"the respond function failed: {type(error).__name__}: {error}") from error
    if answer is not None and not isinstance(answer, Answer):
        raise UsageError(
            f"the respond function failed: it gave {answer!r}, and must give an Answer or None"
        )
    return answer


def _outcome(answer: Answer | None) -> str:
    if answer is None:
        return "unanswered"
    return "allowed" if answer.allow else "refused"
