"""What agents share and pay, held against what was predicted.

A fork's first request should read the base; each later one should read what the request before it
left in the cache. A request that read less raises an event that names the likeliest cause. The main
agent's requests are held to the same, without a receipt.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from prong.agent import Agent
from prong.cost import Prices, Row, fact
from prong.cost.mark import takes_marks, ttl_of
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
from prong.event import CacheMissed, ReceiptIssued
from prong.journal.note import ChildSpec, ChildStatus, FanPlanned, ReceiptClosed, ReceiptOpened
from prong.prompt import Prompt
from prong.team.fanout import FanOut, tokens
from prong.wire import Ended


class CacheWatch:
    """Holds what an agent's replies read from the cache against what its last request left there.

    An agent whose prompt was replaced begins anew, and so does one that was never counted: it is
    expected to read nothing.
    """

    def __init__(self) -> None:
        """Nothing has been read yet."""
        self._here = False
        """Whether that request was made by this process."""
        self._led: list[FanOut] = []

    def lead(self, fan: FanOut) -> None:
        """Take note of a fan-out of this agent's: a child may be about to write what it would."""
        self._led.append(fan)

    async def before(self) -> None:
        """Wait, for a while, for children that are just writing what the agent would write too."""
        led, self._led = self._led, []
        for fan in led:
            await fan.wait_led()

    def began(self) -> None:
        """Take no note."""

    def paid(self, agent: Agent, row: Row, ended: Ended | None, at: float) -> None:
        """Say so if a reply read less than it should have."""
        if row.sidecar or ended is None:
            return
        predicted, self._here = _left(agent, here=self._here), True
        if predicted < fact(row.model).min_prefix or _forgets(agent):
            return
        circumstance = _usual(agent, ended, row, at - agent.last.at)
        if why := reconcile(predicted, row.usage, circumstance):
            agent.emit(CacheMissed(predicted=predicted, read=row.usage.read, why=why))


class ChildAccount(CacheWatch):
    """What one child was to share, has shared and has paid."""

    def __init__(
        self,
        receipt: Receipt,
        *,
        fan: FanOut | None = None,
        rows: Iterable[Row] = (),
    ) -> None:
        """Open it with what the child should share; one that is taken up again has `rows`."""
        super().__init__()
        self.receipt = receipt
        self.fan = fan
        self.rows = list(rows)
        """Its requests."""
        self._miss = receipt.miss

    def began(self) -> None:
        """Let siblings follow: what was written can be read."""
        if self.fan is not None:
            self.fan.began(self.receipt.task_id)

    def leave(self) -> None:
        """Be one of a fan-out no longer; nothing of it is predicted by that any more."""
        if self.fan is not None:
            self.fan.left(self.receipt.task_id)

    def alone(self) -> None:
        """Run by itself from now on."""
        self.fan = None

    def made(self, prompt: Prompt) -> None:
        """Take note of the first prompt."""
        self.receipt = msgspec.structs.replace(self.receipt, bytes_first=len(prompt))

    def paid(self, agent: Agent, row: Row, ended: Ended | None, at: float) -> None:
        """Enter what the child paid, and say so if it read less than it should have."""
        first = all(row.sidecar or row.broken for row in self.rows)
        self.rows.append(row)
        if row.sidecar or ended is None:
            return
        predicted = _left(agent, here=not first)
        idle: float | None = at - agent.last.at
        if self.fan is not None:
            self.fan.used(at)
        if first and self.fan is not None:
            predicted = self._first(self.fan, agent, row, ended)
            idle = self.fan.idle(self.receipt.task_id)
        circumstance = self._circumstance(agent, ended, row, idle, first=first)
        if why := reconcile(predicted, row.usage, circumstance):
            self._miss = self._miss or why
            agent.emit(CacheMissed(predicted=predicted, read=row.usage.read, why=why))

    def _first(self, fan: FanOut, agent: Agent, row: Row, ended: Ended) -> int:
        """Enter the first reply of a fork; gives what was predicted for it."""
        predicted = fan.predicted_read(self.receipt.task_id)
        computed = max(0, row.usage.input - predicted)
        counts = self.receipt.counts_writes or row.usage.written > 0
        self.receipt = msgspec.structs.replace(
            self.receipt,
            predicted_read=predicted,
            predicted_write=computed if counts else 0,
            predicted_computed=computed,
            counts_writes=counts,
            diagnosis=diagnosis(ended.diagnostics),
        )
        # A resumed session has no plan to predict from, so what was predicted is stored.
        agent.recorder.note(agent.path, ReceiptOpened(self.receipt))
        return predicted

    def _circumstance(
        self, agent: Agent, ended: Ended, row: Row, idle: float | None, *, first: bool
    ) -> Circumstance:
        fan = self.fan
        rash = first and fan is not None and fan.plan.schedule == "at_once" and not fan.plan.cached
        keeps = fact(agent.prompt.head.model).keeps_thinking
        return msgspec.structs.replace(
            _usual(agent, ended, row, None if rash else idle),
            in_flight=rash,
            drops_thinking=not keeps and (fan is None or fan.carrier is None),
        )

    def settled(self, agent: Agent, status: ChildStatus, prices: Prices) -> Receipt:
        """Give the receipt by what was paid so far."""
        return settle(
            msgspec.structs.replace(self.receipt, status=status, miss=self._miss),
            self.rows,
            prices.of(agent.prompt.head.model),
            ttl=ttl_of(agent.prompt.head, agent.ttl),
        )

    def close(self, agent: Agent, status: ChildStatus, prices: Prices, *, notified: bool) -> None:
        """Store the receipt at the child's end, and show it."""
        delivered = "notice" if notified else "returned"
        self.receipt = msgspec.structs.replace(self.receipt, delivered=delivered)
        receipt = self.settled(agent, status, prices)
        agent.recorder.note(agent.path, ReceiptClosed(receipt))
        agent.emit(
            ReceiptIssued(
                task_id=receipt.task_id,
                receipt=msgspec.Raw(msgspec.json.encode(as_json(receipt))),
                text=line(receipt),
            )
        )


