"""Receipts: what they sum, what they say, and how a miss is explained."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prong.cost import Charge, Prices
from prong.cost.least import least_costs, least_each, least_possible
from prong.cost.receipt import (
    Circumstance,
    FanReceipt,
    Receipt,
    as_json,
    describe,
    diagnosis,
    line,
    reconcile,
    saving,
    settle,
)
from prong.cost.schedule import Rates
from prong.entry import Reply, Usage, user_text
from prong.event import MAIN
from prong.ids import AgentPath, TaskId
from prong.prompt import Head, Prompt
from prong.testing.cache import Cache
from prong.testing.diagnosis import anthropic_diagnosis, openai_diagnosis
from prong.testing.ledger import Ledger
from prong.testing.ledger import Rates as ServerRates
from prong.testing.model import Model
from prong.testing.parse import parse
from prong.testing.request import Request
from prong.wire import HeadSpec, dialect

MODEL = "claude-opus-5-5"
PRICE = Prices().of(MODEL)
FORK = Receipt(task_id=TaskId("f1"), agent=AgentPath("main/fork-1"), tokens_shared=100_000)


def row(usage: Usage, *, agent: str = "main/fork-1", sidecar: str = "", **more) -> Charge:
    assert PRICE
    cost, plain = PRICE.cost(usage), PRICE.uncached(usage)
    given: dict[str, Any] = {"cost": cost, "uncached": plain} | more
    return Charge(agent=AgentPath(agent), model=MODEL, usage=usage, sidecar=sidecar, **given)


@pytest.mark.spec("F16")
def test_a_receipt_is_settled_from_the_rows_of_its_child() -> None:
    """Counters are of the first request, sums of all, and saving is what no cache would cost."""
    rows = [
        row(Usage(read=99_000, uncached=30, output=9), sidecar="summary", first_event=9.0),
        row(Usage(read=100_000, written_5m=200, output=50), first_event=0.5),
        row(Usage(read=100_200, written_5m=900, output=300)),
    ]

    found = settle(FORK, rows, PRICE)

    assert (found.read, found.written, found.requests) == (100_000, 200, 3)
    assert found.usage == rows[0].usage + rows[1].usage + rows[2].usage
    assert found.first_event == 0.5
    assert found.cost == pytest.approx(sum(r.cost or 0 for r in rows))
    assert found.saved == pytest.approx((found.uncached or 0) - (found.cost or 0))
    assert found.unshared == pytest.approx((found.cost or 0) + 100_000 * (5 - 0.20) / 1e6)
    assert found.saved_share is not None
    assert 0.9 < found.saved_share < 1


@pytest.mark.spec("F16")
def test_a_price_nobody_knows_is_never_a_saving() -> None:
    """Without a price there is no cost and no saving, alone or in a fan-out."""
    found = settle(FORK, [row(Usage(read=9), cost=None, uncached=None)], None)
    fan = FanReceipt(base="b", size=2, receipts=(found, settle(FORK, [row(Usage(read=9))], PRICE)))

    assert (found.cost, found.saved, found.saved_share, found.unshared) == (None,) * 4
    assert (fan.paid, fan.saved, fan.unshared) == (None, None, None)
    assert "price unknown" in describe(found)


@pytest.mark.spec("F16")
def test_what_a_program_reads_is_a_receipt_again() -> None:
    """The JSON of a receipt has the saving in it and reads back as the same receipt."""
    found = settle(FORK, [row(Usage(read=100_000, written_5m=9))], PRICE)
    fan = as_json(FanReceipt(base="b", size=1, receipts=(found,), least=0.1))

    data = msgspec.json.encode(as_json(found))

    assert msgspec.json.decode(data, type=Receipt) == found
    assert msgspec.json.decode(data)["saved"] == found.saved
    assert fan["receipts"] == [as_json(found)]
    assert (fan["paid"], fan["saved"], fan["least"]) == (found.cost, found.saved, 0.1)


@pytest.mark.spec("F17")
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([0, 128]))
@example(10_000, 9_900, 0)
@example(10_000, 9_899, 0)
@example(10_000, 9_772, 128)
@example(10_000, 9_771, 128)
def test_a_fork_that_read_what_was_predicted_missed_nothing(predicted, read, rounds) -> None:
    """One per cent and one step of rounding are no miss; less than that is, with both numbers."""
    why = reconcile(predicted, Usage(read=read), Circumstance(rounds_to=rounds))

    assert bool(why) == (read < 0.99 * predicted - rounds)
    if why:
        assert why.startswith(f"read {read:,} of {predicted:,} tokens")


ALL = Circumstance(
    diagnostics=b'{"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":9000}}',
    minimum=20_000,
    idle=301.0,
    in_flight=True,
    drops_thinking=True,
    first_picture=True,
    marks=3,
)
ORDER = [
    ("diagnostics", b"", "the provider says tools changed (9,000 tokens)"),
    ("minimum", 1_024, "shorter than the 20,000 tokens"),
    ("idle", 299.0, "lives 300 s and was last used 301 s before"),
    ("in_flight", False, "no sibling's reply had begun"),
    ("drops_thinking", False, "drops earlier thinking"),
    ("first_picture", False, "prompts with pictures are cached apart"),
    ("marks", 0, "reports no cache at all"),
    (None, None, "did not find the entry"),
]


@pytest.mark.spec("F17")
@pytest.mark.parametrize("step", range(len(ORDER)))
def test_the_strongest_evidence_names_the_cause(step) -> None:
    """Causes are told in a fixed order; each is told once those before it are ruled out."""
    ruled_out = {name: value for name, value, _ in ORDER[:step] if name}
    known = msgspec.structs.replace(ALL, **ruled_out)

    assert ORDER[step][2] in reconcile(10_000, Usage(uncached=10_000), known)


@pytest.mark.spec("F17")
def test_a_provider_that_wrote_has_a_cache() -> None:
    """That no counter moved is evidence only if none did."""
    why = reconcile(10_000, Usage(written_5m=10_000), Circumstance(marks=3))

    assert "did not find the entry" in why


def ask(tools: int = 0, model: str = MODEL, api: Any = "anthropic", **more) -> Request:
    field = "messages" if api == "anthropic" else "input"
    body = {"model": model, field: [{"role": "user", "content": "Hello"}], **more}
    body["tools"] = [{"name": f"t{n}", "input_schema": {}} for n in range(tools)]
    return parse(api, msgspec.json.encode(body), {})


@pytest.mark.spec("F17")
def test_diagnostics_of_both_vendors_are_understood() -> None:
    """What the providers' own diagnostics look like is put into words, or passed over."""

    def told(value: Any) -> tuple[str, str]:
        data = msgspec.json.encode(value)
        return diagnosis(data), reconcile(10, Usage(), Circumstance(diagnostics=data))

    text, why = told(anthropic_diagnosis(ask(), ask(tools=1)))
    assert text.startswith("tools changed (")
    assert f"the provider says {text}" in why
    text, why = told(
        openai_diagnosis(ask(api="responses"), ask(api="responses", model="x"), exact=True)
    )
    assert text.startswith("model changed (")
    assert text in why
    for silent, text in (
        (anthropic_diagnosis(ask(), ask()), ""),
        (anthropic_diagnosis(None, ask()), "previous message not found"),
        ({"cache_miss_reason": None}, ""),
        (openai_diagnosis(None, ask(api="responses"), exact=True), "comparison response not found"),
        ({"type": "cache_hit"}, "cache hit"),
        ({"cache_miss_reason": {"type": 7}}, ""),
    ):
        data = b"" if silent is None else msgspec.json.encode(silent)
        assert diagnosis(data) == text
        assert "provider says" not in reconcile(10, Usage(), Circumstance(diagnostics=data))
    for broken in (b"{", b"[]", b'"x"', b"\xff", b"[" * 9_999):
        assert diagnosis(broken) == ""


words = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)


@pytest.mark.spec("F16")
@given(
    st.lists(words, max_size=40).map(" ".join),
    st.integers(0, 10**9),
    st.sampled_from(["pending", "notice", "returned"]),
    st.none() | st.floats(0, 10**4),
)
def test_a_receipt_fits_a_terminal(text, count, delivered, cost) -> None:
    """No line is longer than 80 columns, and nothing that is known is left out."""
    receipt = Receipt(
        task_id=TaskId("f1"),
        agent=AgentPath("main/fork-1"),
        status="completed",
        base="a" * 40,
        bytes_shared=count,
        bytes_first=count,
        tokens_shared=count,
        predicted_read=count,
        read=count,
        requests=3,
        cost=cost,
        uncached=cost and cost * 3,
        reason=text,
        miss=text,
        delivered=delivered,
    )

    shown = describe(receipt)

    assert max(map(len, shown.splitlines())) <= 80
    assert set(text.split()) <= set(shown.split())
    assert f"{count:,}" in shown
    assert "\n" not in line(receipt)
    assert ("less than predicted" in line(receipt)) == bool(text)


START = Prompt(
    Head(dialect("anthropic"), HeadSpec(model=MODEL, system=("You are careful. " * 99,)))
)


def said(text: str) -> Reply:
    block = msgspec.json.encode({"type": "text", "text": text})
    return Reply((block,), "anthropic", text=text)


