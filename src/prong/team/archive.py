"""Children that ended a while ago: little stays in memory, the journal has the rest."""

from __future__ import annotations

import msgspec

from prong.cost.receipt import Receipt
from prong.journal.note import ChildSpec

KEPT = 64
"""Finished children whose prompts stay in memory; older ones are read from the journal again."""


class _Archived(msgspec.Struct, frozen=True):
    spec: ChildSpec
    receipt: Receipt


class Archive:
    """What stays in memory of old children."""

    def __init__(self) -> None:
        """Start empty."""
        self._archived: dict[str, _Archived] = {}

    def __len__(self) -> int:
        """Count the children in it."""
        return len(self._archived)

    def __contains__(self, name: object) -> bool:
        """Whether a child of that name is in it."""
        return name in self._archived

    def spec(self, name: str) -> ChildSpec | None:
        """Say what a child was."""
        archived = self._archived.get(name)
        return archived.spec if archived is not None else None

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all of them."""
        return [archived.receipt for archived in self._archived.values()]

    def put(self, spec: ChildSpec, receipt: Receipt) -> None:
        """Keep what is left of a child."""
        self._archived[spec.task_id] = _Archived(spec, receipt)

    def drop(self, name: str) -> None:
        """Forget a child that is back in memory."""
        self._archived.pop(name, None)
