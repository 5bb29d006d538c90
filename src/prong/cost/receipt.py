"""What a fork shared, what it paid, and what it would have paid.

A receipt is made when a child starts, with what it should read from the cache, and settled from the
rows of the ledger when it ends. `reconcile` holds the first reply's counters against the prediction
and names the likeliest cause of a miss, the strongest evidence first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from prong.cost.breakeven import BreakEven
from prong.cost.ledger import Charge, total
from prong.cost.mark import LIFETIME
from prong.cost.price import Price
from prong.cost.schedule import Dispatch, FanPlan, Schedule
from prong.entry import Usage
from prong.event import ReceiptIssued
from prong.foreign_json import NOT_JSON
from prong.ids import AgentPath, TaskId
from prong.wire import Ttl

DeliveryState: TypeAlias = Literal["pending", "notice", "returned"]
"""How a child's report reached its parent."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What one child shared and paid; costs are dollars, None where a price is unknown."""

    task_id: TaskId
    agent: AgentPath
    """The child's path."""
    kind: Literal["fork", "typed"] = "fork"
    status: str = ""
    base: str = ""
    """Digest of the prompt it shares with its siblings."""
    bytes_shared: int = 0
    bytes_first: int = 0
    """Length of its first request's open bytes."""
    tokens_shared: int = 0
    """Estimated from the tokens that the provider counted for the parent."""
    predicted_read: int = 0
    predicted_write: int = 0
    """0 of a provider that does not count writes."""
    predicted_computed: int = 0
    """What of its first request should not be read, whether it is then written or not."""
    read: int = 0
    """Reported for its first request."""
    written: int = 0
    """Reported for its first request."""
    computed: int = 0
    """What of its first request was not read."""
    counts_writes: bool = True
    """Whether the provider tells what it writes to its cache; some tell only what they read."""
    requests: int = 0
    usage: Usage = Usage()
    """Of all its requests."""
    cost: float | None = None
    uncached: float | None = None
    """The same requests without any cache."""
    unshared: float | None = None
    """The same requests if the child had had to write the shared prefix itself, once."""
    first_event: float = 0.0
    """Seconds from its first request to the first event of the reply."""
    dispatch: Dispatch | Literal[""] = ""
    schedule: Schedule | Literal[""] = ""
    """Both are of a fork alone: nobody dispatched a typed agent with a shared prefix."""
    reason: str = ""
    diagnosis: str = ""
    """The provider's own cache diagnostics."""
    miss: str = ""
    """Why it read less than predicted, as far as can be told; empty if it did not."""
    delivered: DeliveryState = "pending"
    fan: str = ""
    """Task id of the first of the siblings it was dispatched with."""
    siblings: int = 0
    """How many were dispatched together, itself included; 0 where that is not known."""
    session: str = ""
    """The session of its own that it worked in; what it paid is in the books there."""
    target: str = ""
    """The machine that it worked on, if that is another."""
    bytes_sent: int = 0
    bytes_received: int = 0
    """What crossed the line to that machine, bundles included."""

    @property
    def saved(self) -> float | None:
        """What the cache saved, in dollars."""
        return _minus(self.uncached, self.cost)

    @property
    def saved_share(self) -> float | None:
        """What the cache saved, as a share of the cost without it."""
        return _share(self.saved, self.uncached)

    @property
    def saved_tokens(self) -> int:
        """Input tokens of all its requests that were read and so not computed again."""
        return self.usage.read


class FanEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a fan-out when it was dispatched."""

    base: str
    size: int
    estimate: BreakEven


class FanReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What siblings of one dispatch shared and paid."""

    base: str
    size: int
    plan: FanPlan | None = None
    estimate: BreakEven | None = None
    """Made before the dispatch; None in sessions of older programs."""
    receipts: tuple[Receipt, ...] = ()
    least: float | None = None
    """The same requests with every distinct block written once and read in all others."""

    @property
    def estimated(self) -> float | None:
        """What the children were estimated to cost, to be held against `paid`."""
        return None if self.estimate is None else self.estimate.fork.children_cost

    @property
    def paid(self) -> float | None:
        """What all children cost."""
        return _sum([_known(receipt, receipt.cost) for receipt in self.receipts])

    @property
    def uncached(self) -> float | None:
        """The same requests without any cache."""
        return _sum([_known(receipt, receipt.uncached) for receipt in self.receipts])

    @property
    def unshared(self) -> float | None:
        """The same requests if every child had had to write the shared prefix."""
        return _sum([_known(receipt, receipt.unshared) for receipt in self.receipts])

    @property
    def saved(self) -> float | None:
        """What the cache saved."""
        return _minus(self.uncached, self.paid)

    @property
    def saved_share(self) -> float | None:
        """What the cache saved, as a share of the cost without it."""
        return _share(self.saved, self.uncached)

    @property
    def usage(self) -> Usage:
        """Of all requests of all children."""
        return sum((receipt.usage for receipt in self.receipts), Usage())

    @property
    def saved_tokens(self) -> int:
        """Input tokens of all requests that were read and so not computed again."""
        return self.usage.read


