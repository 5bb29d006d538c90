"""How far a turn may go."""

from __future__ import annotations

from typing import Literal

import msgspec


class Spent(msgspec.Struct, frozen=True):
    """A bound that was reached."""

    why: Literal["limit", "budget"]
    detail: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one turn of an agent; None is no bound. What may be spent is in its budget."""

    max_turns: int | None = None
    """Requests in one turn."""

    def spent(self, turns: int) -> Spent | None:
        """Say which bound has been reached; asked before every request."""
        if self.max_turns is None or turns < self.max_turns:
            return None
        return Spent("limit", f"the limit of {self.max_turns} turns was reached")
