"""`prong explain`: where two requests part, and what that costs."""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from prong.cost.receipt import money
from prong.errors import UsageError
from prong.face.inspect import print_json, replayed
from prong.face.line import printable
from prong.journal.read import Replay
from prong.prompt import Difference, first_difference, prompt_bytes

_BYTES_PER_TOKEN = 4
_WRAPPERS = ("body", "request", "json", "data", "params")
_HELP = "a file with a request body, SESSION:N or SESSION:AGENT:N for the N-th request there"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two requests."""

    name: str
    body: bytes
    model: str
    tokens: int
    """As the provider counted them, or a quarter of the bytes."""
    counted: bool = False
    betas: tuple[str, ...] | None = None
    """None where the headers are not known."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where two requests part."""

    left: str
    right: str
    relation: str
    """`same`, `extends` (the second goes on where the first ends), `extended` or `differs`."""
    difference: Difference | None
    shared_tokens: int
    rewritten_tokens: int
    """Tokens of the second after the difference, to be written instead of read."""
    counted: bool
    """Whether the provider counted the tokens; if not they are a quarter of the bytes."""
    model: str
    cost: float | None
    """Dollars which writing those costs more than reading; None if the price is unknown."""


def explain(parser: argparse.ArgumentParser, words: list[str]) -> int:
    """Name the first difference of two requests."""
    parser.description = "Say where two requests part. Without arguments: the last two."
    parser.add_argument("requests", nargs="*", metavar="A B", help=_HELP)
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args(words)
    told = compare(*_sides(args.requests))
    if args.json:
        print_json(told)
    else:
        _print(told)
    return 0


def compare(left: Side, right: Side) -> Explanation:
    """Compare two requests in the order in which a cache reads them."""
    from prong.face.account import own_prices

    try:
        found = _betas(left, right) or first_difference(left.body, right.body)
        whole = prompt_bytes(right.body)
    except (msgspec.MsgspecError, RecursionError) as error:
        why = f"{left.name} and {right.name} cannot be compared: a request body is expected"
        raise UsageError(f"{why} ({error})") from error
    relation = _relation(found)
    shared = right.tokens
    if found is not None and relation != "extended":
        shared = min(shared, round(right.tokens * found.shared_bytes / max(1, whole)))
    rewritten = right.tokens - shared if relation == "differs" else 0
    price = own_prices().of(right.model) if right.model else None
    return Explanation(
        left=left.name,
        right=right.name,
        relation=relation,
        difference=found,
        shared_tokens=shared,
        rewritten_tokens=rewritten,
        counted=right.counted,
        model=right.model,
        cost=rewritten * (price.write_5m - price.read) / 1_000_000 if price else None,
    )


def _betas(left: Side, right: Side) -> Difference | None:
    """Compare the beta headers: they are no part of the body, yet of what a cache is keyed by."""
    if left.betas is None or right.betas is None or left.betas == right.betas:
        return None
    texts = ", ".join(left.betas), ", ".join(right.betas)
    return Difference("parameters", "anthropic-beta (header)", -1, *texts, 0, 0)


def _relation(found: Difference | None) -> str:
    if found is None:
        return "same"
    if found.section == "messages" and found.byte < 0 and not (found.left and found.right):
        return "extended" if found.left else "extends"
    return "differs"


def _sides(words: list[str]) -> tuple[Side, Side]:
    match words:
        case [left, right]:
            return _side(left), _side(right)
        case [only] if ":" in only and not Path(only).exists():
            name, _, number = only.rpartition(":")
            before = _number(only, number) - 1
            if before < 1:
                raise UsageError(f"{only} has no request before it; name two requests")
            return _side(f"{name}:{before}"), _side(only)
        case [only] if Path(only).suffix != ".jsonl" and Path(only).exists():
            raise UsageError(f"{only} must be compared with something; name two requests")
        case [] | [_]:
            return _last_two(words[0] if words else None)
        case _:
            raise UsageError("two requests are compared; give two")


