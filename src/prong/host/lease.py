"""Who may work in a workspace: whoever holds the highest number.

A session counts a number up, in its journal, before it starts a worker. The worker writes it down
where the workspace is; one that finds a higher number there is no longer wanted, and stops before
its next step. So two workers never do the work of one, however the line between them was cut.

Each number is a file of its own: whoever comes writes its own and then looks at the others,
so that of two that come at once the lower sees the higher. No lock is needed for that.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from prong.errors import NotPossibleNow
from prong.foreign_number import whole_number


class RunLease:
    """A number on disk, as one of those who count on it sees it."""

    def __init__(self, path: str, number: int) -> None:
        """Hold a number, without having written it down, in a folder for those of a workspace."""
        self._folder = Path(path)
        self.number = number

    def take(self) -> None:
        """Write the number down.

        Raises NotPossibleNow if a higher one stands there, OSError if it cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / str(self.number)).touch()
        numbers = self._numbers()
        if (found := max(numbers, default=0)) > self.number:
            raise NotPossibleNow(
                f"a later run (number {found}) works there already, and this is {self.number}"
            )
        for one in numbers - {self.number}:
            (self._folder / str(one)).unlink(missing_ok=True)

    @property
    def lost(self) -> bool:
        """Whether a higher number stands there, or this one does no longer."""
        try:
            numbers = self._numbers()
        except FileNotFoundError:
            return True
        except OSError:
            # What cannot be looked at now says nothing.
            return False
        return self.number not in numbers or max(numbers) > self.number

    @property
    def overtaken(self) -> bool:
        """Whether a higher number stands there, as far as that can be seen."""
        try:
            return max(self._numbers(), default=0) > self.number
        except OSError:
            return False

    def drop(self) -> None:
        """Forget all of them: there is nothing left to work in."""
        with suppress(OSError):
            for one in self._numbers():
                (self._folder / str(one)).unlink(missing_ok=True)
            self._folder.rmdir()

    def _numbers(self) -> set[int]:
        found = (whole_number(one.name) for one in self._folder.iterdir())
        return {number for number in found if number is not None}