def fork_receipt(parent: Agent, spec: ChildSpec, fan: FanOut) -> Receipt:
    """Begin the receipt of a fork with what it should share."""
    shared = len(fan.base)
    return Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        base=spec.base,
        bytes_shared=shared,
        tokens_shared=parent.last.usage.input + tokens(parent, shared - parent.last.length),
        predicted_read=fan.plan.cached,
        counts_writes=takes_marks(fan.base.head),
        dispatch=fan.plan.dispatch,
        schedule=fan.plan.schedule,
        reason=fan.plan.reason,
        delivered="pending",
        fan=fan.first,
    )


def typed_receipt(spec: ChildSpec, prompt: Prompt) -> Receipt:
    """Begin the receipt of a typed child, which shares nothing."""
    return Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        kind="typed",
        counts_writes=takes_marks(prompt.head),
        delivered="pending",
    )


def keep_estimate(parent: Agent, fan: FanOut) -> None:
    """Store what a fan-out was estimated to cost, to be compared with what it did cost."""
    estimate = FanEstimate(base=fan.base.digest, size=fan.plan.size, estimate=fan.estimate)
    parent.recorder.note(parent.path, FanPlanned(fan.first, estimate))


def _usual(agent: Agent, ended: Ended, row: Row, idle: float | None) -> Circumstance:
    head, special = agent.prompt.head, agent.provider.trait
    rounds = 0 if takes_marks(head) else 128
    return Circumstance(
        diagnostics=ended.diagnostics,
        minimum=fact(head.model).min_prefix,
        idle=None if special.lasting else idle,
        ttl=ttl_of(agent.prompt.head, agent.ttl),
        marks=row.marks,
        rounds_to=rounds if special.slack is None else special.slack,
    )


def _left(agent: Agent, *, here: bool) -> int:
    """Say what of an agent's last request should be in the cache, while a reply is being entered.

    Its usage is not yet overwritten by the reply's. A provider that keeps all it reads does not
    count what it writes; `here` says that the request was made by this process, before whose start
    such a provider may have been another.
    """
    used = agent.last.usage
    if here and agent.provider.trait.lasting:
        return used.input
    return used.read + used.written


def _forgets(agent: Agent) -> bool:
    """Whether the model drops earlier thinking for what came last: less is read by design."""
    tip = agent.prompt.tip
    text_came = tip is not None and tip.kind != "results"
    return text_came and not fact(agent.prompt.head.model).keeps_thinking
