"""Whatever an agent writes its records to: a journal, or a pipe to the process that has one."""

from __future__ import annotations

from typing import Protocol

from prong.cost import Charge
from prong.journal.note import Note
from prong.prompt import Prompt


class Recorder(Protocol):
    """Stores what happens, in order, before it counts as having happened."""

    def keep(self, agent: str, prompt: Prompt, *, reason: str = "") -> None:
        """Store whatever of an agent's prompt is not yet stored."""
        ...

    def request(self, row: Charge) -> None:
        """Store a row of the ledger."""
        ...

    def note(self, agent: str, *notes: Note) -> None:
        """Store notes of an agent, one after the other; the latest of a kind counts."""
        ...

    async def sync(self) -> None:
        """See to it that what was stored survives a loss of power."""
        ...
