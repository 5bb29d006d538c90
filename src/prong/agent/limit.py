"""How far a turn may go."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from prong.cost import Ledger


class Spent(msgspec.Struct, frozen=True):
    """A bound that was reached."""

    why: Literal["limit", "budget"]
    detail: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one run of an agent; None is no bound."""

    max_turns: int | None = None
    """Requests in one turn."""
    max_usd: float | None = None
    """Dollars in the whole session."""
    max_tokens: int | None = None
    """Tokens in the whole session, input and output."""
    deadline: float | None = None
    """On the monotonic clock."""

    def spent(self, turns: int, ledger: Ledger) -> Spent | None:
        """Say which bound has been reached; asked before every request."""
        if self.max_turns is not None and turns >= self.max_turns:
            return Spent("limit", f"the limit of {self.max_turns} turns was reached")
        budget = self._budget(ledger)
        return None if budget is None else Spent("budget", budget)

    def _budget(self, ledger: Ledger) -> str | None:
        if self.max_usd is not None and ledger.known_cost >= self.max_usd:
            return f"the budget of ${self.max_usd:g} is spent (${ledger.known_cost:.4f})"
        if self.max_usd is not None and ledger.unknown:
            models = ", ".join(sorted(ledger.unknown))
            return (
                f"the budget of ${self.max_usd:g} cannot be kept: the price of {models} is "
                f"unknown; add it to prices.json or drop the budget"
            )
        used = ledger.usage.input + ledger.usage.output
        if self.max_tokens is not None and used >= self.max_tokens:
            return f"the budget of {self.max_tokens} tokens is spent ({used})"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "the time allowed is over"
        return None
