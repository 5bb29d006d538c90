"""How far a run of the loop may go, and what ends it before its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from prong.agent.repeat import Repeats
from prong.agent.verdict import Verdict
from prong.event import Warned

STOP_REFUSALS = 8
"""How often hooks may keep an agent from ending that does nothing in between."""


class Spent(msgspec.Struct, frozen=True):
    """A bound that was reached."""

    why: Literal["limit", "budget"]
    detail: str


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one turn of an agent; None is no bound. What may be spent is in its budget."""

    max_turns: int | None = None
    """Requests in one turn."""

    def spent(self, turns: int) -> Spent | None:
        """Say which bound has been reached; asked before every request."""
        if self.max_turns is None or turns < self.max_turns:
            return None
        return Spent("limit", f"the limit of {self.max_turns} turns was reached")


class StopRefusals(msgspec.Struct):
    """How often hooks have kept an agent from ending since it last did something."""

    count: int = 0

    @property
    def active(self) -> bool:
        """Whether the agent goes on because of them."""
        return self.count > 0

    def worked(self) -> None:
        """Take note that the agent did something; that hooks keep it is not forgotten."""
        self.count = min(self.count, 1)

    def refusal(self, verdict: Verdict, warn: Callable[[Warned], None]) -> str | None:
        """Give why hooks do not let the agent end; None if it ends.

        It also ends, with a warning, after too many refusals in a row.
        """
        if verdict.stop is not None or verdict.block is None:
            return None
        if self.count >= STOP_REFUSALS:
            warn(Warned(text=f"hooks refused the end {self.count} times in a row; it ends now"))
            return None
        self.count += 1
        return verdict.block


class RunState(msgspec.Struct, kw_only=True):
    """The run at hand: its bounds, and what ends it after the calls at hand, if anything."""

    limits: TurnLimits = msgspec.field(default_factory=TurnLimits)
    halted: str = ""
    """Why it ends, if a hook wants it."""
    finale: str = ""
    """The text with which it ends, if a tool has given one."""
    prompt_id: str = ""
    """Names what the user said that this is about; for hooks, empty if nothing was said."""
    repeats: Repeats = msgspec.field(default_factory=Repeats)
    """What was called, for the guard against loops."""
    refusals: StopRefusals = msgspec.field(default_factory=StopRefusals)
    """How hooks keep it from ending."""

    def begin(self) -> None:
        """Forget what ended the run before, what was repeated in it, and who kept it going."""
        self.halted = self.finale = ""
        self.repeats.forget()
        self.refusals = StopRefusals()

    def take_up(self, prompt_id: str) -> None:
        """Let what follows be about something that the user said."""
        self.prompt_id = prompt_id

    def halt(self, why: str) -> None:
        """Let the run end after the calls at hand; the first reason counts."""
        self.halted = self.halted or why

    def end_with(self, text: str) -> None:
        """Let the run end with a text after the calls at hand."""
        self.finale = text
