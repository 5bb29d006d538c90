"""What the user puts before the main agent, and what hooks add to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prong.agent import Agent, Verdict
from prong.entry import Part, Text, User, plain
from prong.event import Warned
from prong.session.planning import Planner


class Intake:
    """Fills the main agent's inbox."""

    def __init__(self, agent: Agent, planner: Planner) -> None:
        """Nothing waits yet."""
        self._agent = agent
        self._planner = planner
        self._notes: list[User] = []

    async def consult(self, message: Sequence[Part]) -> str | None:
        """Ask the hooks about a message; gives why it is refused, if it is."""
        text = plain(tuple(message))
        verdict = await self._agent.hooks.fire("UserPromptSubmit", {"prompt": text})
        if verdict.block is None:
            self.heed(verdict)
            return None
        why = f"a hook refused the message: {verdict.block}"
        self._agent.emit(Warned(text=why))
        return why

    def put(self, message: Sequence[Part], *, taken: Callable[[], None] | None = None) -> User:
        """Put a message before the agent; `taken` is called once it stands in the conversation."""
        entry = User(tuple(message))
        notes, self._notes = self._notes, []
        if (reminder := self._planner.reminder(self._agent.prompt, plain(entry.parts))) is not None:
            notes.append(reminder)
        for note in notes:
            self._agent.inbox.put(note)
        self._agent.inbox.put(entry, taken=taken)
        return entry

    def heed(self, verdict: Verdict) -> None:
        """Take over what hooks want to say to the user, and to the model with the next message."""
        for warning in verdict.warnings:
            self._agent.emit(Warned(text=warning))
        self._notes += [User((Text(note),), "reminder") for note in verdict.context]