def as_json(receipt: Receipt | FanReceipt) -> dict[str, Any]:
    """Give a receipt for programs, what is derived included."""
    found: dict[str, Any] = msgspec.to_builtins(receipt)
    if isinstance(receipt, FanReceipt):
        found["receipts"] = [as_json(one) for one in receipt.receipts]
        derived = ("estimated", "paid", "uncached", "unshared")
        found |= {name: getattr(receipt, name) for name in derived}
    derived = ("saved", "saved_share", "saved_tokens")
    return found | {name: getattr(receipt, name) for name in derived}


def issued(receipt: Receipt) -> ReceiptIssued:
    """Make the event by which faces are shown a receipt."""
    data = msgspec.Raw(msgspec.json.encode(as_json(receipt)))
    return ReceiptIssued(task_id=receipt.task_id, receipt=data, text=line(receipt))


def settle(
    receipt: Receipt, rows: Sequence[Charge], price: Price | None, *, ttl: Ttl = "5m"
) -> Receipt:
    """Fill in what the rows of a child's requests say, the first of them first."""
    own = [row for row in rows if not (row.sidecar or row.broken)]
    summed = total(rows)
    if not own:
        # Without a whole reply there is nothing to compare, but what was paid is known.
        return msgspec.structs.replace(
            receipt,
            requests=summed.requests,
            usage=summed.usage,
            cost=summed.cost,
            uncached=summed.uncached,
            unshared=summed.cost,
        )
    first = own[0]
    return msgspec.structs.replace(
        receipt,
        read=first.usage.read,
        written=first.usage.written,
        computed=first.usage.input - first.usage.read,
        counts_writes=receipt.counts_writes or first.usage.written > 0,
        requests=summed.requests,
        usage=summed.usage,
        cost=summed.cost,
        uncached=summed.uncached,
        unshared=unshared(receipt, first.usage, summed.cost, price, ttl=ttl),
        first_event=first.first_event,
    )


def unshared(
    receipt: Receipt, first: Usage, cost: float | None, price: Price | None, *, ttl: Ttl = "5m"
) -> float | None:
    """Price a child's requests as if it had found nothing of the shared prefix in the cache."""
    if cost is None or price is None:
        return None
    found = min(first.read, receipt.tokens_shared or first.read)
    write: float = getattr(price, f"write_{ttl}")
    return cost + found * (write - price.read) / 1_000_000


class Circumstance(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request that should have read from the cache."""

    diagnostics: bytes = b""
    """The provider's own, as they came."""
    minimum: int = 0
    """The shortest prefix the model caches, in tokens."""
    idle: float | None = None
    """Seconds since a request last used the base."""
    ttl: Ttl = "5m"
    in_flight: bool = False
    """Whether no reply of another request on this base had begun when this one was sent."""
    drops_thinking: bool = False
    """Whether the model drops earlier thinking and the directive came as plain text."""
    first_picture: bool = False
    """Whether it was the first of its conversation with a picture, on a provider to which that
    makes another prompt of it."""
    marks: int = 0
    """How many cache marks the request had."""
    rounds_to: int = 0
    """Providers that cache by themselves count in steps of so many tokens."""


_ENOUGH = 0.99


def reconcile(predicted_read: int, usage: Usage, circumstance: Circumstance) -> str:
    """Say why a request read less from the cache than predicted; empty if it read enough.

    Of a provider that tells nothing of its cache nothing is said.
    """
    if usage.silent or usage.read >= _ENOUGH * predicted_read - circumstance.rounds_to:
        return ""
    missed = f"read {usage.read:,} of {predicted_read:,} tokens predicted: "
    return missed + _cause(predicted_read, usage, circumstance)


def _cause(predicted_read: int, usage: Usage, known: Circumstance) -> str:
    if _reason(known.diagnostics)[0] not in _SILENT:
        return f"the provider says {diagnosis(known.diagnostics)}"
    if predicted_read < known.minimum:
        return f"the prefix is shorter than the {known.minimum:,} tokens this model caches"
    lifetime = LIFETIME[known.ttl]
    if known.idle is not None and known.idle >= lifetime:
        return f"the entry lives {lifetime:g} s and was last used {known.idle:,.0f} s before"
    if known.in_flight:
        return "no sibling's reply had begun yet, and an entry can be read only from then on"
    if known.drops_thinking:
        return "this model drops earlier thinking when plain user text arrives"
    if known.first_picture:
        return "it has the first picture, and prompts with pictures are cached apart from others"
    if known.marks and not usage.read and not usage.written:
        return "the provider reports no cache at all although marks were sent"
    return "the provider did not find the entry"


def diagnosis(data: bytes) -> str:
    """Read a provider's own cache diagnostics into a few words; empty if it gave none."""
    kind, tokens = _reason(data)
    count = f" ({tokens:,} tokens)" if tokens is not None else ""
    return kind.replace("_", " ") + count


_SILENT = frozenset(
    {
        "",
        "cache_hit",
        "unavailable",
        "previous_message_not_found",
        "comparison_response_not_found",
    }
)
"""What diagnostics say when they do not name a cause."""


def _reason(data: bytes) -> tuple[str, int | None]:
    told = _diagnostics(data)
    kind: Any = told.get("reason") or told.get("type")
    tokens: Any = told.get("cache_missed_tokens")
    if isinstance(told.get("cache_miss_reason"), dict):
        inner = msgspec.convert(told["cache_miss_reason"], dict[str, Any])
        kind, tokens = inner.get("type"), inner.get("cache_missed_input_tokens")
    return kind if isinstance(kind, str) else "", tokens if isinstance(tokens, int) else None


def _diagnostics(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, Any])
    except NOT_JSON:
        return {}


