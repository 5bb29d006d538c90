"""One stream of events for all faces."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import anyio
import msgspec

from prong.errors import UsageError
from prong.event import Envelope, Event, TaskFinished, TurnFinished
from prong.provider.secret import Secrets


class Subscription:
    """An async iterator over the events from the moment it was made until the session ends."""

    def __init__(self, bus: Bus) -> None:
        """Use `Bus.subscribe`."""
        self._bus = bus
        self._queue: deque[Envelope] = deque()
        self._arrived = anyio.Event()

    def push(self, envelope: Envelope | None) -> None:
        """Take an event in; None only wakes the reader."""
        if envelope is not None:
            self._queue.append(envelope)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[Envelope]:
        return self

    async def __anext__(self) -> Envelope:
        while not self._queue:
            if self._bus.closed:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._queue.popleft()

    def drain(self) -> list[Envelope]:
        """Take what has come so far, without waiting."""
        taken = list(self._queue)
        self._queue.clear()
        return taken

    def close(self) -> None:
        """Stop listening."""
        self._bus.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Bus:
    """Numbers events and hands each to every subscriber."""

    def __init__(self, secrets: Secrets | None = None) -> None:
        """Start with nobody listening, who would not be shown these."""
        self._secrets = secrets or Secrets()
        self._subscriptions: list[Subscription] = []
        self._seq = 0
        self._changed = anyio.Event()
        self.closed = False

    def emit(self, agent: str, event: Event) -> None:
        """Tell everybody."""
        self._seq += 1
        if self._subscriptions:
            envelope = Envelope(self._seq, agent, self._masked(event))
            for subscription in self._subscriptions:
                subscription.push(envelope)
        if isinstance(event, TurnFinished | TaskFinished):
            self._changed.set()
            self._changed = anyio.Event()

    def _masked(self, event: Event) -> Event:
        """Hide keys in the texts of an event, whatever they came from."""
        hidden: dict[str, str] = {}
        for name in event.__struct_fields__ if self._secrets.values else ():
            text: object = getattr(event, name)
            if isinstance(text, str) and (masked := self._secrets.mask(text)) != text:
                hidden[name] = masked
        return msgspec.structs.replace(event, **hidden) if hidden else event

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that the end of a turn or task may bring about.

        Raises UsageError if the session ends before that.
        """
        while not condition():
            if self.closed:
                raise UsageError("the session has ended; open another, or resume it")
            await self._changed.wait()

    def subscribe(self) -> Subscription:
        """Listen from now on."""
        subscription = Subscription(self)
        self._subscriptions.append(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Drop a listener."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription once it has been read to its end."""
        self.closed = True
        self._changed.set()
        for subscription in self._subscriptions:
            subscription.push(None)
