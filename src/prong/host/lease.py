"""Who may work in a workspace: whoever holds the highest number.

A session counts a number up, in its journal, before it starts a worker. The worker writes it down
where the workspace is; one that finds a higher number there is no longer wanted, and stops before
its next step. So two workers never do the work of one, however the line between them was cut.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from prong.errors import NotPossibleNow


class RunLease:
    """A number on disk, as one of those who count on it sees it."""

    def __init__(self, path: str, number: int) -> None:
        """Hold a number, without having written it down."""
        self._path = Path(path)
        self.number = number

    def take(self) -> None:
        """Write the number down.

        Raises NotPossibleNow if a higher one stands there, OSError if it cannot be written.
        """
        if (found := self._read()) > self.number:
            raise NotPossibleNow(
                f"a later run (number {found}) works there already, and this is {self.number}"
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_text(f"{self.number}\n")
        fresh.replace(self._path)

    @property
    def lost(self) -> bool:
        """Whether a higher number stands there."""
        return self._read() > self.number

    def drop(self) -> None:
        """Forget it: there is nothing left to work in."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> int:
        with suppress(OSError, ValueError):
            return int(self._path.read_text())
        return 0
