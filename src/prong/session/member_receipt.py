"""What a member in a session of its own shared and paid, reckoned from two journals.

Its own has its requests, and in a fork's stand its leader's bytes at the front; its leader's says
what the request before it had left in the cache. So the receipt is the same whenever it is made,
however the member has ended, and whoever was there to see it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from prong.cost import Price
from prong.cost.cache import CacheRule
from prong.cost.receipt import Circumstance, Receipt, reconcile, settle
from prong.event import MAIN
from prong.ids import AgentPath, task_of
from prong.journal.replay import Paid, Replay
from prong.prompt import Prompt


def member_receipt(
    path: AgentPath, member: Replay, leader: Replay, *, rule: CacheRule, price: Price | None
) -> Receipt:
    """Make the receipt of a member that is shown at a path, by what it has paid so far."""
    base = _base(member)
    own = [one for one in member.requests if one.row.agent == MAIN and not one.inherited]
    first = next((one for one in own if one.row.is_turn), None)
    receipt = Receipt(
        task_id=task_of(path),
        agent=path,
        kind="typed" if base is None else "fork",
        status="running",
        session=member.opened.session,
        counts_writes=rule.marked,
    )
    if first is not None and (sent := member.known.get(first.row.digest)) is not None:
        receipt = replace(receipt, bytes_first=len(sent))
    if base is not None:
        receipt = replace(receipt, **_shared(base, leader, first, rule))
    return settle(receipt, [one.row for one in own], price, ttl=rule.ttl)


def _base(member: Replay) -> Prompt | None:
    """Give what a member has of its leader's conversation; None if it began with nothing."""
    last = 1 + member.opened.inherited
    placed = [one for one in member.entries if one.agent == MAIN and one.seq <= last]
    return placed[-1].prompt if placed else None


def _shared(base: Prompt, leader: Replay, first: Paid | None, rule: CacheRule) -> dict[str, Any]:
    """Say what a fork shares, and how its first request stands to what it should have read."""
    left = [one for one in leader.requests if one.row.digest == base.digest and one.row.is_turn]
    tokens = left[-1].row.usage.input if left else 0
    idle = max(0.0, first.at - left[-1].at) if first is not None and left else None
    warm = idle is not None and idle < rule.lives and tokens >= rule.minimum
    told: dict[str, Any] = {
        "base": base.digest,
        "bytes_shared": len(base),
        "tokens_shared": tokens,
        "predicted_read": tokens if warm else 0,
        "dispatch": "drop",
        "schedule": "at_once",
        "reason": "it begins with what its leader had sent before the reply that starts it",
    }
    if first is None:
        return told
    usage, read = first.row.usage, told["predicted_read"]
    counts, computed = rule.marked or usage.written > 0, max(0, usage.input - read)
    circumstance = Circumstance(
        minimum=rule.minimum,
        idle=None if rule.lasting else idle,
        ttl=rule.ttl,
        drops_thinking=not rule.keeps_thinking,
        marks=first.row.marks,
        rounds_to=rule.rounds_to,
    )
    return told | {
        "predicted_write": computed if counts else 0,
        "predicted_computed": computed,
        "miss": reconcile(read, usage, circumstance),
    }
