"""Budgets: bounds on tokens, money, turns and time that hold for a whole tree of agents.

A budget belongs to one agent and everything it starts. A child with bounds of its own reserves
them in its parent's when it is made, so that siblings cannot promise the same money twice; what it
did not spend goes back when it ends. A child without bounds draws from its parent. Either way each
request is charged once, to the agent that sent it, and counts in every budget above.

Nothing can know what a reply will cost, so a bound is looked at before each request: a budget is
overdrawn by one reply of each agent that is running at that moment, at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

_What: TypeAlias = Literal["tokens", "usd", "turns"]
_KINDS: tuple[_What, ...] = ("tokens", "usd", "turns")


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be spent; None is no bound."""

    tokens: int | None = None
    """Input and output together."""
    usd: float | None = None
    turns: int | None = None
    """Requests."""
    seconds: float | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is bounded."""
        return self == Bounds()


class Budget:
    """What an agent and everything it starts may spend, and has spent."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        *,
        parent: Budget | None = None,
        name: str = "the session",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use `child` to make a budget below another."""
        self.bounds = bounds or Bounds()
        self.name = name
        self.tokens = 0
        self.usd = 0.0
        self.turns = 0
        self._parent = parent
        self._clock = clock
        self._since = clock()
        self._unpriced: set[str] = set()
        # What children have reserved here or further down, and not spent yet.
        self._promised: dict[_What, float] = dict.fromkeys(_KINDS, 0.0)
        # What this budget has reserved above and not spent yet; only kinds with a bound of its own.
        self._held: dict[_What, float] = {}

    def child(self, name: str, asked: Bounds | None = None) -> Budget | str:
        """Make the budget of a child, its bounds reserved; or say why nothing is left for it.

        Where less is left than was asked for, the child gets what is left: its bounds say so.
        """
        if (why := self.spent()) is not None:
            return why
        asked, left = asked or Bounds(), self.left()
        given = Bounds(
            tokens=None if asked.tokens is None else int(_least(asked.tokens, left.tokens)),
            usd=None if asked.usd is None else _least(asked.usd, left.usd),
            turns=None if asked.turns is None else int(_least(asked.turns, left.turns)),
            seconds=None if asked.seconds is None else _least(asked.seconds, left.seconds),
        )
        budget = Budget(given, parent=self, name=name, clock=self._clock)
        for what in _KINDS:
            amount = getattr(given, what)
            if amount is not None and amount <= 0:
                budget.close()
                return f"all {what} of the budget of {self.name} are promised to running agents"
            if amount is not None:
                budget._hold(what, amount)
        return budget

    def left(self) -> Bounds:
        """Say what is neither spent nor promised, here and in every budget above."""
        if self.bounds == _FREE:
            return _FREE if self._parent is None else self._parent.left()
        own = {what: self._left(what) for what in _KINDS}
        seconds = _INFINITE if self.bounds.seconds is None else self.bounds.seconds - self._age
        if self._parent is not None:
            above = self._parent.left()
            seconds = _least(seconds, above.seconds)
            for what in _KINDS:
                limit = getattr(above, what)
                # What this budget reserved above is its own to spend, not promised to others.
                limit = _INFINITE if limit is None else limit + self._held.get(what, 0.0)
                own[what] = min(own[what], limit)
        tokens, turns = own["tokens"], own["turns"]
        return Bounds(
            tokens=None if tokens == _INFINITE else int(tokens),
            usd=None if own["usd"] == _INFINITE else own["usd"],
            turns=None if turns == _INFINITE else int(turns),
            seconds=None if seconds == _INFINITE else seconds,
        )

    def charge(self, tokens: int, usd: float | None, *, turns: int = 1, model: str = "") -> None:
        """Enter one request, here and in every budget above."""
        self.remember(tokens, usd or 0.0, turns)
        if usd is None:
            self._unpriced.add(model or "the model")
        if self._parent is not None:
            self._free("tokens", tokens)
            self._free("usd", usd or 0.0)
            self._free("turns", turns)
            self._parent.charge(tokens, usd, turns=turns, model=model)

    def remember(self, tokens: int, usd: float, turns: int) -> None:
        """Count what was spent earlier and stands in the budgets above already."""
        self.tokens += tokens
        self.usd += usd
        self.turns += turns

    def restart(self) -> None:
        """Let the time begin anew, for work that is taken up again."""
        self._since = self._clock()

    def spent(self) -> str | None:
        """Say which bound is reached, here or above; None if the next request may be sent."""
        return self._own() or (self._parent.spent() if self._parent is not None else None)

    def close(self) -> None:
        """Give back what was reserved and not spent; to close twice does nothing."""
        for what in tuple(self._held):
            self._free(what, self._held[what])
        self._held.clear()

    def _own(self) -> str | None:
        bounds = self.bounds
        if bounds.tokens is not None and self.tokens >= bounds.tokens:
            return f"the budget of {bounds.tokens} tokens of {self.name} is spent ({self.tokens})"
        if bounds.usd is not None and self._unpriced:
            models = ", ".join(sorted(self._unpriced))
            return (
                f"the budget of ${bounds.usd:g} of {self.name} cannot be kept: the price of "
                f"{models} is unknown; add it to prices.json or drop the budget"
            )
        if bounds.usd is not None and self.usd >= bounds.usd:
            return f"the budget of ${bounds.usd:g} of {self.name} is spent (${self.usd:.4f})"
        if bounds.turns is not None and self.turns >= bounds.turns:
            return f"the budget of {bounds.turns} turns of {self.name} is spent"
        if bounds.seconds is not None and self._age >= bounds.seconds:
            return f"the {bounds.seconds:g} seconds allowed to {self.name} are over"
        return None

    @property
    def _age(self) -> float:
        return self._clock() - self._since

    def _left(self, what: _What) -> float:
        bound = getattr(self.bounds, what)
        if bound is None:
            return _INFINITE
        return bound - getattr(self, what) - self._promised[what]

    def _hold(self, what: _What, amount: float) -> None:
        assert self._parent is not None
        self._held[what] = amount
        self._parent.promise(what, amount)

    def _free(self, what: _What, amount: float) -> None:
        """Take back a part of what is held above: it was spent, or is not needed any more."""
        part = min(amount, self._held.get(what, 0.0))
        if part and self._parent is not None:
            self._held[what] -= part
            self._parent.promise(what, -part)

    def promise(self, what: _What, amount: float) -> None:
        """Count what a child reserves, up to the budget that has reserved as much itself."""
        self._promised[what] += amount
        if self._parent is not None and what not in self._held:
            self._parent.promise(what, amount)


_INFINITE = float("inf")
_FREE = Bounds()


def _least(one: float, other: float | None) -> float:
    return one if other is None else min(one, other)
