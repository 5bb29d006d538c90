"""How far a run of the loop may go, and what ends it before its time."""

from __future__ import annotations

from typing import Literal

import msgspec

from prong.agent.repeat import Repeats


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

    def begin(self) -> None:
        """Forget what ended the run before, and what was repeated in it."""
        self.halted = self.finale = ""
        self.repeats.forget()

    def halt(self, why: str) -> None:
        """Let the run end after the calls at hand; the first reason counts."""
        self.halted = self.halted or why

    def end_with(self, text: str) -> None:
        """Let the run end with a text after the calls at hand."""
        self.finale = text
