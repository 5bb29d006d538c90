"""Commands that say what sessions and forks cost, without talking to a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from prong.cost import Prices, Row, read_prices, total
from prong.cost.breakeven import BreakEven
from prong.cost.least import least_costs
from prong.cost.receipt import (
    FanReceipt,
    Receipt,
    as_json,
    describe,
    line,
    money,
    saving,
)
from prong.entry import Usage
from prong.errors import NoSuchSession, UsageError
from prong.face.inspect import print_json, replayed, session_argument
from prong.face.line import counted, describe_usage, printable
from prong.journal import store
from prong.journal.note import FanPlanned, ReceiptClosed
from prong.journal.read import Replay


def run_account(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    from prong.face.compare import explain
    from prong.face.forecast import plan_fork

    commands: dict[str, Callable[[argparse.ArgumentParser, list[str]], int]] = {
        "cost": _cost,
        "receipt": _receipt,
        "explain": explain,
        "plan-fork": plan_fork,
    }
    parser = argparse.ArgumentParser(prog=f"prong {name}", allow_abbrev=False)
    return commands[name](parser, words)


def own_prices() -> Prices:
    """Give the price table, the user's own figures first."""
    path = store.home() / "prices.json"
    try:
        return Prices(read_prices(str(path), path.read_bytes()))
    except FileNotFoundError:
        return Prices()


class CostLine(msgspec.Struct, frozen=True):
    """What an agent, the siblings of a fan-out or the whole session cost, in dollars."""

    agent: str
    requests: int
    usage: Usage
    cost: float | None
    uncached: float | None
    """The same requests without any cache."""
    unshared: float | None
    """The same requests if every fork had had to write the shared prefix itself."""
    least: float | None
    """The same requests with every distinct block written once and read in all others."""
    kind: Literal["agent", "fan", "session"] = "agent"
    estimated: float | None = None
    """What the children of a fan-out were estimated to cost before they started."""


def receipts(replay: Replay) -> dict[str, Receipt]:
    """Give the receipts of a session by their agents."""
    return {agent: note.value for agent, note in replay.each(ReceiptClosed)}


def fans(known: Iterable[Receipt]) -> list[tuple[Receipt, ...]]:
    """Group the forks of one dispatch, or what is known of no dispatch by its base."""
    groups: dict[tuple[str, str], list[Receipt]] = {}
    for receipt in known:
        if receipt.kind == "fork":
            group = receipt.fan or receipt.base
            groups.setdefault((_parent(receipt), group), []).append(receipt)
    return [tuple(group) for group in groups.values()]


def _parent(receipt: Receipt) -> str:
    return receipt.agent.rpartition("/")[0]


class _Books:
    """The rows of a session with what each could have cost at least."""

    def __init__(self, replay: Replay, prices: Prices, live: Iterable[Receipt] = ()) -> None:
        self.rows = [paid.row for paid in replay.requests if not paid.inherited]
        self.receipts = {receipt.agent: receipt for receipt in live} | receipts(replay)
        self._replay = replay
        known = [
            (index, prompt)
            for index, row in enumerate(self.rows)
            if (prompt := replay.known.get(row.digest)) is not None
        ]
        # A request whose prompt was not stored counts as it was paid.
        self._least: list[float | None] = [row.cost for row in self.rows]
        pairs = [(prompt, self.rows[index]) for index, prompt in known]
        for (index, _), least in zip(known, least_costs(pairs, prices), strict=True):
            self._least[index] = least

    def line(self, name: str, agents: Sequence[str], kind: Literal["agent", "fan"]) -> CostLine:
        chosen = [index for index, row in enumerate(self.rows) if row.agent in agents]
        return self._line(name, chosen, kind)

    def session(self) -> CostLine:
        return self._line("session", range(len(self.rows)), "session")

    def fan(self, group: tuple[Receipt, ...]) -> FanReceipt:
        estimate = self._estimate(group[0])
        return FanReceipt(
            base=group[0].base,
            size=len(group),
            plan=estimate.plan if estimate else None,
            estimate=estimate,
            receipts=group,
            least=self.line("", [receipt.agent for receipt in group], "fan").least,
        )

    def _estimate(self, receipt: Receipt) -> BreakEven | None:
        if not receipt.fan:
            return None
        note = self._replay.last(_parent(receipt), FanPlanned, receipt.fan)
        return note.value.estimate if note is not None else None

    def _line(
        self, name: str, chosen: Sequence[int], kind: Literal["agent", "fan", "session"]
    ) -> CostLine:
        rows = [self.rows[index] for index in chosen]
        least = [self._least[index] for index in chosen]
        summed = total(rows)
        floor = None if None in least else sum(amount for amount in least if amount is not None)
        if floor is not None and summed.cost is not None:
            # An earlier session may have paid for the writing of what these requests only read.
            floor = min(floor, summed.cost)
        return CostLine(
            name,
            summed.requests,
            summed.usage,
            summed.cost,
            summed.uncached,
            _unshared(rows, summed.cost, self.receipts),
            floor,
            kind,
        )


def _unshared(
    rows: Sequence[Row], cost: float | None, known: Mapping[str, Receipt]
) -> float | None:
    for receipt in (known[agent] for agent in {row.agent for row in rows} if agent in known):
        if cost is None or receipt.unshared is None or receipt.cost is None:
            return None
        cost += receipt.unshared - receipt.cost
    return cost


