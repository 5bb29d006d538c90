"""Ends a process that is no child of ours: it is asked, and after a while ended by force."""

from __future__ import annotations

from contextlib import suppress

import anyio

from prong.system.identity import is_alive
from prong.system.process_tree import ask_foreign, end_foreign

GRACE = 2.0
"""Seconds in which a process that was asked must have ended."""

_KILLED = 10.0
"""Seconds for which one that was killed is waited for: the system may hold it for longer."""


async def end_process(pid: int, since: int, *, ask: bool = True) -> None:
    """See that a process ends which was started at that moment; without `ask` it knows already.

    One that leads a session of its own takes its group with it. Raises PermissionError if it is
    another user's.
    """
    if not is_alive(pid, since):
        return
    with suppress(ProcessLookupError):
        if ask:
            ask_foreign(pid)
        await _wait_gone(pid, since, GRACE)
        if is_alive(pid, since):
            end_foreign(pid)
            # A kill is only sent: on a busy machine it is a while until the process is gone.
            await _wait_gone(pid, since, _KILLED)


async def _wait_gone(pid: int, since: int, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        # Nothing else tells of its end.
        while is_alive(pid, since):  # noqa: ASYNC110 - see above
            await anyio.sleep(0.02)
