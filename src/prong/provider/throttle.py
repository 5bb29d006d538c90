"""When requests to one server are sent: freely, until it asks for fewer.

A provider that refuses for a limit says when to come again, to each request by itself. If all
agents did just that they would come back together, be refused together, and run out of tries. So
the agents of a process share a throttle: after a refusal their requests leave one by one, at a
lower rate than before, which then grows until the next refusal and is forgotten after a while
without one. Nobody is told the limits, and several processes that share them find their parts the
same way.

Who goes first also decides what is paid: an agent that waits between two turns for longer than its
cache entry lives must write its tail again. So those who are in the middle of their work go before
those who have not begun. The main agent is not held at all: a person waits for it, and it has one
request at a time.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque

import anyio
import msgspec

from prong.ids import AgentPath, depth_of

_WINDOW = 10.0
"""Seconds over which it is counted how many requests left before the first refusal."""
_FEW = 2.0
"""Requests in a second that are taken for the rate before it, if there were fewer."""
_LESS = 0.7
"""What is left of the rate after a refusal."""
_GROWTH = 1.05
"""By how much the rate grows in a second."""
_MOST = 1.25
"""By how much it grows at most from one request to the next: what is slow is not tried fast."""
_FORGET = 60.0
"""Seconds without refusal and without anybody waiting after which requests leave freely."""
_LONGEST = 60.0
"""Seconds for which one refusal holds the others back; more may be meant for it alone."""
_SLOWEST = 1 / 60
"""Requests in a second below which the rate does not fall."""


class _Waiter(msgspec.Struct, order=True):
    rank: int
    number: int
    changed: anyio.Event = msgspec.field(default_factory=anyio.Event)


class Throttle:
    """Lets requests to one server go, and learns from its refusals how fast."""

    def __init__(self, *, learns: bool = True) -> None:
        """Let everything go at once: to begin with, or for good if it `learns` nothing."""
        self._learns = learns
        self._told = False
        self._rate: float | None = None
        self._grown_at = 0.0
        self._lowered_at = 0.0
        self._refused_at = 0.0
        self._next = 0.0
        self._sent: deque[float] = deque()
        self._known: set[str] = set()
        self._queue: list[_Waiter] = []
        self._numbers = itertools.count()

    def remark(self) -> str:
        """Say that requests wait for each other, once until all leave freely again; else empty."""
        if self._told or not self._queue:
            return ""
        self._told = True
        return (
            "the server wants fewer requests than the agents have, so they take turns: those in "
            "the middle of their work go first"
        )

    @property
    def rate(self) -> float | None:
        """Requests that leave in a second; None if all leave at once."""
        return self._rate

    async def wait_turn(self, who: str, *, again: bool = False) -> float:
        """Wait until a request of an agent may be sent, and give the time; `again` once refused."""
        if self._is_free() or not who or depth_of(AgentPath(who)) == 0:
            self._sent.append(anyio.current_time())
            self._trim()
            return self._sent[-1]
        waiter = _Waiter(self._rank(who, again=again), next(self._numbers))
        heapq.heappush(self._queue, waiter)
        try:
            while self._queue[0] is not waiter or await self._is_early():
                if self._queue[0] is not waiter:
                    await waiter.changed.wait()
                    waiter.changed = anyio.Event()
        finally:
            self._leave(waiter)
        now = anyio.current_time()
        self._next = now + 1 / self._grown(now)
        return now

    def answered(self, who: str) -> None:
        """Note that the answer to a request of an agent has begun."""
        self._known.add(who)

    def refused(self, sent: float, asked: float | None) -> None:
        """Note that a request was refused, and for how many seconds it should stay away."""
        if not self._learns:
            return
        now = self._refused_at = anyio.current_time()
        if self._rate is not None and sent <= self._lowered_at:
            # It left before the rate was lowered, so it tells nothing about this one.
            return
        if self._rate is None:
            self._trim()
            before = max(_FEW, len(self._sent) / _WINDOW)
        else:
            before = self._grown(now)
        self._rate = max(_SLOWEST, before * _LESS)
        self._grown_at = self._lowered_at = now
        self._next = max(self._next, now + min(asked or 0.0, _LONGEST))

    def _rank(self, who: str, *, again: bool) -> int:
        return 0 if again or who in self._known else 1

    def _is_free(self) -> bool:
        if self._rate is None:
            return True
        if self._queue or anyio.current_time() - self._refused_at < _FORGET:
            return False
        self._rate, self._told = None, False
        return True

    async def _is_early(self) -> bool:
        """Wait for the moment at which the first may go; says whether it was not there yet."""
        wait = self._next - anyio.current_time()
        if wait <= 0:
            return False
        await anyio.sleep(wait)
        return True

    def _leave(self, waiter: _Waiter) -> None:
        if self._queue[0] is waiter:
            heapq.heappop(self._queue)
        else:
            self._queue.remove(waiter)
            heapq.heapify(self._queue)
        if self._queue:
            self._queue[0].changed.set()

    def _grown(self, now: float) -> float:
        assert self._rate is not None, "what is free has no rate"
        grown = self._rate * min(_MOST, _GROWTH ** (now - self._grown_at))
        self._rate, self._grown_at = grown, now
        return grown

    def _trim(self) -> None:
        horizon = anyio.current_time() - _WINDOW
        while self._sent and self._sent[0] < horizon:
            self._sent.popleft()
