"""Siblings that start together: who sends first, and when the others follow.

A provider's cache entry can be read only once the response that wrote it has begun. If a large part
of the base is not cached, one child leads and the rest wait for its first event; if the leader
fails before that, the next one leads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from prong.cost.fan import FanPlan
from prong.entry import Reply
from prong.prompt import Node, Prompt
from prong.team import fork


class Fan:
    """A fan-out: one base, one plan, and the gate before the first requests."""

    def __init__(
        self,
        plan: FanPlan,
        base: Prompt,
        *,
        sent: Node | None,
        warm_since: float = 0.0,
        carrier: tuple[Prompt, Reply] | None = None,
        prewarm: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the plan and the shared base; `sent` is where the parent last sent.

        With a `carrier`, the parent's prompt and its reply, directives travel inside the result of
        the reply's last call: plain text would make the model drop its earlier thinking.
        """
        self.plan = plan
        self.base = base
        self.sent = sent
        self.warm_since = warm_since
        """When the parent last sent, on its clock."""
        self.carrier = carrier
        self.running: set[str] = set()
        """Task ids of siblings that have not ended."""
        self._prewarm = prewarm
        self._open = plan.schedule == "at_once" or plan.size < 2
        self._leader = ""
        self._changed = anyio.Event()

    def child(self, directive: str) -> Prompt:
        """Make the prompt of a child."""
        if self.carrier is not None:
            return fork.child_in_result(*self.carrier, directive)
        return fork.child(self.base, directive)

    def predicted_read(self, task_id: str) -> int:
        """Say how many tokens a child's first request should read from the cache."""
        follows = self.plan.schedule == "prewarm" or (
            self.plan.schedule == "leader" and task_id != self._leader
        )
        return self.plan.cached + (self.plan.fresh if follows else 0)

    async def admit(self, task_id: str) -> None:
        """Wait until a child may send its first request."""
        while not self._open:
            if not self._leader:
                self._leader = task_id
                if self.plan.schedule == "prewarm":
                    await self._prewarm()
                    self._release()
                return
            if self._leader == task_id:
                return
            await self._changed.wait()

    def began(self, task_id: str) -> None:
        """Note that a child's response has begun; if it leads, the others may follow."""
        if task_id == self._leader:
            self._release()

    def left(self, task_id: str) -> None:
        """Note that a child has ended; if it led and never began, another leads."""
        self.running.discard(task_id)
        if task_id == self._leader and not self._open:
            self._leader = ""
            self._wake()

    def _release(self) -> None:
        if not self._open:
            self._open = True
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