class Bank:
    """A perfect ledger beside ours: the server's own, for the very same bodies."""

    def __init__(self) -> None:
        self.requests: list[tuple[Prompt, Charge]] = []
        self._cache = Cache()
        self._ledger = Ledger(ServerRates())

    def send(self, prompt: Prompt) -> None:
        request = parse("anthropic", prompt.body(), {})
        plan = self._cache.look(request, Model(), 0.0)
        self._ledger.book(len(self.requests), "", MODEL, plan, 0)
        usage = Usage(uncached=plan.usage.input)
        self.requests.append((prompt, row(usage)))

    def least(self) -> float:
        return self._ledger.least_possible()


@pytest.mark.spec("K3")
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3_000)), min_size=1, max_size=12))
def test_the_least_possible_is_what_a_perfect_cache_would_bill(growth) -> None:
    """On any tree of prompts, each extending some earlier one, ours agrees with the server's."""
    bank = Bank()
    prompts = [START.append(user_text("Begin. " * 50))]
    bank.send(prompts[0])
    for parent, size in growth:
        before = prompts[parent % len(prompts)]
        longer = before.append(said("ok " * size), user_text("go " * size))
        prompts.append(longer)
        bank.send(longer)

    assert least_possible(bank.requests, Rates()) == pytest.approx(bank.least(), rel=0.03)


@pytest.mark.spec("K3")
def test_what_was_counted_goes_before_what_bytes_suggest() -> None:
    """A part of a prompt that was counted by itself has that many tokens, whatever its bytes."""
    short = START.append(user_text("Hello " * 2_000))
    longer = short.append(said("dense"), user_text("text"))
    requests = [(short, row(Usage(uncached=1_000))), (longer, row(Usage(uncached=5_000)))]

    assert least_each(requests, [Rates()] * 2) == pytest.approx([1_250, 100 + 4_000])


@pytest.mark.spec("K3")
def test_the_least_possible_is_shared_out_and_never_above_the_plain_price() -> None:
    """The first sender pays the writing; what is sent once is not written; dollars have output."""
    prompt = START.append(user_text("Hello " * 2_000))
    usage = Usage(uncached=3_000, output=100)
    thrice = [(prompt, row(usage))] * 3

    assert least_each(thrice, [Rates()] * 3) == pytest.approx([3_750, 300, 300])
    assert least_each(thrice[:1], [Rates()]) == pytest.approx([3_000])
    assert least_each(thrice, [Rates(read=1.0, write=1.25)] * 3) == pytest.approx([3_000] * 3)
    dollars = least_costs(thrice, Prices())
    assert dollars == pytest.approx([(3_750 * 4 + 2_000) / 1e6] + [(150 * 4 + 2_000) / 1e6] * 2)
    unknown = [(prompt, Charge(agent=MAIN, model="nobody-knows-it", usage=usage, cost=None))]
    assert least_costs(unknown, Prices()) == [None]