def account(replay: Replay, prices: Prices, live: Iterable[Receipt] = ()) -> list[CostLine]:
    """Say what a session cost: by agent, by fan-out, and in all.

    `live` are the receipts of children that still run and so have stored none.
    """
    books = _Books(replay, prices, live)
    agents = dict.fromkeys(row.agent for row in books.rows)
    lines = [books.line(agent, [agent], "agent") for agent in agents]
    for group in fans(books.receipts.values()):
        name = f"{len(group)} {'fork' if len(group) == 1 else 'forks'} of {_parent(group[0])}"
        told = books.line(name, [receipt.agent for receipt in group], "fan")
        lines.append(msgspec.structs.replace(told, estimated=books.fan(group).estimated))
    return [*lines, books.session()]


def describe_cost(lines: Iterable[CostLine]) -> Iterator[str]:
    """Say in lines of text what a session cost."""
    for told in lines:
        yield f"{printable(told.agent)}: {money(told.cost)}"
        if told.cost is not None and told.uncached != 0:
            without = f"without cache {money(told.uncached)}"
            yield (
                f"  {without}, without sharing {money(told.unshared)}, "
                f"least possible {money(told.least)}"
            )
        if told.estimated:
            yield f"  {_compared(told.estimated, told.cost)}"
        yield f"  {counted(told.requests, 'request')}: {describe_usage(told.usage)}"


def _compared(estimated: float, paid: float | None) -> str:
    more = f" ({paid / estimated - 1:+.0%})" if paid is not None and estimated else ""
    return f"estimated {money(estimated)}, measured {money(paid)}{more}"


def _cost(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Say what a session cost: by agent, by fan-out, and in all."
    session_argument(parser)
    args = parser.parse_args(words)
    lines = account(replayed(args.session), own_prices())
    if args.json:
        print_json(lines)
        return 0
    for text in describe_cost(lines):
        print(text)
    return 0


def _receipt(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Show what the forks of a session shared, paid and saved."
    session_argument(parser)
    parser.add_argument("task", nargs="?", help="a task's id or an agent's path; default: all")
    args = parser.parse_args(words)
    replay, task = _session_and_task(args.session, args.task)
    books = _Books(replay, own_prices())
    if task is not None:
        return _one_receipt(books, task, as_data=args.json)
    told = [books.fan(group) for group in fans(books.receipts.values())]
    others = [receipt for receipt in books.receipts.values() if receipt.kind != "fork"]
    if args.json:
        print_json({"fans": [as_json(fan) for fan in told], "agents": [*map(as_json, others)]})
        return 0
    for fan in told:
        _print_fan(fan)
    for receipt in others:
        print(printable(line(receipt)))
    if not books.receipts:
        print("this session has no forks")
    return 0


def _session_and_task(session: str | None, task: str | None) -> tuple[Replay, str | None]:
    """Read the session; a single word that is no session is a task of the last one."""
    try:
        return replayed(session), task
    except NoSuchSession:
        if session is None or task is not None:
            raise
        replay = replayed(None)
        if not any(_is(receipt, session) for receipt in receipts(replay).values()):
            raise
        return replay, session


def _is(receipt: Receipt, task: str) -> bool:
    return task in {receipt.task_id, receipt.agent, receipt.agent.rpartition("/")[2]}


def _one_receipt(books: _Books, task: str, *, as_data: bool) -> int:
    found = [receipt for receipt in books.receipts.values() if _is(receipt, task)]
    if not found:
        known = ", ".join(receipt.task_id for receipt in books.receipts.values()) or "none"
        raise UsageError(f"there is no receipt of {task!r}; this session has {known}")
    for receipt in found:
        if as_data:
            print_json(as_json(receipt))
        else:
            print(printable(describe(receipt)))
    return 0


def _print_fan(fan: FanReceipt) -> None:
    saved = f", {text}" if (text := saving(fan)) else ""
    print(f"{fan.size} on base {fan.base[:12]}: {money(fan.paid)}{saved}")
    if fan.uncached != 0:
        print(
            f"  without cache {money(fan.uncached)}, without sharing {money(fan.unshared)}, "
            f"least possible {money(fan.least)}"
        )
    if fan.estimate is not None:
        _print_estimate(fan, fan.estimate)
    for receipt in fan.receipts:
        print(f"  {printable(line(receipt))}")
        if receipt.miss:
            print(f"    {printable(receipt.miss)}")


def _print_estimate(fan: FanReceipt, told: BreakEven) -> None:
    if fan.estimated:
        print(f"  {_compared(fan.estimated, fan.paid)}")
    expected = told.scenario.children * told.scenario.turns
    made = sum(receipt.requests for receipt in fan.receipts)
    print(f"  expected {expected} requests, made {made}")
    if told.fork.cost == 0:
        ways = ", ".join(f"{o.way} {o.equivalents:,.0f}" for o in told.options)
        print(f"  estimated with the parent's part, in input-token equivalents: {ways}")
        return
    ways = ", ".join(f"{o.way} {money(o.cost)}" for o in told.options if o.cost is not None)
    if ways:
        print(f"  estimated with the parent's part: {ways}")
