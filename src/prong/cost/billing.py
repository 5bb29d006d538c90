"""What an agent's requests are billed to: price lists, the session's ledger, its own budget."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from prong.cost.budget import Budget
from prong.cost.ledger import Charge, Ledger
from prong.cost.price import Prices


class Billing(Struct, frozen=True, kw_only=True):
    """Prices requests, enters each once, and says when nothing more may be spent."""

    prices: Prices
    ledger: Ledger
    """Every request of the session."""
    budget: Budget = field(default_factory=Budget)
    """What the agent and everything it starts may spend."""

    def priced(self, row: Charge) -> Charge:
        """Say what a request cost; None where nobody knows the model's price."""
        price = self.prices.of(row.model, row.usage)
        if price is None:
            return replace(row, cost=None, uncached=None)
        return replace(row, cost=price.cost(row.usage), uncached=price.uncached(row.usage))

    def enter(self, row: Charge) -> None:
        """Enter a request that was stored, in the ledger and in every budget it counts in."""
        self.ledger.add(row)
        self.budget.charge(row.tokens, row.cost, turns=int(row.is_turn), model=row.model)

    def spent(self, model: str) -> str | None:
        """Say why no request may be sent to a model; None if one may."""
        return self.budget.spent() or self._unpriced(model)

    def _unpriced(self, model: str) -> str | None:
        left = self.budget.left().usd
        if left is None or self.prices.of(model) is not None:
            return None
        return (
            f"the budget, of which ${left:.4f} are left, cannot be kept: the price of {model} is "
            "unknown; add it to prices.json or drop the budget"
        )
