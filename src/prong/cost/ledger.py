"""A ledger of every request, in one normal form for all providers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from prong.entry import Usage
from prong.ids import AgentPath, upwards


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """One request and what it cost."""

    agent: AgentPath
    model: str
    usage: Usage
    cost: float | None
    """In dollars; None when the model's price is unknown."""
    uncached: float | None = None
    """What the same tokens would have cost without a cache."""
    latency: float = 0.0
    first_event: float = 0.0
    digest: str = ""
    """Identifies the prompt that was sent."""
    response_id: str = ""
    sidecar: str = ""
    marks: int = 0
    broken: bool = False
    """No whole reply came of it; what the provider had counted until then is here all the same."""

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.usage.input + self.usage.output

    @property
    def is_turn(self) -> bool:
        """Whether a conversation went on by it: it was nothing beside one, and was answered."""
        return not (self.sidecar or self.broken)


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """A sum over rows."""

    requests: int
    usage: Usage
    cost: float | None
    """None as soon as one request has no known price: an unknown price never counts as free."""
    uncached: float | None
    latency: float
    """Seconds that the requests took, added up: more than passed where some ran at once."""


class Ledger:
    """The rows of a session."""

    def __init__(self, rows: Iterable[Charge] = ()) -> None:
        """Start from the rows of a journal, or from none."""
        self.rows: list[Charge] = []
        self._below: dict[str, list[Charge]] = {}
        for row in rows:
            self._enter(row)
        self._spent = sum(row.cost or 0.0 for row in self.rows)
        self._usage = sum((row.usage for row in self.rows), Usage())
        self._unknown = {row.model for row in self.rows if row.cost is None}

    def add(self, row: Charge) -> None:
        """Enter a request, once."""
        self._enter(row)
        self._spent += row.cost or 0.0
        self._usage += row.usage
        if row.cost is None:
            self._unknown.add(row.model)

    def _enter(self, row: Charge) -> None:
        self.rows.append(row)
        for path in upwards(row.agent):
            self._below.setdefault(path, []).append(row)

    def of(self, agent: str) -> Sequence[Charge]:
        """Give the rows of an agent and of all below it, in the order in which they came."""
        return self._below.get(agent, ())

    @property
    def usage(self) -> Usage:
        """All tokens so far."""
        return self._usage

    @property
    def cost(self) -> float | None:
        """Dollars so far; None if some request's price is unknown."""
        return None if self._unknown else self._spent

    @property
    def unknown(self) -> frozenset[str]:
        """Models whose price nobody knows."""
        return frozenset(self._unknown)


def total(rows: Iterable[Charge]) -> Total:
    """Sum rows up."""
    rows = list(rows)
    costs = [row.cost for row in rows]
    plain = [row.uncached for row in rows]
    return Total(
        requests=len(rows),
        usage=sum((row.usage for row in rows), Usage()),
        cost=None if None in costs else sum(c for c in costs if c is not None),
        uncached=None if None in plain else sum(c for c in plain if c is not None),
        latency=sum(row.latency for row in rows),
    )


def by_model(rows: Sequence[Charge]) -> dict[str, Total]:
    """Sum up the rows of each model, in the order in which they were first asked."""
    models = dict.fromkeys(row.model for row in rows)
    return {model: total(row for row in rows if row.model == model) for model in models}