@pytest.mark.spec("F16")
def test_no_requests_cost_nothing() -> None:
    """A fork that never got a reply does not make the price of its siblings unknown."""
    paid = settle(FORK, [row(Usage(read=100_000, written_5m=200, output=50))], PRICE)
    unpaid = settle(FORK, [], PRICE)
    old = Receipt(task_id=TaskId("f3"), agent=AgentPath("main/fork-3"))
    fan = FanReceipt(base="b", size=3, receipts=(paid, unpaid, old))

    assert (unpaid.cost, unpaid.uncached, unpaid.unshared) == (0, 0, 0)
    assert fan.paid == paid.cost
    assert fan.saved == paid.saved
    assert fan.unshared == paid.unshared


@pytest.mark.spec("F16")
@pytest.mark.parametrize("kind", ["fork", "typed"])
def test_what_a_provider_does_not_count_is_not_told_as_zero(kind) -> None:
    """Where only reads are reported the rest was computed; where writes are, they are told."""
    opened = Receipt(
        task_id=TaskId("f1"),
        agent=AgentPath("main/fork-1"),
        kind=kind,
        predicted_read=2_145,
        predicted_computed=309,
        counts_writes=False,
    )
    silent = settle(opened, [row(Usage(read=2_145, uncached=310))], PRICE)
    telling = settle(opened, [row(Usage(read=2_145, uncached=10, written_5m=300))], PRICE)

    assert (silent.computed, silent.counts_writes) == (310, False)
    assert "computed 310" in describe(silent)
    assert ("(predicted 309)" in describe(silent)) == (kind == "fork")
    assert "wrote" not in describe(silent)
    assert (telling.computed, telling.counts_writes) == (310, True)
    assert "wrote 300" in describe(telling)


@pytest.mark.spec("F16")
@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_nobody_reads_more_than_there_is(shared, read, computed) -> None:
    """A line says what was read of the whole first request, whoever had left it in the cache."""
    first = Usage(read=read, uncached=computed)
    opened = Receipt(task_id=TaskId("f1"), agent=AgentPath("main/f1"), tokens_shared=shared)
    told = line(settle(opened, [row(first)], PRICE))

    if not first.silent:
        assert f"{read:,} of {read + computed:,} tokens cached" in told


@pytest.mark.spec("F16")
def test_what_costs_nothing_saves_tokens() -> None:
    """At a price of zero a saving is told in tokens, of one fork and of all, and never divided."""
    free = Prices().of("local")
    rows = [row(Usage(read=900, uncached=100, output=5), cost=0.0, uncached=0.0)]
    found = settle(FORK, rows, free)
    fan = FanReceipt(base="b", size=2, receipts=(found, settle(FORK, rows * 3, free)))

    assert (found.cost, found.unshared, found.saved, found.saved_share) == (0, 0, 0, None)
    assert line(found).endswith(": 900 of 1,000 tokens cached, $0, saved 900 of 1,000 tokens (90%)")
    assert "cost     $0 for 1 requests, saved 900 of 1,000 tokens (90.0%)" in describe(found)
    assert "without" not in describe(found)
    assert saving(fan) == "saved 3,600 of 4,000 tokens (90.0%)"
    assert (as_json(found)["saved_tokens"], as_json(fan)["saved_tokens"]) == (900, 3_600)
    assert saving(settle(FORK, [], free)) == ""


@pytest.mark.spec("F16")
def test_a_broken_request_counts_with_what_it_cost() -> None:
    """Without a whole reply the receipt compares nothing, but says what was paid."""
    broken = row(Usage(read=100_000), broken=True)
    found = settle(FORK, [broken], PRICE)

    assert (found.requests, found.cost, found.read) == (1, broken.cost, 0)
