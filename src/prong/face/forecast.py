"""`prong plan-fork`: what a fork, fresh agents and working alone would cost."""

from __future__ import annotations

import argparse
import textwrap
import time
from typing import Any

import msgspec

from prong.cost import Price
from prong.cost.breakeven import BreakEven, Scenario, estimate
from prong.cost.fan import LIFETIME
from prong.cost.receipt import money
from prong.errors import UsageError
from prong.face.inspect import print_json, replayed
from prong.face.line import printable
from prong.journal.read import Replay
from prong.provider.pick import is_local

_NUMBERS = {
    "children": "how many",
    "turns": "requests of each child",
    "growth": "tokens a turn adds to a prompt",
    "directive": "tokens of what a fork is told",
    "dispatch": "tokens of the parent's dispatching reply; 0: forks by hand",
    "report": "tokens of a child's report",
    "wakes": "in how many requests the parent takes the reports",
    "brief": "tokens that a fresh agent must be told",
    "setup": "tokens of a fresh agent's system text and tools",
    "explore": "turns that a fresh agent needs to learn what the parent knows",
}
_AT_LEAST_ONE = {"children", "turns"}


def plan_fork(parser: argparse.ArgumentParser, words: list[str]) -> int:
    """Print the three ways side by side."""
    parser.description = "Compare a fork, fresh agents with a brief, and working alone."
    _add_arguments(parser)
    args = parser.parse_args(words)
    from prong.face.account import own_prices

    given: dict[str, Any] = {"children": 3}
    model = args.model or ""
    if args.session is not None:
        found, facts = _from_session(replayed(args.session or None))
        model, given = model or found, given | facts
    given |= {name: value for name in _NUMBERS if (value := getattr(args, name)) is not None}
    given |= {"history": args.history} if args.history is not None else {}
    given |= {"ttl": args.ttl} if args.ttl else {}
    given |= {"idle": LIFETIME[args.ttl or given.get("ttl", "5m")]} if args.cold else {}
    if "history" not in given:
        raise UsageError("say how long the history is: --history TOKENS, or --session ID")
    _check(given)
    model = model if is_local(model) else model.rpartition(":")[2]
    price = own_prices().of(model) if model else None
    told = estimate(Scenario(**given), price=price)
    if args.json:
        best = {"model": model, "best": told.best}
        print_json(best | msgspec.to_builtins(told))
    else:
        _print(told, model, price)
    return 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", help="whose prices count")
    parser.add_argument("--history", type=int, metavar="N", help="tokens of the parent's prompt")
    parser.add_argument(
        "--session", nargs="?", const="", metavar="ID", help="take model and history from there"
    )
    for name, what in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    parser.add_argument("--ttl", choices=tuple(LIFETIME), help="how long cache entries live")
    parser.add_argument("--cold", action="store_true", help="the history is cached no more")
    parser.add_argument("--json", action="store_true", help="for programs")


def _check(given: dict[str, Any]) -> None:
    for name in ("history", *_NUMBERS):
        low = int(name in _AT_LEAST_ONE)
        if given.get(name, low) < low:
            raise UsageError(f"--{name} must be at least {low}")
    if given.get("wakes", 1) > given["children"]:
        raise UsageError("--wakes cannot be more than --children")


def _from_session(replay: Replay) -> tuple[str, dict[str, Any]]:
    """Take model, length of the history, its head and its age from the first agent's requests."""
    paid = [p for p in replay.requests if not p.row.sidecar and "/" not in p.row.agent]
    if not paid:
        raise UsageError("this session has no request yet; give --history instead")
    last = paid[-1]
    usage = last.row.usage
    # The embedded engine keeps what it has computed for no set time, also on disk.
    idle = 0.0 if is_local(last.row.model) else max(0.0, time.time() - last.at)
    facts: dict[str, Any] = {"history": usage.input, "idle": idle}
    facts["ttl"] = _ttl(last.row.model, sum(p.row.usage.written_1h for p in paid))
    prompt = replay.known.get(last.row.digest)
    if prompt is not None and len(prompt):
        facts["setup"] = round(usage.input * len(prompt.head.data) / len(prompt))
    return last.row.model, facts


def _ttl(model: str, written_1h: int) -> str:
    if written_1h:
        return "1h"
    return "30m" if "gpt" in model else "5m"


def _print(told: BreakEven, model: str, price: Price | None) -> None:
    s = told.scenario
    source = price.source if price else "price unknown, usual rates"
    print(f"{printable(model) or 'any model'}: {source}")
    print(
        f"read {told.rates.read:g}, write {told.rates.write:g}, "
        f"output {told.output_rate:g} times an input token"
    )
    state = "no longer cached" if s.cold else "cached"
    print(f"history {s.history:,} tokens, {state}; {s.children} x {s.turns} turns of {s.growth:,}")
    print(f"{'':8}{'requests':>9}{'first':>12}{'input':>12}{'output':>10}{'all':>12}{'cost':>15}")
    for option in told.options:
        print(
            f"{option.way:8}{option.requests:>9}{option.first:>12,.0f}{option.input:>12,.0f}"
            f"{option.output:>10,}{option.equivalents:>12,.0f}{money(option.cost):>15}"
        )
    print("first, input and all are in input-token equivalents; the cheapest stands first")
    print(f"fork: first child {told.first_child:,.0f}, each other {told.each_other:,.0f}")
    for reason in told.plan.reason.split("; "):
        print(textwrap.fill(reason, 80, initial_indent="  ", subsequent_indent="    "))
    if told.until_turns is None:
        print("forks cost less than fresh agents however long they work")
    else:
        print(f"forks cost less than fresh agents up to {told.until_turns} turns each")
