"""What a session says about a fork that might come next."""

from __future__ import annotations

import msgspec

from prong.journal.replay import Replay
from prong.provider import is_local
from prong.wire import Ttl


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What children would start from."""

    model: str
    tokens: int
    """Of the last request of the first agent."""
    idle: float
    """Seconds since then, if what it left in a cache can be lost with time."""
    ttl: Ttl
    setup: int | None
    """Tokens of the head; None if the prompt is not stored."""


def history_of(replay: Replay, now: float) -> History | None:
    """Read it off the first agent's requests; None if there is none yet."""
    paid = [p for p in replay.requests if not p.row.sidecar and "/" not in p.row.agent]
    if not paid:
        return None
    last = paid[-1]
    tokens = last.row.usage.input
    prompt = replay.known.get(last.row.digest)
    return History(
        model=last.row.model,
        tokens=tokens,
        # The embedded engine keeps what it has computed for no set time, also on disk.
        idle=0.0 if is_local(last.row.model) else max(0.0, now - last.at),
        ttl=_ttl(last.row.model, sum(p.row.usage.written_1h for p in paid)),
        setup=round(tokens * len(prompt.head.data) / len(prompt))
        if prompt is not None and len(prompt)
        else None,
    )


def _ttl(model: str, written_1h: int) -> Ttl:
    if written_1h:
        return "1h"
    return "30m" if "gpt" in model else "5m"
