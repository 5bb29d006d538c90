"""What agents share and pay, held against what was predicted.

A fork's first request should read the base; each later one should read what the request before it
left in the cache. A request that read less raises an event that names the likeliest cause. The main
agent's requests are held to the same, without a receipt.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from prong.agent import Client, Conversation
from prong.cost import Charge, Price
from prong.cost.cache import CacheRule, cache_rule
from prong.cost.receipt import Circumstance, DeliveryState, Receipt, diagnosis, reconcile, settle
from prong.event import CacheMissed
from prong.journal.note import ChildSpec, ChildStatus, ReceiptOpened
from prong.team.fanout import FanOut, Prediction


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

    def paid(
        self,
        client: Client,
        conversation: Conversation,
        row: Charge,
        *,
        at: float,
        diagnostics: bytes,
    ) -> None:
        """Say so if a reply read less than it should have."""
        if not row.is_turn:
            return
        head = conversation.prompt.head
        rule = cache_rule(head, client.provider.trait, client.settings.ttl)
        predicted, self._here = _left(conversation, rule, here=self._here), True
        if predicted < rule.minimum or _forgets(conversation, rule):
            return
        idle = at - conversation.last.at
        _compare(conversation, predicted, row, _usual(rule, diagnostics, row, idle))


class ChildAccount(CacheWatch):
    """What one child was to share, has shared and has paid."""

    def __init__(
        self,
        receipt: Receipt,
        rule: CacheRule,
        *,
        fan: FanOut | None = None,
        rows: Iterable[Charge] = (),
    ) -> None:
        """Open it with what the child should share; one that is taken up again has `rows`."""
        super().__init__()
        self.receipt = receipt
        self.fan = fan
        """The fan-out it is one of, in its first run."""
        self.rows = list(rows)
        """Its requests."""
        self._rule = rule
        self._prediction: Prediction | None = None

    def expect(self, prediction: Prediction) -> None:
        """Take note of what the first request should find."""
        self._prediction = prediction

    def began(self) -> None:
        """Let siblings follow: what was written can be read."""
        if self.fan is not None:
            self.fan.began(self.receipt.task_id)

    def alone(self) -> None:
        """Run by itself from now on: nothing is predicted by the fan-out any more."""
        self.fan = self._prediction = None

    def paid(
        self,
        client: Client,  # noqa: ARG002 - the rule of its cache is known from its making
        conversation: Conversation,
        row: Charge,
        *,
        at: float,
        diagnostics: bytes,
    ) -> None:
        """Enter what the child paid, and say so if it read less than it should have."""
        first = not any(row.is_turn for row in self.rows)
        self.rows.append(row)
        if not row.is_turn:
            return
        if first:
            sent = len(conversation.prompt)
            self.receipt = msgspec.structs.replace(self.receipt, bytes_first=sent)
        rule, prediction = self._rule, self._prediction if first else None
        if prediction is not None:
            predicted, idle = prediction.read, prediction.idle
            self._enter_first(predicted, row, diagnostics)
            # A resumed session has no plan to predict from, so what was predicted is stored.
            conversation.note(ReceiptOpened(self.receipt))
        else:
            predicted, idle = _left(conversation, rule, here=not first), at - conversation.last.at
        plan = self.fan.plan if first and self.fan is not None else None
        rash = plan is not None and plan.schedule == "at_once" and not plan.cached
        carried = self.fan is not None and self.fan.carrier is not None
        circumstance = msgspec.structs.replace(
            _usual(rule, diagnostics, row, None if rash else idle),
            in_flight=rash,
            drops_thinking=not rule.keeps_thinking and not carried,
        )
        why = _compare(conversation, predicted, row, circumstance)
        self.receipt = msgspec.structs.replace(self.receipt, miss=self.receipt.miss or why)

    def _enter_first(self, predicted: int, row: Charge, diagnostics: bytes) -> None:
        """Enter the first reply of a fork."""
        computed = max(0, row.usage.input - predicted)
        counts = self.receipt.counts_writes or row.usage.written > 0
        self.receipt = msgspec.structs.replace(
            self.receipt,
            predicted_read=predicted,
            predicted_write=computed if counts else 0,
            predicted_computed=computed,
            counts_writes=counts,
            diagnosis=diagnosis(diagnostics),
        )

    def settled(self, status: ChildStatus, price: Price | None) -> Receipt:
        """Give the receipt by what was paid so far."""
        opened = msgspec.structs.replace(self.receipt, status=status)
        return settle(opened, self.rows, price, ttl=self._rule.ttl)

    def close(self, status: ChildStatus, price: Price | None, delivered: DeliveryState) -> Receipt:
        """Give the receipt at the end of a run, whose report was delivered in some way."""
        self.receipt = msgspec.structs.replace(self.receipt, delivered=delivered)
        return self.settled(status, price)


def fork_account(spec: ChildSpec, fan: FanOut) -> ChildAccount:
    """Open the account of a fork with what it should share."""
    receipt = Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        base=spec.base,
        bytes_shared=len(fan.base),
        tokens_shared=fan.tokens,
        predicted_read=fan.plan.cached,
        counts_writes=fan.rule.marked,
        dispatch=fan.plan.dispatch,
        schedule=fan.plan.schedule,
        reason=fan.plan.reason,
        delivered="pending",
        fan=fan.first or spec.task_id,
    )
    return ChildAccount(receipt, fan.rule, fan=fan)


def typed_account(spec: ChildSpec, rule: CacheRule) -> ChildAccount:
    """Open the account of a typed child, which shares nothing."""
    receipt = Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        kind="typed",
        counts_writes=rule.marked,
        delivered="pending",
    )
    return ChildAccount(receipt, rule)


def _compare(
    conversation: Conversation, predicted: int, row: Charge, circumstance: Circumstance
) -> str:
    """Say so if a reply read less than predicted; gives why, as far as can be told."""
    if why := reconcile(predicted, row.usage, circumstance):
        conversation.emit(CacheMissed(predicted=predicted, read=row.usage.read, why=why))
    return why


def _usual(rule: CacheRule, diagnostics: bytes, row: Charge, idle: float | None) -> Circumstance:
    return Circumstance(
        diagnostics=diagnostics,
        minimum=rule.minimum,
        idle=None if rule.lasting else idle,
        ttl=rule.ttl,
        marks=row.marks,
        rounds_to=rule.rounds_to,
    )


def _left(conversation: Conversation, rule: CacheRule, *, here: bool) -> int:
    """Say what of the last request should be in the cache, while a reply is being entered.

    Its usage is not yet overwritten by the reply's. A provider that keeps all it reads does not
    count what it writes; `here` says that the request was made by this process, before whose start
    such a provider may have been another.
    """
    used = conversation.last.usage
    if here and rule.lasting:
        return used.input
    return used.read + used.written


def _forgets(conversation: Conversation, rule: CacheRule) -> bool:
    """Whether the model drops earlier thinking for what came last: less is read by design."""
    tip = conversation.prompt.tip
    text_came = tip is not None and tip.kind != "results"
    return text_came and not rule.keeps_thinking
