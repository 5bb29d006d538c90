"""Ends a process that is no child of ours: it is asked, and after a while ended by force."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import anyio

from prong.host import owner

GRACE = 2.0
"""Seconds in which a process that was asked must have ended."""


async def end_process(pid: int, since: int, ask: signal.Signals | None = signal.SIGTERM) -> None:
    """See that a process ends which was started at that moment; without `ask` it knows already.

    One that leads a session of its own takes its group with it. Raises PermissionError if it is
    another user's.
    """
    if not owner.is_alive(pid, since):
        return
    with suppress(ProcessLookupError):
        if ask is not None:
            os.kill(pid, ask)
        with anyio.move_on_after(GRACE):
            # Nothing else tells of its end.
            while owner.is_alive(pid, since):  # noqa: ASYNC110 - see above
                await anyio.sleep(0.02)
        if owner.is_alive(pid, since):
            _kill(pid)


def _kill(pid: int) -> None:
    if os.getsid(pid) == pid:
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)