def _last_two(session: str | None) -> tuple[Side, Side]:
    replay = _replay(session)
    stored = [n for n, paid in enumerate(replay.requests) if paid.row.digest in replay.known]
    if len(stored) < 2:
        raise UsageError("this session has fewer than two requests; name two requests")
    name = session or replay.opened.session
    left, right = (_stored(replay, index, f"{name}:{index + 1}") for index in stored[-2:])
    return left, right


@lru_cache(maxsize=2)
def _replay(session: str | None) -> Replay:
    return replayed(session)


def _number(word: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{word!r} is neither a file nor of the form SESSION:N, with N from 1 on")
    return int(text)


def _side(word: str) -> Side:
    path = Path(word)
    if path.is_file() and path.suffix != ".jsonl":
        return _captured(path)
    name, _, text = word.rpartition(":")
    number = _number(word, text)
    session, _, agent = name.partition(":")
    replay = _replay(session or None)
    chosen = [n for n, paid in enumerate(replay.requests) if agent in {"", paid.row.agent}]
    if number > len(chosen):
        agents = ", ".join(dict.fromkeys(paid.row.agent for paid in replay.requests)) or "none"
        raise UsageError(f"{word}: there are {len(chosen)} such requests; agents are {agents}")
    return _stored(replay, chosen[number - 1], word)


def _stored(replay: Replay, index: int, name: str) -> Side:
    row = replay.requests[index].row
    prompt = replay.known.get(row.digest)
    if prompt is None:
        raise UsageError(f"{name} was a request beside the conversation and is not stored")
    return Side(
        name=f"{name} ({row.agent})",
        body=prompt.body(),
        model=row.model,
        tokens=row.usage.input,
        counted=True,
        betas=prompt.head.spec.betas,
    )


def _captured(path: Path) -> Side:
    body = _body(path)
    fields = msgspec.json.decode(body, type=dict[str, Any])
    model = fields.get("model")
    return Side(
        name=str(path),
        body=body,
        model=model if isinstance(model, str) else "",
        tokens=len(body) // _BYTES_PER_TOKEN,
    )


def _body(path: Path) -> bytes:
    """Read a body however it was captured: pretty-printed, below headers, or inside a record."""
    try:
        data = path.read_bytes()
        data = msgspec.json.format(data[max(0, data.find(b"{")) :].rstrip(), indent=-1)
        for _ in range(3):
            fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            inner = next((fields[name] for name in _WRAPPERS if name in fields), None)
            if inner is None or "messages" in fields or "input" in fields:
                break
            data = bytes(inner)
            if data.startswith(b'"'):
                data = msgspec.json.format(msgspec.json.decode(data, type=str).encode(), indent=-1)
        msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path} holds no request body: a JSON object is expected") from error
    return data


def _print(told: Explanation) -> None:
    print(f"A {printable(told.left)}")
    print(f"B {printable(told.right)}")
    unit = "tokens" if told.counted else "tokens (by bytes)"
    found = told.difference
    if found is None:
        print(f"the same prompt, {told.shared_tokens:,} {unit}")
        return
    if told.relation == "extends":
        print(f"B goes on where A ends: all of A can be read, {told.shared_tokens:,} {unit}")
        print(f"  first addition: {found.path}: {printable(found.right)}")
        return
    if told.relation == "extended":
        print(f"B is the beginning of A: all of it can be read, {told.shared_tokens:,} {unit}")
        return
    where = f", byte {found.byte}" if found.byte >= 0 else ""
    print(f"first difference in {found.section}: {found.path}{where}")
    print(f"  A {printable(found.left) or '(nothing)'}")
    print(f"  B {printable(found.right) or '(nothing)'}")
    items = f"{found.shared_items} items, {found.shared_bytes:,} bytes"
    print(f"shared before it: {items}, about {told.shared_tokens:,} {unit}")
    model = printable(told.model) or "the model"
    if told.cost == 0 and told.rewritten_tokens:
        print(f"computed instead of read: {told.rewritten_tokens:,} {unit}, for $0 at {model}")
        return
    price = (
        f"at {model}'s price {money(told.cost)} more" if told.cost is not None else "price unknown"
    )
    print(f"written instead of read: {told.rewritten_tokens:,} {unit}, {price}")
