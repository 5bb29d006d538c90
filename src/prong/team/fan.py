"""Siblings that start together: who sends first, and when the others follow.

A provider's cache entry can be read only once the response that wrote it has begun. If a large part
of the base is not cached, one child leads and the rest wait for its first event; if the leader
fails before that, the next one leads. A child that comes so late that the entry has died in the
meantime finds the gate closed again, and leads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from prong.cost.breakeven import BreakEven
from prong.entry import Call
from prong.errors import ProngError
from prong.prompt import Node, Prompt
from prong.team import fork

_PARENT_WAITS = 10.0
"""Seconds that a parent waits at most for the first event of a child."""


class Fan:
    """A fan-out: one base, one plan, and the gate before the first requests."""

    def __init__(  # noqa: PLR0913 - each is one thing that the gate must know
        self,
        estimate: BreakEven,
        base: Prompt,
        *,
        sent: Node | None,
        prewarm: Callable[[], Awaitable[None]],
        carrier: Call | None = None,
        used_at: float = 0.0,
        lives: float = float("inf"),
        marked: bool = True,
        clock: Callable[[], float],
    ) -> None:
        """Take what was planned and estimated, and the base; `sent` is where the parent last sent.

        With a `carrier`, the last call of the dispatching reply, directives travel inside its
        result: plain text would make the model drop its earlier thinking. `used_at` says when
        a request last used the base, and `lives` for how many seconds an entry may be counted on
        after that; without bound if it is not to be waited for. If the base is not `marked`, what
        one child writes need not be found by the next.
        """
        self.plan = plan = estimate.plan
        self.base = base
        self.estimate = estimate
        self.first = ""
        """Task id of the first child, by which the fan-out is known."""
        self.refusal = ""
        """Why no child of it may start; empty if they may."""
        self.sent = sent
        self.carrier = carrier
        self.used_at = used_at
        self.running: set[str] = set()
        """Task ids of siblings that have not ended."""
        self._prewarm = prewarm
        self._lives = lives
        self._clock = clock
        self._open = plan.schedule == "at_once" or plan.size < 2
        self._leader = ""
        self._readable = plan.cached
        self._written = plan.cached + plan.fresh if marked else plan.cached
        self._predicted: dict[str, int] = {}
        self._idle: dict[str, float] = {}
        self._changed = anyio.Event()

    def child(self, directive: str) -> Prompt:
        """Make the prompt of a child."""
        if self.carrier is not None:
            return fork.carried_child(self.base, self.carrier, directive)
        return fork.child(self.base, directive)

    def predicted_read(self, task_id: str) -> int:
        """Say how many tokens a child's first request should read from the cache."""
        return self._predicted.get(task_id, self.plan.cached)

    def idle(self, task_id: str) -> float | None:
        """Say how long the base had not been used when a child was admitted, if that is known."""
        return self._idle.get(task_id)

    async def admit(self, task_id: str) -> None:
        """Wait until a child may send its first request."""
        while not self._may_go(task_id):
            await self._changed.wait()
        if self._leader == task_id and self.plan.schedule == "prewarm" and not self._open:
            await self._warm_up()
        if self.used_at:
            self._idle[task_id] = self._clock() - self.used_at
        # Siblings that are made to start on a cold base all at once could have shared it.
        rash = self.plan.schedule == "at_once" and bool(self._predicted)
        self._predicted[task_id] = self._readable or (self.plan.fresh if rash else 0)

    async def wait_led(self) -> None:
        """Let the parent wait, for a while, if a child is just writing what it would write too."""
        with anyio.move_on_after(_PARENT_WAITS):
            while not self._open and self._leader:
                await self._changed.wait()

    def _may_go(self, task_id: str) -> bool:
        if self._open and self.used_at and self._clock() - self.used_at >= self._lives:
            self._open, self._leader, self._readable = False, "", 0
        if not self._open and not self._leader:
            self._leader = task_id
        return self._open or self._leader == task_id

    async def _warm_up(self) -> None:
        try:
            await self._prewarm()
        except ProngError:
            # Not every endpoint takes such a request; the child's own does the same for the rest.
            return
        self._release()

    def began(self, task_id: str) -> None:
        """Note that a child's response has begun: whatever it wrote can be read from now on."""
        self._readable = self._written
        if task_id == self._leader:
            self._release()

    def used(self, at: float) -> None:
        """Note that a request has used the base, which keeps its entry alive."""
        self.used_at = max(self.used_at, at)

    def left(self, task_id: str) -> None:
        """Note that a child has ended; if it led and never began, another leads."""
        self.running.discard(task_id)
        if task_id == self._leader and not self._open:
            self._leader = ""
            self._wake()

    def _release(self) -> None:
        self._readable = self._written
        self.used(self._clock())
        if not self._open:
            self._open = True
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
