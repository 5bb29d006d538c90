"""How a session ends: no turn begins any more, then nothing runs, then it says so."""

from __future__ import annotations

import anyio
import anyio.to_thread

from prong.event import AgentFinished, SessionFinished, Warned
from prong.host.escape import escaped
from prong.host.guardian import GUARDIAN
from prong.session.hook_event import tell_end
from prong.session.parts import Parts

_PATIENCE = 60
"""Seconds that the end of a session waits for a last answer."""


async def tell_escaped(parts: Parts, what: str) -> None:
    """Tell the user of processes that do not end with this session."""
    for one in await anyio.to_thread.run_sync(escaped, parts.journal.session):
        parts.agent.emit(Warned(text=f"This session's process {one}, {what}."))


async def remember_last(parts: Parts) -> None:
    """Keep for later sessions what the end of the conversation has brought, within some time."""
    last = parts.life.last
    if last is not None and last.why == "done" and not parts.life.stopped:
        with anyio.move_on_after(_PATIENCE) as scope:
            await parts.memory.attempt(parts.snapshot)
        if scope.cancelled_caught:
            late = f"nothing was kept for later sessions: no answer in {_PATIENCE} s"
            parts.agent.emit(Warned(text=late))


async def stop_turns(parts: Parts) -> None:
    """Let no turn begin any more, and wait for the end of the one that runs."""
    await parts.life.stop()
    await tell_end(parts)
    await parts.housekeeping.end()
    if GUARDIAN.pid is not None:
        await tell_escaped(parts, "which it started, has left its group and goes on running")


async def finish(parts: Parts) -> None:
    """Store what there is and say goodbye, when nothing runs any more."""
    try:
        await parts.journal.sync()
    finally:
        parts.intake.close()
        parts.agent.emit(AgentFinished(status="completed"))
        parts.agent.emit(SessionFinished(cost=parts.ledger.cost, usage=parts.ledger.usage))
        parts.bus.close()
