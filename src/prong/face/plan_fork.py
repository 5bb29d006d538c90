"""`prong plan-fork`: what a fork, fresh agents and working alone would cost."""

from __future__ import annotations

import argparse
import math
import textwrap

import msgspec

from prong.errors import BadInput
from prong.face.command_grammar import FORECAST_NUMBERS
from prong.face.inspect import print_json, say
from prong.face.output import show
from prong.session import BreakEven, Price, Rates, forecast, money

_AT_LEAST_ONE = {"children", "turns"}


def plan_fork(args: argparse.Namespace) -> int:
    """Print the three ways side by side."""
    given = {name: value for name in FORECAST_NUMBERS if (value := getattr(args, name)) is not None}
    given |= {"history": args.history} if args.history is not None else {}
    given.setdefault("children", 3)
    if args.session is None and args.history is None:
        raise BadInput("say how long the history is: --history TOKENS, or --session ID")
    _check(given)
    rates, output_rate = _rates(args.rates) if args.rates else (None, None)
    found = forecast(
        given,
        say,
        model=args.model or "",
        session=args.session,
        ttl=args.ttl or "",
        cold=args.cold,
        rates=rates,
        output_rate=output_rate,
    )
    if args.json:
        best = {"model": found.model, "best": found.told.best}
        print_json(best | msgspec.to_builtins(found.told))
    else:
        _print(found.told, found.model, found.price, own=bool(args.rates))
    return 0


def _rates(text: str) -> tuple[Rates, float | None]:
    """Read rates of the user's own: of reading, of writing and, if given, of output.

    Raises UsageError if they are not two or three amounts.
    """
    try:
        read, write, *output = map(float, text.split(","))
    except ValueError:
        read, write, output = -1.0, -1.0, list[float]()
    amounts = (read, write, *output)
    if len(amounts) > 3 or not all(math.isfinite(one) and one >= 0 for one in amounts):
        raise BadInput(
            f"--rates is {text!r}; give what reading, writing and, if you like, output cost in "
            "input tokens, such as 0.1,1.25,5"
        )
    return Rates(read=read, write=write), output[0] if output else None


def _check(given: dict[str, int]) -> None:
    for name in ("history", *FORECAST_NUMBERS):
        low = int(name in _AT_LEAST_ONE)
        if given.get(name, low) < low:
            raise BadInput(f"--{name} must be at least {low}")
    if given.get("wakes", 1) > given["children"]:
        raise BadInput("--wakes cannot be more than --children")


def _print(told: BreakEven, model: str, price: Price | None, *, own: bool) -> None:
    s = told.scenario
    source = price.source if price else "price unknown" if own else "price unknown, usual rates"
    source += ", rates of your own" if own else ""
    show(f"{model or 'any model'}: {source}")
    show(
        f"read {told.rates.read:g}, write {told.rates.write:g}, "
        f"output {told.output_rate:g} times an input token"
    )
    state = "no longer cached" if s.cold else "cached"
    show(f"history {s.history:,} tokens, {state}; {s.children} x {s.turns} turns of {s.growth:,}")
    show(f"{'':8}{'requests':>9}{'first':>12}{'input':>12}{'output':>10}{'all':>12}{'cost':>15}")
    for option in told.options:
        show(
            f"{option.way:8}{option.requests:>9}{option.first:>12,.0f}{option.input:>12,.0f}"
            f"{option.output:>10,}{option.equivalents:>12,.0f}{money(option.cost):>15}"
        )
    show("first, input and all are in input-token equivalents; the cheapest stands first")
    show(f"fork: first child {told.first_child:,.0f}, each other {told.each_other:,.0f}")
    for reason in told.plan.reason.split("; "):
        show(textwrap.fill(reason, 80, initial_indent="  ", subsequent_indent="    "))
    if told.until_turns is None:
        show("forks cost less than fresh agents however long they work")
    else:
        show(f"forks cost less than fresh agents up to {told.until_turns} turns each")
