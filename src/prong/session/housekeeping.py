"""What earlier sessions have left is removed beside the work: old journals, a crash's worktrees.

What was removed of journals is said before the session ends. To look through worktrees is git's
work and may take long in a large project: a session that ends meanwhile leaves it to the next one.
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.abc
import anyio.to_thread

from prong.event import Warned
from prong.session.foundation import Foundation
from prong.team.workspace import may_hold_worktrees, tidy


class Housekeeping:
    """Removes old sessions if the user's settings say after how many days, and idle worktrees."""

    def __init__(self, base: Foundation) -> None:
        """Nothing is looked at before `start`."""
        self._base = base
        self._days = base.place.settings.values.cleanup_period_days
        self._done = anyio.Event()
        self._begun = False
        self._sweeping = anyio.CancelScope()

    async def start(self, group: anyio.abc.TaskGroup, *, spare: frozenset[str]) -> None:
        """Begin, if there is anything to do; nobody waits for it now.

        The worktrees in `spare` are this session's own.
        """
        if await may_hold_worktrees(self._base.host, self._base.place.root):
            group.start_soon(self._sweep, spare)
        if self._days is not None:
            self._begun = True
            group.start_soon(self._run, self._days)

    async def _run(self, days: int) -> None:
        from prong.session.cleaning import clean_daily

        base = self._base
        home, spare = base.place.store, base.journal.session
        work = partial(clean_daily, days, home=home, spare=spare, clock=base.clock)
        try:
            with anyio.CancelScope(shield=True):
                if told := await anyio.to_thread.run_sync(work):
                    self._warn(told)
        finally:
            self._done.set()

    async def _sweep(self, spare: frozenset[str]) -> None:
        with self._sweeping:
            await tidy(self._base.host, spare=spare, warn=self._warn)

    def _warn(self, text: str) -> None:
        self._base.emit(Warned(text=text))

    async def end(self) -> None:
        """Give the worktrees up, and wait until what else was removed has been said."""
        # Before the host ends what runs on it: git's end would be taken for a failure.
        self._sweeping.cancel()
        if self._begun:
            await self._done.wait()
