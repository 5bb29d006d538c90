"""Who may act in a session from another process: who asks, who was let in, who is sent away.

A command of an agent runs under the user's own id, so that the id proves nothing: whoever wants to
act is let in by the session's own user, who compares a code with what the other side shows. Nobody
is asked, and nobody let in, before somebody here says that requests are taken.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import anyio
import msgspec

from prong.command import Outcome

_KEPT = 1_000
"""Outcomes that are remembered, for who asks again."""
CLOSED = "this session takes no commands from outside"
_REFUSED = "the user of the session has said no; '/web act' there lets requests come again"
_ENDED = "the user of the session lets nobody act from outside any more"


class ControlRequest(msgspec.Struct, eq=False):
    """A process that asks to act in a session; the session's user decides."""

    pid: int
    code: str
    """What it shows to its own user: the same in both places if they are the same person's."""
    allowed: bool | None = None
    """What was decided; None until then."""
    gone: bool = False
    """Whether it waits no longer."""
    _settled: anyio.Event = msgspec.field(default_factory=anyio.Event)

    def settle(self, *, allow: bool) -> None:
        """Let it in, or send it away; only the first decision counts."""
        if self.allowed is None and not self.gone:
            self.allowed = allow
            self._settled.set()

    def withdraw(self) -> None:
        """Take note that nobody waits for the decision any more."""
        self.gone = True
        self._settled.set()

    async def wait_settled(self) -> None:
        """Wait until it was decided, or waits no longer."""
        await self._settled.wait()


class CarriedOrder:
    """An order of another process, and what comes of it."""

    def __init__(self) -> None:
        """Nothing has come of it yet."""
        self._outcome: Outcome | None = None
        self._known = anyio.Event()

    def settle(self, outcome: Outcome) -> None:
        """Note what came of it."""
        self._outcome = outcome
        self._known.set()

    async def wait_outcome(self) -> Outcome:
        """Wait for what comes of it."""
        await self._known.wait()
        assert self._outcome is not None
        return self._outcome


class OutsideControl:
    """Whether and for whom a session takes commands from other processes."""

    def __init__(self) -> None:
        """Take none."""
        self.state: Literal["closed", "asks", "free"] = "closed"
        self.fault = ""
        """Why nobody can reach it, if that is so."""
        self.admitted: dict[ControlRequest, anyio.CancelScope] = {}
        self.speaking = anyio.Lock()
        """For what is said: it is taken in the order in which it came, whatever hooks take."""
        self._why = CLOSED
        self._requests: list[ControlRequest] = []
        self._changed = anyio.Event()
        self._orders: OrderedDict[str, CarriedOrder] = OrderedDict()

    def open(self, *, ask: bool = True) -> None:
        """Take requests from now on; without asking, everybody of the user's own is let in."""
        self.state = "asks" if ask else "free"
        self._stir()

    def fail(self, why: str) -> None:
        """Take note that nobody can reach it, and why."""
        self.fault = why

    def close(self) -> int:
        """Take no more, and send away who is here; gives how many that were."""
        self._shut(_ENDED)
        sent = len(self.admitted)
        for scope in self.admitted.values():
            scope.cancel()
        return sent

    @property
    def ended(self) -> str:
        """Why nothing is done any more for those who were let in; empty as long as it is."""
        return _ENDED if self.state == "closed" and self._why == _ENDED else ""

    @property
    def waiting(self) -> tuple[ControlRequest, ...]:
        """Who asks and has no answer yet, the first first."""
        return tuple(self._requests)

    async def next_request(self) -> ControlRequest:
        """Wait for somebody who asks, and has no answer yet."""
        while not self._requests:
            await self._changed.wait()
        return self._requests[0]

    async def wait_decided(self, request: ControlRequest) -> None:
        """Wait until a request that was decided on, or has gone, waits here no longer."""
        while request in self._requests:
            await self._changed.wait()

    async def wait_opened(self) -> None:
        """Wait until requests are taken."""
        while self.state == "closed":
            await self._changed.wait()

    async def ask(self, request: ControlRequest) -> str:
        """Wait for the decision on a request; gives why not, empty if it is let in."""
        if self.state == "free":
            return ""
        if self.state == "closed":
            return self._why
        self._requests.append(request)
        self._stir()
        try:
            await request.wait_settled()
        finally:
            request.withdraw()
            self._requests.remove(request)
            self._stir()
        if request.allowed:
            return ""
        # Who could ask again and again would be let in by a slip in the end.
        if self.state == "asks":
            self._shut(_REFUSED)
        return self._why

    def begin(self, order: str) -> tuple[CarriedOrder, bool]:
        """Give what is known of an order, and whether it is here for the first time.

        Who lost the way to here before it was told the outcome may ask again under the same id.
        """
        if (known := self._orders.get(order)) is not None:
            return known, False
        carried = self._orders[order] = CarriedOrder()
        while len(self._orders) > _KEPT:
            self._orders.popitem(last=False)
        return carried, True

    def _shut(self, why: str) -> None:
        self.state, self._why = "closed", why
        for request in self._requests:
            request.settle(allow=False)
        self._stir()

    def _stir(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
