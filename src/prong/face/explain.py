"""`prong explain`: where two requests part, and what that costs."""

from __future__ import annotations

import argparse

from prong.face.inspect import print_json, say
from prong.face.output import show
from prong.session import Explanation, explain, money


def run_explain(args: argparse.Namespace) -> int:
    """Name the first difference of two requests."""
    told = explain(args.requests, say)
    if args.json:
        print_json(told)
    else:
        _print(told)
    return 0


def _print(told: Explanation) -> None:
    show(f"A {told.left}")
    show(f"B {told.right}")
    unit = "tokens" if told.counted else "tokens (by bytes)"
    found = told.difference
    if found is None:
        show(f"the same prompt, {told.shared_tokens:,} {unit}")
        return
    if told.relation == "extends":
        show(f"B goes on where A ends: all of A can be read, {told.shared_tokens:,} {unit}")
        show(f"  first addition: {found.path}: {found.right}")
        return
    if told.relation == "extended":
        show(f"B is the beginning of A: all of it can be read, {told.shared_tokens:,} {unit}")
        return
    where = f", byte {found.byte}" if found.byte >= 0 else ""
    show(f"first difference in {found.section}: {found.path}{where}")
    show(f"  A {found.left or '(nothing)'}")
    show(f"  B {found.right or '(nothing)'}")
    items = f"{found.shared_items} items, {found.shared_bytes:,} bytes"
    show(f"shared before it: {items}, about {told.shared_tokens:,} {unit}")
    model = told.model or "the model"
    if told.cost == 0 and told.rewritten_tokens:
        show(f"computed instead of read: {told.rewritten_tokens:,} {unit}, for $0 at {model}")
        return
    price = (
        f"at {model}'s price {money(told.cost)} more" if told.cost is not None else "price unknown"
    )
    show(f"written instead of read: {told.rewritten_tokens:,} {unit}, {price}")
