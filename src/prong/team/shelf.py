"""Children that ended a while ago: little stays in memory, the journal has the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from prong.cost.receipt import Receipt
from prong.journal.note import ChildSpec
from prong.team.child import Child

KEPT = 64
"""Finished children whose prompts stay in memory; older ones are read from the journal again."""


class _Shelved(msgspec.Struct, frozen=True):
    spec: ChildSpec
    receipt: Receipt


@dataclass(slots=True, frozen=True)
class Held:
    """The tasks of children whose notices wait for their siblings."""

    children: Mapping[str, Child]

    def __contains__(self, task_id: object) -> bool:
        """Whether a task's notice has to wait."""
        child = self.children.get(task_id) if isinstance(task_id, str) else None
        return child is not None and waits(child)


def waits(child: Child) -> bool:
    """Whether a child's siblings are still at work."""
    return child.fan is not None and bool(child.fan.running)


class Shelf:
    """What stays in memory of old children."""

    def __init__(self) -> None:
        """Start empty."""
        self._shelved: dict[str, _Shelved] = {}

    def __len__(self) -> int:
        """Count the children on it."""
        return len(self._shelved)

    def __contains__(self, name: object) -> bool:
        """Whether a child of that name is on it."""
        return name in self._shelved

    def spec(self, name: str) -> ChildSpec | None:
        """Say what a child was."""
        shelved = self._shelved.get(name)
        return shelved.spec if shelved is not None else None

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all of them."""
        return [shelved.receipt for shelved in self._shelved.values()]

    def drop(self, name: str) -> None:
        """Take a child off it."""
        self._shelved.pop(name, None)

    def take(
        self,
        children: dict[str, Child],
        runs: Callable[[str], bool],
        receipt: Callable[[Child], Receipt],
    ) -> None:
        """Take all but the last finished children over, so that their agents can be freed."""
        if len(children) <= KEPT:
            return
        over = [
            name
            for name, child in children.items()
            # While a sibling runs, a child's notice may be held.
            if child.status != "running" and not runs(name) and not waits(child)
        ]
        for name in over[: max(0, len(over) - KEPT)]:
            child = children.pop(name)
            self._shelved[name] = _Shelved(child.spec, receipt(child))
