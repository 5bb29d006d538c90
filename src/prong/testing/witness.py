"""The witness of the prefix law: which request extends which, and where one does not.

Requests with the same `x-prong-lineage` header are one lineage; requests without the header are
one lineage if model, tools and system are the same. Each request of a lineage must begin with all
blocks of the last one that was answered, less the marks, under the same settings. One with
an `x-prong-sidecar` header must extend its lineage too, but the next one need not extend it; it
goes beside the conversation, which may overtake it by one request.

Where several sessions talk to one server, lineages of one name are told apart by what they extend:
one that extends no end of a lineage, but begins like an earlier request or like none, is another
session's.
"""

from __future__ import annotations

import msgspec

from prong.testing.cache import chain_of
from prong.testing.request import Param, Request

_SHOWN = 60


class Seen(msgspec.Struct):
    """One request as the witness sees it."""

    number: int
    request: Request
    lineage: str
    chain: tuple[bytes, ...]
    parent: int | None = None
    """The number of the longest earlier request that this one extends."""
    route: str | None = None
    breach: str | None = None
    """Where it fails to extend its lineage."""


class Witness:
    """Keeps the requests and their lineages."""

    def __init__(self, *, several: bool = False) -> None:
        """Say whether several sessions may be seen, each with a main agent of its own."""
        self._several = several
        self.seen: list[Seen] = []
        self.tips: dict[str, Seen] = {}
        self._overtaken: dict[str, Seen] = {}
        self._by_end: dict[bytes, Seen] = {}

    def see(self, number: int, request: Request) -> Seen:
        """Take note of a request and compare it with its lineage."""
        chain = chain_of(request.blocks, (Param("tools", "model", request.model.encode()),))
        seen = Seen(number, request, _lineage(request, chain), chain)
        for digest in reversed(chain):
            if digest in self._by_end:
                seen.parent = self._by_end[digest].number
                seen.route = self._by_end[digest].route
                break
        if self._several:
            seen.lineage = self._told_apart(seen)
        tip = self.tips.get(seen.lineage)
        if tip is not None:
            seen.breach = first_difference(tip, seen)
        before = self._overtaken.get(seen.lineage)
        if before is not None and _is_sidecar(request) and not first_difference(before, seen):
            seen.breach = None
        self.seen.append(seen)
        return seen

    def _told_apart(self, seen: Seen) -> str:
        """Name the lineage that a request extends, of those that have its name."""
        named = [name for name in self.tips if name.partition(" ")[0] == seen.lineage]
        for name in named:
            if first_difference(self.tips[name], seen) is None:
                return name
        begun = {tip.chain[: _opening(tip.request)] for tip in map(self.tips.__getitem__, named)}
        is_new = seen.chain[: _opening(seen.request)] not in begun
        if named and (is_new or seen.parent is not None):
            return f"{seen.lineage} {len(named) + 1}"
        return seen.lineage

    def accept(self, seen: Seen) -> None:
        """Make a request the end of its lineage: its answer has begun."""
        if seen.chain:
            self._by_end[seen.chain[-1]] = seen
        if not _is_sidecar(seen.request):
            if (tip := self.tips.get(seen.lineage)) is not None:
                self._overtaken[seen.lineage] = tip
            self.tips[seen.lineage] = seen

    def lineages(self) -> dict[str, list[int]]:
        """Give the numbers of the requests of each lineage."""
        found: dict[str, list[int]] = {}
        for seen in self.seen:
            found.setdefault(seen.lineage, []).append(seen.number)
        return found

    def breaches(self) -> list[str]:
        """Say where requests failed to extend their lineage."""
        return [seen.breach for seen in self.seen if seen.breach]


def _opening(request: Request) -> int:
    """Count the blocks up to the first message, which is another one in every conversation."""
    return sum(block.section != "messages" for block in request.blocks) + 1


def _is_sidecar(request: Request) -> bool:
    return request.headers.get("x-prong-sidecar", "0") not in ("", "0")


def _lineage(request: Request, chain: tuple[bytes, ...]) -> str:
    named = request.headers.get("x-prong-lineage")
    if named:
        return named
    head = [i for i, block in enumerate(request.blocks) if block.section != "messages"]
    digest = chain[head[-1]].hex() if head else request.model
    return f"head:{digest}"


def first_difference(before: Seen, after: Seen) -> str | None:
    """Say where a request first fails to extend an earlier one; None if it extends it."""
    size = len(before.chain)
    same = size <= len(after.chain) and before.chain[size - 1 :][:1] == after.chain[size - 1 : size]
    place = f"request {after.number} does not extend request {before.number} of {after.lineage}"
    if same:
        changed = _changed_param(before.request, after.request)
        return f"{place}: {changed}" if changed else None
    if before.request.model != after.request.model:
        return f"{place}: model: {before.request.model!r} became {after.request.model!r}"
    for index, old in enumerate(before.request.blocks):
        if index >= len(after.request.blocks):
            return f"{place}: {old.where} is missing"
        new = after.request.blocks[index]
        if before.chain[index] == after.chain[index]:
            continue
        if (old.section, old.role, old.opens) != (new.section, new.role, new.opens):
            return (
                f"{place}: {old.where} was {old.role or old.section} {old.kind}, "
                f"and {new.where} is {new.role or new.section} {new.kind}"
            )
        at = next((i for i, (a, b) in enumerate(zip(old.raw, new.raw, strict=False)) if a != b), -1)
        if at < 0:
            at = min(len(old.raw), len(new.raw))
        start = max(0, at - 20)
        return (
            f"{place}: {new.where}, byte {at}: "
            f"{old.raw[start : at + _SHOWN]!r} became {new.raw[start : at + _SHOWN]!r}"
        )
    return f"{place}: the prompts differ"


def _changed_param(before: Request, after: Request) -> str | None:
    old = {p.name: p.value for p in before.params if p.name != "images"}
    new = {p.name: p.value for p in after.params if p.name != "images"}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            return f"params, {name}: {old.get(name)!r} became {new.get(name)!r}"
    return None
