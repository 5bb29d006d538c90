"""One stream of events for all faces: numbered, timed, recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, get_args

import anyio
import anyio.lowlevel
import msgspec

from prong.closable import Closable
from prong.errors import JournalError, SessionEnded
from prong.event import (
    AgentRested,
    Delta,
    Envelope,
    Event,
    EventsSkipped,
    SessionFinished,
    TaskFinished,
    TurnFinished,
    Warned,
)
from prong.ids import AgentPath
from prong.journal.eventlog import EventLog, skipped
from prong.provider import Secrets

if TYPE_CHECKING:
    from prong.view import View

LIMIT = 10_000
"""Events that wait for a slow reader before it is made to skip them."""
_BATCH = 256
"""Recorded events that a reader takes before others have a turn."""
# Looked up by type: to ask whether an event is an instance of each of several takes longer than
# everything else that is done with most of them.
_DELTAS = frozenset(get_args(Delta))
_ENDS = frozenset((TurnFinished, TaskFinished, AgentRested))


class Subscription(Closable):
    """An async iterator over events: recorded ones first if asked for, then live to the end.

    A reader that is too slow loses what waits for it, and is told by an `EventsSkipped`.
    """

    def __init__(self, bus: Bus, recorded: Iterator[Envelope], limit: int) -> None:
        """Use `Bus.subscribe`."""
        self._bus = bus
        self._recorded = recorded
        self._queue: deque[Envelope] = deque()
        self._limit = limit
        self._arrived = anyio.Event()
        self._taken = 0

    def push(self, envelope: Envelope | None) -> None:
        """Take an event in; None only wakes the reader."""
        if envelope is not None:
            if len(self._queue) >= self._limit:
                self._skip(envelope.at)
            self._queue.append(envelope)
        self._arrived.set()

    def _skip(self, at: float) -> None:
        """Drop what waits; in its place stands the last number that is missing now."""
        lost = max((_last(envelope) for envelope in self._queue), default=0)
        self._queue.clear()
        self._queue.append(skipped(lost, at))

    def __aiter__(self) -> AsyncIterator[Envelope]:
        return self

    async def __anext__(self) -> Envelope:
        self._taken += 1
        if self._taken % _BATCH == 0:
            await anyio.lowlevel.checkpoint()
        if (recorded := next(self._recorded, None)) is not None:
            return recorded
        while not self._queue:
            if self._bus.closed:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._queue.popleft()

    def drain(self) -> list[Envelope]:
        """Take what has come so far, without waiting."""
        taken = [*self._recorded, *self._queue]
        self._queue.clear()
        return taken

    def close(self) -> None:
        """Stop listening."""
        self._bus.forget(self)


class Bus:
    """Numbers events, has them recorded, and hands each to every subscriber."""

    def __init__(
        self, log: EventLog, clock: Callable[[], float], secrets: Secrets | None = None
    ) -> None:
        """Start with nobody listening; events are held back until `open`.

        Keys are masked in all of them.
        """
        self._log = log
        self._clock = clock
        self._secrets = secrets or Secrets()
        self._subscriptions: list[Subscription] = []
        self._early: list[tuple[AgentPath, Event]] | None = []
        self._view: View | None = None
        self._changed = anyio.Event()
        self.began = log.seq
        """The last number before this process began."""
        self.mended = False
        """Whether an earlier process was killed, and what it had begun had to be ended."""
        self.closed = False

    def open(self, agent: AgentPath, *first: Event) -> None:
        """Begin with these events of an agent; what was said before follows them."""
        early, self._early = self._early or [], None
        self._end_past()
        for event in first:
            self.emit(agent, event)
        if self._log.problem:
            self.emit(agent, Warned(text=self._log.problem))
        for path, event in early:
            self.emit(path, event)

    def _end_past(self) -> None:
        """End in the record what an earlier process could not end, at the time of its last word."""
        last = self._log.last
        if last is not None and not isinstance(last.event, SessionFinished):
            from prong.view import endings

            past = self._folded()
            for agent, event in endings(past):
                self.mended = True
                self._tell(agent, event, past.at)
        self.began = self._log.seq

    def emit(self, agent: AgentPath, event: Event) -> None:
        """Tell everybody."""
        if self._early is not None:
            self._early.append((agent, event))
            return
        if self.closed:
            # Nothing comes after the last event, and nobody is left to hear it.
            return
        kind = type(event)
        if kind in _DELTAS and not self._subscriptions and self._view is None:
            # Most events are deltas: not recorded, and of no use to whoever comes later.
            return
        # Not round(at, 6), which goes by way of a text.
        self._tell(agent, self._masked(event), round(self._clock() * 1e6) / 1e6)
        if kind in _ENDS:
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

    def _tell(self, agent: AgentPath, event: Event, at: float) -> None:
        full: JournalError | None = None
        if type(event) in _DELTAS:
            envelope = Envelope(0, at, agent, event)
        else:
            envelope = Envelope(self._log.seq + 1, at, agent, event)
            try:
                self._log.write(envelope)
            except JournalError as error:
                full = error
        if self._view is not None:
            from prong.view import fold

            self._view = fold(self._view, envelope)
        for subscription in self._subscriptions:
            subscription.push(envelope)
        if full is not None:
            # Once: from now on nothing is written.
            self._tell(agent, Warned(text=str(full)), at)

    def view(self) -> View:
        """Give the session as it is now; kept up to date once somebody has asked for it."""
        if self._view is None:
            self._view = self._folded()
        return self._view

    def _folded(self) -> View:
        # Imported where it is needed: a script starts sooner, and asks for no view.
        from prong.view import fold_all

        return fold_all(self._log.replay(0, self._log.seq))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that the end of a turn or task may bring about.

        Raises SessionEnded if the session ends before that.
        """
        while not condition():
            if self.closed:
                raise SessionEnded("the session has ended; open another, or resume it")
            await self._changed.wait()

    @property
    def seq(self) -> int:
        """The number of the last event that is recorded."""
        return self._log.seq

    def subscribe(self, since: int | None, limit: int = LIMIT) -> Subscription:
        """Listen: to what was recorded after a number and then live, or from now on."""
        now = self._log.seq
        recorded = iter(()) if since is None else self._log.replay(since, now)
        subscription = Subscription(self, recorded, limit)
        self._subscriptions.append(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Drop a listener."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription once it has been read to its end."""
        self.closed = True
        self._log.close()
        self._changed.set()
        for subscription in self._subscriptions:
            subscription.push(None)


def _last(envelope: Envelope) -> int:
    """Give the last number that an envelope stands for."""
    event = envelope.event
    return event.until if isinstance(event, EventsSkipped) else envelope.seq