def line(receipt: Receipt) -> str:
    """Say a receipt in one line."""
    return f"{receipt.task_id} {receipt.status}: {in_brief(receipt)}"


def in_brief(receipt: Receipt) -> str:
    """Say in a few words what the first request found in the cache, what was paid and saved."""
    # Of the whole request: a sibling may have left more in the cache than the parent's part.
    whole = receipt.read + receipt.computed
    read = f"{receipt.read:,} of {whole:,} tokens cached"
    parts = ["cache not reported" if receipt.usage.silent else read, money(receipt.cost)]
    if saved := saving(receipt, digits=0):
        parts.append(saved)
    if receipt.miss:
        parts.append("less than predicted")
    if receipt.target:
        crossed = receipt.bytes_sent + receipt.bytes_received
        parts.append(f"{crossed:,} bytes to and from {receipt.target}")
    return ", ".join(parts)


def describe(receipt: Receipt) -> str:
    """Say a receipt in lines of at most 80 columns."""
    import textwrap

    r = receipt
    share = r.bytes_shared / r.bytes_first if r.bytes_first else 0.0
    seconds = f"{r.first_event:.2f} s to the first event"
    saved = f", {text}" if (text := saving(r)) else ""
    fork = r.kind == "fork"
    chosen = [r.dispatch, r.schedule.replace("_", " ")] if fork else []
    told = {
        "base": r.base[:40],
        "shared": f"{r.bytes_shared:,} of {r.bytes_first:,} bytes ({share:.2%}), "
        f"about {r.tokens_shared:,} tokens"
        if fork
        else "",
        "cache": _counters(r),
        "cost": f"{money(r.cost)} for {r.requests} requests{saved}",
        "": ""
        if r.uncached == 0
        else f"without cache {money(r.uncached)}"
        + (f", without sharing {money(r.unshared)}" if fork else ""),
        "start": ", ".join([*filter(None, chosen), seconds]),
        "machine": f"{r.target}: {r.bytes_sent:,} bytes there, {r.bytes_received:,} back"
        if r.target
        else "",
        "session": f"{r.session}: what it paid is in the books there" if r.session else "",
        "reason": r.reason,
        "provider": r.diagnosis,
        "miss": r.miss,
        "report": {"pending": "not delivered yet"}.get(r.delivered, f"delivered as {r.delivered}"),
    }
    lines = [f"{r.task_id} {r.status} ({r.kind} {r.agent})"]
    for name, text in told.items():
        if text:
            start = f"  {name:<9}"
            lines += textwrap.wrap(
                text, 80, initial_indent=start, subsequent_indent=" " * 11, break_on_hyphens=False
            )
    return "\n".join(lines)


def _counters(r: Receipt) -> str:
    other, count, predicted = "wrote", r.written, r.predicted_write
    if not r.counts_writes:
        other, count, predicted = "computed", r.computed, r.predicted_computed
    if r.usage.silent:
        predicted = f" (predicted: read {r.predicted_read:,})" if r.kind == "fork" else ""
        return f"the server reports nothing of its cache{predicted}"
    if r.kind != "fork":
        return f"read {r.read:,}, {other} {count:,} with its first request"
    return (
        f"read {r.read:,} (predicted {r.predicted_read:,}), "
        f"{other} {count:,} (predicted {predicted:,})"
    )


def saving(paid: Receipt | FanReceipt, *, digits: int = 1) -> str:
    """Say what the cache saved: in dollars, or in tokens where those cost nothing.

    Empty if that is not known.
    """
    if paid.usage.silent:
        return ""
    if paid.uncached == 0 and (whole := paid.usage.input):
        share = paid.saved_tokens / whole
        return f"saved {paid.saved_tokens:,} of {whole:,} tokens ({share:.{digits}%})"
    if paid.saved is None or paid.uncached == 0:
        return ""
    return f"saved {money(paid.saved)} ({paid.saved_share or 0:.{digits}%})"


def money(dollars: float | None) -> str:
    """Say an amount; an unknown price is said to be unknown."""
    if dollars is None:
        return "price unknown"
    return f"${dollars:.4f}" if dollars else "$0"


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _known(receipt: Receipt, amount: float | None) -> float | None:
    """Take nothing for no requests, whatever the price."""
    return amount if receipt.requests else amount or 0.0


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
