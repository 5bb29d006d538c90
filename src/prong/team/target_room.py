"""Room for agents on another machine: as many at once as its target has slots, others wait."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from prong.event import Event, LineChanged


class TargetRoom:
    """The room that one session has on a target; who came first is let in first."""

    def __init__(self, name: str, slots: int) -> None:
        """Take the target's name, and how many agents may work there at once; 0 for any number."""
        self.name = name
        self.slots = slots
        self.places = anyio.Semaphore(slots) if slots else None

    def claim(self) -> RoomClaim:
        """Give what an agent takes a place by."""
        return RoomClaim(self)


class RoomClaim:
    """An agent's place on a target, once it has one, until it gives it up."""

    def __init__(self, room: TargetRoom) -> None:
        """Be about a place of that room."""
        self._room = room
        self._held: anyio.Semaphore | None = None

    async def take(self, emit: Callable[[Event], None]) -> None:
        """Take a place; who has to wait for one is told why, and when that is over."""
        room, places = self._room, self._room.places
        if places is None:
            return
        waits = places.value == 0
        if waits:
            work = "1 agent works" if room.slots == 1 else f"{room.slots} agents work"
            before = places.statistics().tasks_waiting
            behind = f", and {before} more wait before it" if before else ""
            text = f"waits for room on {room.name}: {work} there already{behind}"
            emit(LineChanged(state="queued", text=text))
        await places.acquire()
        self._held = places
        if waits:
            emit(LineChanged(state="open"))

    def free(self) -> None:
        """Give the place up, if there is one."""
        if self._held is not None:
            self._held.release()
            self._held = None
