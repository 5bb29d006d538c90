"""A prompt cache to try requests on."""

from __future__ import annotations

from prong.entry import Usage
from prong.testing.cache import Cache, Plan
from prong.testing.model import Model
from prong.testing.request import Request

EXACT = Model(minimum=0)


class Bench:
    """A cache with a clock, for stories of a few requests."""

    def __init__(self, model: Model = EXACT) -> None:
        self.cache = Cache()
        self.model = model
        self.now = 0.0

    def look(self, request: Request) -> Plan:
        return self.cache.look(request, self.model, self.now)

    def send(self, request: Request) -> Usage:
        plan = self.look(request)
        self.cache.begin(plan)
        assert plan.usage.input == plan.tokens[-1]
        return plan.usage
