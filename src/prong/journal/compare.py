"""Where two requests part, and what that costs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from prong.cost import Prices
from prong.errors import BadInput, NotPossibleNow, UnknownName
from prong.foreign_json import NOT_JSON
from prong.journal.replay import Replay
from prong.prompt import Difference, first_difference, prompt_bytes

_BYTES_PER_TOKEN = 4
_WRAPPERS = ("body", "request", "json", "data", "params")

Relation: TypeAlias = Literal["same", "extends", "extended", "differs"]
"""How the second is to the first; `extends` goes on where the first ends."""


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
    relation: Relation
    difference: Difference | None
    shared_tokens: int
    rewritten_tokens: int
    """Tokens of the second after the difference, to be written instead of read."""
    counted: bool
    """Whether the provider counted the tokens; if not they are a quarter of the bytes."""
    model: str
    cost: float | None
    """Dollars which writing those costs more than reading; None if the price is unknown."""


def compare(left: Side, right: Side, prices: Prices) -> Explanation:
    """Compare two requests in the order in which a cache reads them.

    Raises UsageError if one of them is no request.
    """
    try:
        found = _betas(left, right) or first_difference(left.body, right.body)
        whole = prompt_bytes(right.body)
    except NOT_JSON as error:
        why = f"{left.name} and {right.name} cannot be compared: a request body is expected"
        raise BadInput(f"{why} ({error})") from error
    relation = _relation(found)
    shared = right.tokens
    if found is not None and relation != "extended":
        shared = min(shared, round(right.tokens * found.shared_bytes / max(1, whole)))
    rewritten = right.tokens - shared if relation == "differs" else 0
    price = prices.of(right.model) if right.model else None
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


def _relation(found: Difference | None) -> Relation:
    if found is None:
        return "same"
    if found.section == "messages" and found.byte < 0 and not (found.left and found.right):
        return "extended" if found.left else "extends"
    return "differs"


def last_two(replay: Replay, name: str) -> tuple[Side, Side]:
    """Take the last two requests whose prompts are stored; raises UsageError if there are none."""
    stored = [n for n, paid in enumerate(replay.requests) if paid.row.digest in replay.known]
    if len(stored) < 2:
        raise NotPossibleNow("this session has fewer than two requests; name two requests")
    left, right = (_stored(replay, index, f"{name}:{index + 1}") for index in stored[-2:])
    return left, right


def numbered(replay: Replay, agent: str, number: int, name: str) -> Side:
    """Take a request by its number, from 1 on, among an agent's or, if empty, among all.

    Raises UsageError if there is no such request.
    """
    chosen = [n for n, paid in enumerate(replay.requests) if agent in {"", paid.row.agent}]
    if number > len(chosen):
        agents = ", ".join(dict.fromkeys(paid.row.agent for paid in replay.requests)) or "none"
        raise UnknownName(f"{name}: there are {len(chosen)} such requests; agents are {agents}")
    return _stored(replay, chosen[number - 1], name)


def _stored(replay: Replay, index: int, name: str) -> Side:
    row = replay.requests[index].row
    prompt = replay.known.get(row.digest)
    if prompt is None:
        raise NotPossibleNow(f"{name} was a request beside the conversation and is not stored")
    return Side(
        name=f"{name} ({row.agent})",
        body=prompt.body(),
        model=row.model,
        tokens=row.usage.input,
        counted=True,
        betas=prompt.head.spec.betas,
    )


def captured(name: str, data: bytes) -> Side:
    """Take a request as it was captured; raises UsageError if there is none in it."""
    try:
        body = _body(data)
        model = msgspec.json.decode(body, type=dict[str, Any]).get("model")
    except NOT_JSON as error:
        raise BadInput(f"{name} holds no request body: a JSON object is expected") from error
    return Side(
        name=name,
        body=body,
        model=model if isinstance(model, str) else "",
        tokens=len(body) // _BYTES_PER_TOKEN,
    )


def _body(data: bytes) -> bytes:
    """Find a body however it was captured: pretty-printed, below headers, or inside a record."""
    data = msgspec.json.format(data[max(0, data.find(b"{")) :].rstrip(), indent=-1)
    for _ in range(3):
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        inner = next((fields[name] for name in _WRAPPERS if name in fields), None)
        if inner is None or "messages" in fields or "input" in fields:
            break
        data = bytes(inner)
        if data.startswith(b'"'):
            data = msgspec.json.format(msgspec.json.decode(data, type=str).encode(), indent=-1)
    return data
