"""What waits to be put before an agent at its next turn boundary."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from prong.entry import User


class Inbox:
    """A queue of entries; each is acknowledged once it stands in the stored conversation."""

    def __init__(self) -> None:
        """Start empty."""
        self._items: list[tuple[User, Callable[[], None] | None]] = []
        self._owed: str | None = None
        self._arrived = anyio.Event()
        self.arrivals = 0
        """How often something was put here, taken or not."""

    def __len__(self) -> int:
        """Count what waits."""
        return len(self._items) + (self._owed is not None)

    def holds(self, entry: User) -> bool:
        """Say whether this very entry still waits."""
        return any(waiting is entry for waiting, _ in self._items)

    @property
    def text(self) -> str:
        """What the user said of all that waits; if the user said nothing, what else there is."""
        said = [entry.text for entry, _ in self._items if entry.kind == "user"]
        said = [*([self._owed] if self._owed else []), *said]
        return "\n\n".join(said or [entry.text for entry, _ in self._items])

    def put(self, entry: User, *, taken: Callable[[], None] | None = None) -> None:
        """Add an entry; `taken` is called when it has been stored."""
        self._items.append((entry, taken))
        self.arrivals += 1
        self._arrived.set()

    def revise(self, entry: User, other: User) -> None:
        """Put another entry in the place of one that still waits; one that was taken stays."""
        self._items = [(other if one is entry else one, taken) for one, taken in self._items]

    def withdraw(self, entry: User) -> bool:
        """Take back an entry that still waits; gives whether it did."""
        waits = self.holds(entry)
        self._items = [item for item in self._items if item[0] is not entry]
        if not len(self):
            self._rearm()
        return waits

    def recall(self, text: str) -> None:
        """Wake the agent for what stands in its conversation already and was not answered."""
        self._owed = text
        self._arrived.set()

    def drain(self) -> list[tuple[User, Callable[[], None] | None]]:
        """Take everything that waits."""
        items, self._items, self._owed = self._items, [], None
        self._rearm()
        return items

    def _rearm(self) -> None:
        # One that was not set may have somebody waiting.
        if self._arrived.is_set():
            self._arrived = anyio.Event()

    async def wait(self) -> None:
        """Wait until something is there."""
        while not len(self):
            await self._arrived.wait()

    async def wait_arrival(self, since: int) -> None:
        """Wait until something was put here after that many arrivals, whoever has taken it."""
        while self.arrivals == since:
            await self._arrived.wait()
