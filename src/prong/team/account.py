"""What children share and pay, held against what was predicted.

A fork's first request should read the base; each later one should read what the request before it
left in the cache. A request that read less raises an event that names the likeliest cause.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from prong.agent import Agent
from prong.cost import Prices, Row, fact
from prong.cost.mark import takes_marks
from prong.cost.receipt import (
    Circumstance,
    FanEstimate,
    Receipt,
    as_json,
    diagnosis,
    line,
    reconcile,
    settle,
)
from prong.event import CacheMissed, Event, ReceiptIssued
from prong.journal.note import FanPlanned, ReceiptClosed, ReceiptOpened
from prong.provider import trait
from prong.team.child import Child
from prong.team.departure import tokens, ttl_of
from prong.team.fan import Fan
from prong.wire import Ended

Emit = Callable[[str, Event], None]


def open_receipt(parent: Agent, child: Child, fan: Fan) -> Receipt:
    """Begin the receipt of a fork with what it should share."""
    spec, shared = child.spec, len(fan.base)
    return Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        base=spec.base,
        bytes_shared=shared,
        bytes_first=len(child.agent.prompt),
        tokens_shared=parent.last_usage.input + tokens(parent, shared - parent.last_length),
        predicted_read=fan.plan.cached,
        counts_writes=takes_marks(fan.base.head),
        dispatch=fan.plan.dispatch,
        schedule=fan.plan.schedule,
        reason=fan.plan.reason,
        delivered="pending",
        fan=fan.first,
    )


def keep_estimate(parent: Agent, fan: Fan) -> None:
    """Store what a fan-out was estimated to cost, to be compared with what it did cost."""
    told = FanEstimate(base=fan.base.digest, size=fan.plan.size, estimate=fan.estimate)
    parent.recorder.note(parent.path, FanPlanned(fan.first, told))


def receipt_of(child: Child, prices: Prices) -> Receipt:
    """Settle a child's receipt by what it has paid so far."""
    return settle(
        msgspec.structs.replace(child.receipt, status=child.status, miss=child.miss),
        child.rows,
        prices.of(child.agent.prompt.head.model),
        ttl=ttl_of(child.agent),
    )


def enter(child: Child, row: Row, ended: Ended | None, emit: Emit) -> None:
    """Take note of what a child paid, and say so if it read less than it should have."""
    first = all(row.sidecar or row.broken for row in child.rows)
    child.rows.append(row)
    if row.sidecar or ended is None:
        return
    fan, agent = child.fan, child.agent
    predicted = _left(agent, here=not first)
    idle, child.used_at = agent.last_at - child.used_at, agent.last_at
    if fan is not None:
        fan.used(agent.last_at)
    if first and fan is not None:
        predicted = fan.predicted_read(child.spec.task_id)
        computed = max(0, row.usage.input - predicted)
        counts = child.receipt.counts_writes or row.usage.written > 0
        child.receipt = msgspec.structs.replace(
            child.receipt,
            predicted_read=predicted,
            predicted_write=computed if counts else 0,
            predicted_computed=computed,
            counts_writes=counts,
            diagnosis=diagnosis(ended.diagnostics),
        )
        # A resumed session has no plan to predict from, so what was predicted is stored.
        agent.recorder.note(child.spec.path, ReceiptOpened(child.receipt))
        idle = fan.idle(child.spec.task_id)
    if why := reconcile(predicted, row.usage, _circumstance(child, ended, row, idle, first=first)):
        child.miss = child.miss or why
        emit(child.spec.path, CacheMissed(predicted=predicted, read=row.usage.read, why=why))


def _circumstance(
    child: Child, ended: Ended, row: Row, idle: float | None, *, first: bool
) -> Circumstance:
    agent, fan = child.agent, child.fan
    rash = first and fan is not None and fan.plan.schedule == "at_once" and not fan.plan.cached
    keeps = fact(agent.prompt.head.model).keeps_thinking
    return msgspec.structs.replace(
        _usual(agent, ended, row, None if rash else idle),
        in_flight=rash,
        drops_thinking=not keeps and (fan is None or fan.carrier is None),
    )


def _usual(agent: Agent, ended: Ended, row: Row, idle: float | None) -> Circumstance:
    head, special = agent.prompt.head, trait(agent.provider)
    rounds = 0 if takes_marks(head) else 128
    return Circumstance(
        diagnostics=ended.diagnostics,
        minimum=fact(head.model).min_prefix,
        idle=None if special.lasting else idle,
        ttl=ttl_of(agent),
        marks=row.marks,
        rounds_to=rounds if special.slack is None else special.slack,
    )


def watch(agent: Agent) -> None:
    """Have every reply of a session's first agent held against what its last one left cached.

    An agent whose prompt was replaced begins anew, and so does one that was never counted: it is
    expected to read nothing. To be called once a resumed agent remembers its last request.
    """
    used_at, here = agent.last_at, False

    def paid(row: Row, ended: Ended | None) -> None:
        nonlocal used_at, here
        if row.sidecar or ended is None:
            return
        idle, used_at = agent.last_at - used_at, agent.last_at
        predicted, here = _left(agent, here=here), True
        if predicted < fact(row.model).min_prefix or _forgets(agent):
            return
        if why := reconcile(predicted, row.usage, _usual(agent, ended, row, idle)):
            agent.emit(CacheMissed(predicted=predicted, read=row.usage.read, why=why))

    agent.on_paid = paid


def _left(agent: Agent, *, here: bool) -> int:
    """Say what of an agent's last request should be in the cache, while a reply is being entered.

    Its usage is not yet overwritten by the reply's. A provider that keeps all it reads does not
    count what it writes; `here` says that the request was made by this process, before whose start
    such a provider may have been another.
    """
    used = agent.last_usage
    if here and trait(agent.provider).lasting:
        return used.input
    return used.read + used.written


def _forgets(agent: Agent) -> bool:
    """Whether the model drops earlier thinking for what came last: less is read by design."""
    tip = agent.prompt.tip
    text_came = tip is not None and tip.kind != "results"
    return text_came and not fact(agent.prompt.head.model).keeps_thinking


def close_receipt(child: Child, prices: Prices, emit: Emit) -> None:
    """Store a child's receipt at its end, and show it."""
    child.receipt = msgspec.structs.replace(
        child.receipt, delivered="notice" if child.spec.notify else "returned"
    )
    receipt = receipt_of(child, prices)
    child.agent.recorder.note(child.spec.path, ReceiptClosed(receipt))
    emit(
        child.spec.path,
        ReceiptIssued(
            task_id=child.spec.task_id,
            receipt=msgspec.Raw(msgspec.json.encode(as_json(receipt))),
            text=line(receipt),
        ),
    )
