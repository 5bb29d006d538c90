"""What children share and pay, held against what was predicted.

A fork's first request should read the base; each later one, like every agent's, should read what
the request before it left in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from prong.agent import CacheWatch, Conversation
from prong.agent.observer import Payment, hold
from prong.cost import Charge, Price
from prong.cost.cache import CacheRule
from prong.cost.receipt import DeliveryState, Receipt, diagnosis, settle
from prong.journal.note import ChildSpec, ChildStatus, ReceiptOpened
from prong.team.fanout import FanOut
from prong.wire import Ttl


class ChildAccount(CacheWatch):
    """What one child was to share, has shared and has paid."""

    def __init__(
        self,
        receipt: Receipt,
        ttl: Ttl,
        *,
        fan: FanOut | None = None,
        rows: Iterable[Charge] = (),
    ) -> None:
        """Open it with what the child should share, in a cache that keeps entries for a `ttl`.

        One that is taken up again has `rows`.
        """
        super().__init__()
        self.receipt = receipt
        self.fan = fan
        """The fan-out it is one of, in its first run."""
        self.rows = list(rows)
        """Its requests."""
        self._ttl: Ttl = ttl

    def began(self) -> None:
        """Let siblings follow: what was written can be read."""
        if self.fan is not None:
            self.fan.began(self.receipt.task_id)

    def alone(self) -> None:
        """Run by itself from now on: nothing is predicted by the fan-out any more."""
        self.fan = None

    def paid(self, conversation: Conversation, payment: Payment) -> None:
        """Enter what the child paid, and say so if it read less than it should have."""
        first = not any(row.is_turn for row in self.rows)
        self.rows.append(payment.row)
        if not payment.row.is_turn:
            return
        known = None
        if first:
            self.receipt = replace(self.receipt, bytes_first=len(conversation.prompt))
            if self.fan is not None:
                known = self.fan.predictions.get(self.receipt.task_id)
        if known is not None:
            self._enter_first(known.read, payment)
            # A resumed session has no plan to predict from, so what was predicted is stored.
            conversation.note(ReceiptOpened(self.receipt))
        why = hold(conversation, payment, known)
        self.receipt = replace(self.receipt, miss=self.receipt.miss or why)

    def _enter_first(self, predicted: int, payment: Payment) -> None:
        """Enter the first reply of a fork."""
        usage = payment.row.usage
        computed = max(0, usage.input - predicted)
        counts = self.receipt.counts_writes or usage.written > 0
        self.receipt = replace(
            self.receipt,
            predicted_read=predicted,
            predicted_write=computed if counts else 0,
            predicted_computed=computed,
            counts_writes=counts,
            diagnosis=diagnosis(payment.diagnostics),
        )

    def crossed(self, target: str, sent: int, received: int) -> None:
        """Enter what went to another machine, and came from there."""
        sent, received = sent + self.receipt.bytes_sent, received + self.receipt.bytes_received
        self.receipt = replace(
            self.receipt, target=target, bytes_sent=sent, bytes_received=received
        )

    def settled(self, status: ChildStatus, price: Price | None) -> Receipt:
        """Give the receipt by what was paid so far."""
        opened = replace(self.receipt, status=status)
        return settle(opened, self.rows, price, ttl=self._ttl)

    def close(self, status: ChildStatus, price: Price | None, delivered: DeliveryState) -> Receipt:
        """Give the receipt at the end of a run, whose report was delivered in some way."""
        siblings = len(self.fan.joined) if self.fan is not None else self.receipt.siblings
        self.receipt = replace(self.receipt, delivered=delivered, siblings=siblings)
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
    return ChildAccount(receipt, fan.rule.ttl, fan=fan)


def typed_account(spec: ChildSpec, rule: CacheRule) -> ChildAccount:
    """Open the account of a typed child, which shares nothing."""
    receipt = Receipt(
        task_id=spec.task_id,
        agent=spec.path,
        kind="typed",
        counts_writes=rule.marked,
        delivered="pending",
    )
    return ChildAccount(receipt, rule.ttl)
