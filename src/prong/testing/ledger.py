"""What the requests cost, in tokens at the plain input price.

    paid       sum over requests of  uncached + read * r + written_5m * w + written_1h * W
    uncached   sum over requests of  all input tokens
    least      sum over distinct blocks in their context, each in n requests:
               tokens * min(n, w + (n - 1) * r)

`least_possible` is what a perfect cache would have cost for the same requests: each distinct block
written once and read in all others, except that a block sent only once need not be written at all.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from prong.entry import Usage
from prong.testing.cache import Plan


class Rates(msgspec.Struct, frozen=True):
    """Prices of input tokens, relative to the plain price."""

    read: float = 0.1
    write_short: float = 1.25
    write_long: float = 2.0

    def cost(self, usage: Usage) -> float:
        """Give the price of a request's input."""
        return (
            usage.uncached
            + usage.read * self.read
            + (usage.written_5m + usage.written_30m) * self.write_short
            + (usage.written_1h + usage.written_12h) * self.write_long
        )


class Row(msgspec.Struct, frozen=True):
    """One request in the ledger."""

    number: int
    lineage: str
    model: str
    usage: Usage
    cost: float


class Ledger:
    """The rows of one server."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.rows: list[Row] = []
        self._sizes: dict[bytes, int] = {}
        self._uses: Counter[bytes] = Counter()

    def book(self, number: int, lineage: str, model: str, plan: Plan, output: int) -> Row:
        """Enter a request whose answer has begun."""
        usage = msgspec.structs.replace(plan.usage, output=output)
        row = Row(number, lineage, model, usage, self.rates.cost(usage))
        self.rows.append(row)
        before = 0
        for digest, total in zip(plan.chain, plan.tokens, strict=True):
            self._sizes[digest] = total - before
            before = total
        self._uses.update(plan.chain)
        return row

    def paid(self) -> float:
        """Give what was paid for input."""
        return sum(row.cost for row in self.rows)

    def uncached(self) -> float:
        """Give what the same requests had cost without any cache."""
        return float(sum(row.usage.input for row in self.rows))

    def least_possible(self) -> float:
        """Give what the same requests had cost with a perfect cache."""
        rates = self.rates
        return sum(
            self._sizes[digest] * min(uses, rates.write_short + (uses - 1) * rates.read)
            for digest, uses in self._uses.items()
        )
