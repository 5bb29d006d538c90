"""A model's API on a clock that leaps: the cache of the test server, limits, and times of answers.

It stands where an HTTP client would: requests are read from their bytes, refused with a status and
`retry-after` where a limit is reached, and answered in the vendor's own form.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec

from prong.provider.http import HttpLimits
from prong.testing import answer_messages
from prong.testing.answer import Answer
from prong.testing.cache import Cache, Plan
from prong.testing.ledger import Ledger, Rates
from prong.testing.model import known
from prong.testing.parse import parse
from prong.testing.request import Request
from prong.testing.script import Failure, Step, say

TOKENS_PER_BYTE = 5
"""A byte of a prompt stands for so many tokens, which keeps ten thousand prompts small."""
URL = "https://api.example.invalid"


@dataclass(frozen=True)
class Limits:
    """What an organisation may use in a minute; each is a bucket that fills up steadily."""

    requests: float = 4_000
    input: float = 2_000_000
    """Tokens that were computed or written; those read from the cache do not count."""
    output: float = 400_000
    burst: float = 10.0
    """Seconds' worth of a limit that may be used at once."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How quick answers are."""

    first: float = 0.8
    """Seconds before the first byte, whatever is sent."""
    compute: float = 20_000
    """Tokens of a prompt computed in a second."""
    read: float = 400_000
    """Tokens of a prompt read from the cache in a second."""
    write: float = 60
    """Tokens of a reply in a second."""


@dataclass(slots=True)
class _Bucket:
    per_second: float
    size: float
    level: float
    at: float = 0.0

    def fill(self, now: float) -> None:
        self.level = min(self.size, self.level + (now - self.at) * self.per_second)
        self.at = now

    def missing(self, amount: float) -> float:
        """Give the seconds until there is enough; one that is too much for it takes a full one."""
        return max(0.0, (min(amount, self.size) - self.level) / self.per_second)


def _bucket(per_minute: float, burst: float) -> _Bucket:
    size = per_minute / 60 * burst
    return _Bucket(per_minute / 60, size, size)


@dataclass(slots=True)
class SimulatedApi:
    """All that the servers of a vendor know of one organisation."""

    limits: Limits
    speed: Speed
    output: int
    """Tokens of every reply."""
    cache: Cache = field(default_factory=Cache)
    ledger: Ledger = field(default_factory=lambda: Ledger(Rates()))
    refusals: Counter[str] = field(default_factory=Counter[str])
    """By the limit that was reached."""
    served: int = 0
    busy: float = 0.0
    """Seconds that answers took, from the request's arrival to their last byte."""
    _buckets: dict[str, _Bucket] = field(default_factory=dict[str, _Bucket])
    _pool: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    def __post_init__(self) -> None:
        for name in ("requests", "input", "output"):
            self._buckets[name] = _bucket(getattr(self.limits, name), self.limits.burst)

    def admit(self, request: Request, now: float) -> Plan | float:
        """Say what the cache does for a request, or for how many seconds it is refused."""
        plan = self.cache.look(request, known(request.model), now)
        usage = plan.usage
        wanted = {"requests": 1, "input": usage.uncached + usage.written, "output": self.output}
        waits: dict[str, float] = {}
        for name, amount in wanted.items():
            self._buckets[name].fill(now)
            waits[name] = self._buckets[name].missing(amount)
        longest = max(waits, key=lambda name: waits[name])
        if waits[longest] > 0:
            self.refusals[longest] += 1
            return waits[longest]
        for name, amount in wanted.items():
            self._buckets[name].level -= amount
        self.served += 1
        self.ledger.book(self.served, "", request.model, plan, self.output)
        return plan

    def times(self, plan: Plan) -> tuple[float, float]:
        """Give the seconds to the first byte of an answer, and from there to its last."""
        usage, speed = plan.usage, self.speed
        computed = (usage.uncached + usage.written) / speed.compute
        return speed.first + computed + usage.read / speed.read, self.output / speed.write

    def read(self, body: bytes, headers: Mapping[str, str]) -> Request:
        """Read the bytes of a request."""
        return parse("anthropic", body, headers, _count, self._pool)

    def answer(self, request: Request, plan: Plan) -> bytes:
        """Write a reply in the vendor's form."""
        step: Step = say("x" * (self.output // TOKENS_PER_BYTE))
        answer = Answer(
            id=f"msg_{self.served:08}",
            request=request,
            step=step,
            parts=step.parts,
            usage=msgspec.structs.replace(plan.usage, output=self.output),
            created=0,
            piece=1_000,
            prefix=b"",
        )
        return b"".join(answer_messages.stream(answer))


def _count(data: bytes) -> int:
    return len(data) * TOKENS_PER_BYTE


class _SimulatedResponse:
    """A response; the last part of its body comes when the reply is whole."""

    origin = URL

    def __init__(self, status: int, headers: dict[str, str], data: bytes, rest: float) -> None:
        self.status = status
        self.headers = headers
        self._data = data
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        first, gap, rest = self._data.partition(b"\n\n")
        yield first + gap
        await anyio.sleep(self._rest)
        if rest:
            yield rest

    def settle(self) -> None:
        """Nothing is kept."""

    def progressed(self) -> None:
        """Nothing is timed."""


class SimulatedTransport:
    """The HTTP client of one process, with as many connections as Prong's own has."""

    def __init__(self, api: SimulatedApi, delay: float) -> None:
        """Take the servers, and the seconds that bytes need to get there."""
        self._api = api
        self._delay = delay
        self._slots = anyio.Semaphore(HttpLimits().connections, fast_acquire=True)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> AsyncGenerator[_SimulatedResponse, None]:
        """Send a request; see `prong.provider.transport.Transport`."""
        del method, url
        data = body if isinstance(body, bytes) else b"".join(body)
        api = self._api
        async with self._slots:
            await anyio.sleep(self._delay)
            arrived = anyio.current_time()
            request = api.read(data, dict(headers))
            plan = api.admit(request, arrived)
            if not isinstance(plan, Plan):
                failure = Failure(429, "rate_limit_error", "a limit of the organisation is reached")
                told = msgspec.json.encode(answer_messages.error(failure, "req"))
                # As the real thing says it: in whole seconds, rounded up.
                asked = {"retry-after": str(math.ceil(plan))}
                yield _SimulatedResponse(429, asked, told, 0.0)
                return
            first, rest = api.times(plan)
            api.busy += first + rest
            await anyio.sleep(first)
            api.cache.begin(plan)
            kind = {"content-type": "text/event-stream"}
            yield _SimulatedResponse(200, kind, api.answer(request, plan), rest)

    async def aclose(self) -> None:
        """Nothing is open."""
