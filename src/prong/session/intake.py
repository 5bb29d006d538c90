"""What the user puts before the main agent, and what hooks add to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

from prong.agent import Agent, Verdict
from prong.entry import Part, Text, User, plain
from prong.event import MessageQueued, MessageUnqueued, Warned
from prong.session.planning import Planner


def new_prompt_id() -> str:
    """Make a name for what the user says, in the form that hooks know."""
    digits = os.urandom(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Intake:
    """Fills the main agent's inbox."""

    def __init__(self, agent: Agent, planner: Planner) -> None:
        """Nothing waits yet."""
        self._agent = agent
        self._planner = planner
        self._notes: list[User] = []
        self._queued: dict[str, User] = {}
        self._count = 0

    async def consult(self, message: Sequence[Part], prompt_id: str) -> str | None:
        """Ask the hooks about a message; gives why it is refused, if it is."""
        told = {"prompt": plain(tuple(message)), "prompt_id": prompt_id}
        verdict = await self._agent.consult("UserPromptSubmit", told, heeds=False)
        if verdict.block is None:
            self.heed(verdict)
            return None
        why = f"a hook refused the message: {verdict.block}"
        self._agent.emit(Warned(text=why))
        return why

    def put(
        self,
        message: Sequence[Part],
        *,
        prompt_id: str = "",
        taken: Callable[[], None] | None = None,
        queued: bool = False,
    ) -> User:
        """Put a message before the agent; `taken` is called once it stands in the conversation.

        From then on hooks know by `prompt_id` what the work is about. One that is `queued` has to
        wait for a turn that runs, which everybody is told.
        """
        entry = User(tuple(message))
        notes, self._notes = self._notes, []
        prompt = self._agent.conversation.prompt
        if (reminder := self._planner.reminder(prompt, entry.text)) is not None:
            notes.append(reminder)
        for note in notes:
            self._agent.inbox.put(note)
        if queued:
            taken = self._queue(entry, taken)

        def begin() -> None:
            self._agent.run.take_up(prompt_id)
            if taken is not None:
                taken()

        self._agent.inbox.put(entry, taken=begin)
        return entry

    def _queue(self, entry: User, taken: Callable[[], None] | None) -> Callable[[], None]:
        self._count += 1
        message_id = f"message-{self._count}"
        self._queued[message_id] = entry
        self._agent.emit(MessageQueued(message_id=message_id, text=entry.text))

        def take() -> None:
            self._unqueue(message_id, "taken")
            if taken is not None:
                taken()

        return take

    def _unqueue(self, message_id: str, outcome: Literal["taken", "withdrawn", "lost"]) -> None:
        if self._queued.pop(message_id, None) is not None:
            self._agent.emit(MessageUnqueued(message_id=message_id, outcome=outcome))

    def named(self, entry: User) -> tuple[str, ...]:
        """Give the id under which a message waits, if it does."""
        return tuple(name for name, waiting in self._queued.items() if waiting is entry)

    def withdraw(self, message_id: str) -> tuple[str, str] | None:
        """Take back a message that waits, or the last one; gives its id and text."""
        message_id = message_id or next(reversed(self._queued), "")
        entry = self._queued.get(message_id)
        if entry is None or not self._agent.inbox.withdraw(entry):
            return None
        self._unqueue(message_id, "withdrawn")
        return message_id, entry.text

    def close(self) -> None:
        """Say that what still waits will not be put before the agent any more."""
        for message_id in [*self._queued]:
            self._unqueue(message_id, "lost")

    def note(self, text: str) -> None:
        """Tell the model something with the next message; nothing if it is empty."""
        if text:
            self._notes.append(User((Text(text),), "reminder"))

    def heed(self, verdict: Verdict) -> None:
        """Take over what hooks want to say to the user, and to the model with the next message."""
        for warning in verdict.warnings:
            self._agent.emit(Warned(text=warning))
        self._notes += [User((Text(note),), "reminder") for note in verdict.context]
