"""Commands that say what sessions and forks cost, without talking to a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator

from prong.errors import NoSuchSession, UnknownName
from prong.face.command_grammar import parser_of
from prong.face.inspect import print_json, say
from prong.face.line import counted, describe_usage
from prong.face.output import show
from prong.session import (
    Books,
    BreakEven,
    CostLine,
    FanReceipt,
    as_json,
    books_of,
    describe,
    line,
    money,
    saving,
)


def run_account(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    from prong.face.explain import run_explain
    from prong.face.plan_fork import plan_fork

    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "cost": _cost,
        "receipt": _receipt,
        "explain": run_explain,
        "plan-fork": plan_fork,
    }
    return commands[name](parser_of(name).parse_args(words))


def describe_cost(lines: Iterable[CostLine]) -> Iterator[str]:
    """Say in lines of text what a session cost."""
    for told in lines:
        yield f"{told.agent}: {money(told.cost)}"
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


def _cost(args: argparse.Namespace) -> int:
    lines = books_of(args.session, say).lines()
    if args.json:
        print_json(lines)
        return 0
    for text in describe_cost(lines):
        show(text)
    return 0


def _receipt(args: argparse.Namespace) -> int:
    books, task = _books_and_task(args.session, args.task)
    if task is not None:
        return _one_receipt(books, task, as_data=args.json)
    told = books.fans()
    others = [receipt for receipt in books.receipts if receipt.kind != "fork" or receipt.session]
    if args.json:
        print_json({"fans": [as_json(fan) for fan in told], "agents": [*map(as_json, others)]})
        return 0
    for fan in told:
        _print_fan(fan)
    for receipt in others:
        show(line(receipt))
    if not books.receipts:
        show("this session has no forks")
    return 0


def _books_and_task(session: str | None, task: str | None) -> tuple[Books, str | None]:
    """Open a session's books; a single word that is no session is a task of the last one."""
    try:
        return books_of(session, say), task
    except NoSuchSession:
        if session is None or task is not None:
            raise
        books = books_of(None, say)
        if not books.of_task(session):
            raise
        return books, session


def _one_receipt(books: Books, task: str, *, as_data: bool) -> int:
    found = books.of_task(task)
    if not found:
        known = ", ".join(receipt.task_id for receipt in books.receipts) or "none"
        raise UnknownName(f"there is no receipt of {task!r}; this session has {known}")
    for receipt in found:
        if as_data:
            print_json(as_json(receipt))
        else:
            show(describe(receipt))
    return 0


def _print_fan(fan: FanReceipt) -> None:
    saved = f", {text}" if (text := saving(fan)) else ""
    show(f"{fan.size} on base {fan.base[:12]}: {money(fan.paid)}{saved}")
    if fan.uncached != 0:
        show(
            f"  without cache {money(fan.uncached)}, without sharing {money(fan.unshared)}, "
            f"least possible {money(fan.least)}"
        )
    if fan.estimate is not None:
        _print_estimate(fan, fan.estimate)
    for receipt in fan.receipts:
        show(f"  {line(receipt)}")
        if receipt.miss:
            show(f"    {receipt.miss}")


def _print_estimate(fan: FanReceipt, told: BreakEven) -> None:
    if fan.estimated:
        show(f"  {_compared(fan.estimated, fan.paid)}")
    expected = told.scenario.children * told.scenario.turns
    made = sum(receipt.requests for receipt in fan.receipts)
    show(f"  expected {expected} requests, made {made}")
    if told.fork.cost == 0:
        ways = ", ".join(f"{o.way} {o.equivalents:,.0f}" for o in told.options)
        show(f"  estimated with the parent's part, in input-token equivalents: {ways}")
        return
    ways = ", ".join(f"{o.way} {money(o.cost)}" for o in told.options if o.cost is not None)
    if ways:
        show(f"  estimated with the parent's part: {ways}")
