"""A trial that says not only what was wrong, but how often what was done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable


class CountedTrial:
    """Tries something, and counts what it did, by kind, over all trials of a campaign."""

    def __init__(self, attempt: Callable[[random.Random, Counter[str]], str]) -> None:
        """Take what tries once, and adds to the counts."""
        self._attempt = attempt
        self.counts: Counter[str] = Counter()

    def __call__(self, rng: random.Random) -> str:
        """Try once, and say what was wrong."""
        return self._attempt(rng, self.counts)
