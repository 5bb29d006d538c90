"""Old sessions are removed beside the work; what was removed is said before the session ends."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.abc
import anyio.to_thread

from prong.event import Warned
from prong.session.foundation import Foundation


class Housekeeping:
    """Removes old sessions if the user's settings say after how many days."""

    def __init__(self, base: Foundation) -> None:
        """Nothing is looked at before `start`."""
        self._base = base
        self._days = base.place.settings.values.cleanup_period_days
        self._done = anyio.Event()
        self._begun = False

    def start(self, group: anyio.abc.TaskGroup) -> None:
        """Begin, if there is anything to do; nobody waits for it now."""
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
                    base.emit(Warned(text=told))
        finally:
            self._done.set()

    async def wait_done(self) -> None:
        """Wait until what was removed has been said; that takes a moment at most."""
        if self._begun:
            await self._done.wait()
