"""A session as a page shows it, stored or at work: one road for both.

A look (`refresh`) reads what its files have got since the last one: recorded events are folded into
the view that all faces draw and into a timeline, requests of the journal into the map of bytes.
Each look that finds something is a revision, and all that is here knows that of its last change.
Whoever asks for what changed after one (`since`) gets the latest state of just that. So there is no
queue: a reader that is slow gets less often, and what it missed in between in one piece.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgspec

from prong.cost import Prices
from prong.errors import UnknownName
from prong.event import CacheMissed, Envelope, PermissionAsked, QuestionAsked, RequestSent
from prong.journal.book import Books
from prong.journal.byte_map import ByteMap
from prong.journal.compare import compare, numbered
from prong.journal.follow import FollowedEvents, FollowedJournal
from prong.journal.lock import has_writer
from prong.prompt import shared_bytes
from prong.timeline import (
    Chronicle,
    Counted,
    Linked,
    Marked,
    SpanClosed,
    SpanOpened,
    TimelineChange,
)
from prong.view import AgentView, Item, Series, View, fold

_T = TypeVar("_T")
_LONGEST = 8_000
"""Characters of a text that are shown at once; an entry's bytes can be had by themselves."""


class _AddedRows(msgspec.Struct, Generic[_T]):
    """Things that are only ever added, each with the revision in which it came."""

    things: list[_T] = msgspec.field(default_factory=list[_T])
    _revisions: list[int] = msgspec.field(default_factory=list[int])

    def add(self, thing: _T, revision: int) -> None:
        self.things.append(thing)
        self._revisions.append(revision)

    def after(self, revision: int) -> dict[str, Any]:
        start = bisect_right(self._revisions, revision)
        return {"from": start, "rows": self.things[start:]}


class _FollowedTimeline(msgspec.Struct):
    """The timeline so far."""

    chronicle: Chronicle = msgspec.field(default_factory=Chronicle)
    spans: dict[str, tuple[SpanOpened, SpanClosed | None]] = msgspec.field(
        default_factory=dict[str, tuple[SpanOpened, SpanClosed | None]]
    )
    changed: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    marks: _AddedRows[Marked] = msgspec.field(default_factory=_AddedRows[Marked])
    links: _AddedRows[Linked] = msgspec.field(default_factory=_AddedRows[Linked])
    counts: _AddedRows[Counted] = msgspec.field(default_factory=_AddedRows[Counted])

    def take(self, change: TimelineChange, revision: int) -> None:
        match change:
            case SpanOpened(key=key):
                self.spans[key] = (change, None)
                self.changed[key] = revision
            case SpanClosed(key=key):
                self.spans[key] = (self.spans[key][0], change)
                self.changed[key] = revision
            case Marked():
                self.marks.add(change, revision)
            case Linked():
                self.links.add(change, revision)
            case Counted():
                self.counts.add(change, revision)


class MissedRequest(msgspec.Struct, frozen=True):
    """A request that read less from the cache than it should have."""

    agent: str
    digest: str
    """Of its prompt."""
    read: int
    predicted: int
    """Tokens."""
    why: str


class _FollowedMisses(msgspec.Struct):
    """Which requests missed the cache, as events tell it."""

    rows: _AddedRows[MissedRequest] = msgspec.field(default_factory=_AddedRows[MissedRequest])
    _sent: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def take(self, envelope: Envelope, revision: int) -> None:
        match envelope.event:
            case RequestSent(digest=digest, sidecar=""):
                self._sent[envelope.agent] = digest
            case CacheMissed(read=read, predicted=predicted, why=why):
                # It is told of the request that the agent has sent last: it has one at a time.
                digest = self._sent.get(envelope.agent, "")
                missed = MissedRequest(envelope.agent, digest, read, predicted, why)
                self.rows.add(missed, revision)
            case _:
                pass


class SessionFeed:
    """One session, followed."""

    def __init__(self, path: Path, prices: Prices) -> None:
        """Read a journal and the events beside it; raises as reading a journal does."""
        self.path = path
        self.view = View()
        self.revision = 0
        self._prices = prices
        self._journal = FollowedJournal(path)
        self._events = FollowedEvents(path)
        self._bytes = ByteMap()
        self._mapped: tuple[list[int], list[int]] = ([], [])
        self._agents: dict[str, int] = {}
        self._items: dict[str, list[int]] = {}
        self._timeline = _FollowedTimeline()
        self._misses = _FollowedMisses()
        self._live = False
        self._asked = 0
        """The revision in which what waits for an answer was last another."""
        self._look(fresh=True)

    def refresh(self) -> bool:
        """Read what has come since; gives whether something has changed."""
        return self._look(fresh=self._journal.refresh())

    def _look(self, *, fresh: bool) -> bool:
        envelopes = self._events.refresh()
        live = self.view.is_open and has_writer(self.path)
        if not (fresh or envelopes or live != self._live):
            return False
        self.revision += 1
        before = self.view
        for envelope in envelopes:
            self.view = fold(self.view, envelope)
            self._misses.take(envelope, self.revision)
            for change in self._timeline.chronicle.take(envelope):
                self._timeline.take(change, self.revision)
        self._live = self.view.is_open and has_writer(self.path)
        self._note(before)
        if fresh:
            self._bytes.take(self._journal.replay)
            for known, things in zip(
                self._mapped, (self._bytes.stretches, self._bytes.requests), strict=True
            ):
                known.extend([self.revision] * (len(things) - len(known)))
        return True

    def _note(self, before: View) -> None:
        """Remember which agents and which items of their transcripts are others than before."""
        if self.view.questions != before.questions:
            self._asked = self.revision
        for path, agent in self.view.agents.items():
            known = before.agents.get(path)
            if known is agent:
                continue
            self._agents[path] = self.revision
            items = self._items.setdefault(path, [])
            for place in agent.transcript.differing(known.transcript if known else Series()):
                items[place : place + 1] = [self.revision]

    def since(self, revision: int, *, whole: bool = False) -> dict[str, Any]:
        """Give everything that has changed after a revision, as it is now; 0 for all.

        Long texts are cut, unless the whole of them is wanted.
        """
        view, stretches, requests = self.view, *self._mapped
        lines = self._timeline
        first = bisect_right(stretches, revision), bisect_right(requests, revision)
        opened = self._journal.replay.opened
        return {
            "revision": self.revision,
            "session": {
                "id": opened.session,
                "title": view.title or self._journal.replay.tally.about,
                "cwd": opened.cwd,
                "model": view.model,
                "live": self._live,
                "broken": view.is_open and not self._live,
                "now": time.time(),
                "recorded": view.seq,
                "holes": view.holes,
                "damage": self._damage(),
                "cost": view.cost,
                "saved": view.saved,
                "at": view.at,
            },
            "questions": self._questions() if self._asked > revision else None,
            "agents": [
                _described(view, view.agents[path])
                for path, changed in self._agents.items()
                if changed > revision
            ],
            "items": [
                [path, place, _plain(view.agents[path].transcript[place], whole=whole)]
                for path, changed in self._items.items()
                if self._agents[path] > revision
                for place, when in enumerate(changed)
                if when > revision
            ],
            "stretches": {"from": first[0], "rows": self._bytes.stretches[first[0] :]},
            "requests": {"from": first[1], "rows": self._bytes.requests[first[1] :]},
            "misses": self._misses.rows.after(revision),
            "prices": self._priced(first[1]),
            "spans": [
                {"opened": lines.spans[key][0], "closed": lines.spans[key][1]}
                for key, changed in lines.changed.items()
                if changed > revision
            ],
            "marks": lines.marks.after(revision),
            "links": lines.links.after(revision),
            "counts": lines.counts.after(revision),
        }

    def _questions(self) -> list[dict[str, Any]]:
        """Give what waits for an answer, whole: nobody is to agree to what was cut off."""
        return [
            {"agent": asked.agent, "seq": asked.seq, "at": asked.at}
            | _plain(asked.asked, whole=True)
            for asked in self.view.questions.values()
        ]

    def _priced(self, first: int) -> dict[str, dict[str, float]]:
        """Give the prices of the models of requests from one on, in dollars per million tokens."""
        models = {request.model for request in self._bytes.requests[first:]}
        prices = {model: self._prices.of(model) for model in models}
        return {
            model: {"input": price.input, "read": price.read, "write": price.write_5m}
            for model, price in prices.items()
            if price is not None
        }

    def _damage(self) -> str:
        damage = self._journal.damage
        return f"line {damage.line}: {damage.why}" if damage else ""

    def entry(self, digest: str) -> bytes:
        """Give the bytes of one entry, or of a head; raises UnknownName if there is none."""
        prompt = self._journal.replay.known.get(digest)
        if prompt is None:
            raise UnknownName(f"there is no entry {digest[:12]!r}")
        return prompt.tip.delta if prompt.tip else prompt.head.data

    def explain(self, left: int, right: int) -> dict[str, Any]:
        """Say where two requests part, by their numbers, as `prong explain` does.

        Raises UsageError if one of them is not stored.
        """
        replay = self._journal.replay
        name = replay.opened.session
        sides = [numbered(replay, "", each, f"{name}:{each}") for each in (left, right)]
        told = msgspec.to_builtins(compare(sides[0], sides[1], self._prices))
        one, other = (replay.known[replay.requests[each - 1].row.digest] for each in (left, right))
        shared = shared_bytes(one, other)
        rest = os.path.commonprefix([one.open()[shared:], other.open()[shared:]])  # noqa: RUF071 - no paths
        return {**told, "first_byte": shared + len(rest)}

    def cost(self) -> list[Any]:
        """Say what the session cost: by agent, by fan-out, and in all."""
        lines = Books(self._journal.replay, self._prices).lines()
        return [msgspec.to_builtins(line) | {"input": line.usage.input} for line in lines]


def _described(view: View, agent: AgentView) -> dict[str, Any]:
    """Give what a tree shows of an agent."""
    return {
        "path": agent.path,
        "kind": agent.kind,
        "type": agent.agent_type,
        "parent": agent.parent,
        "title": agent.title,
        "model": agent.model,
        "task": agent.task_id,
        "target": agent.target,
        "state": agent.state,
        "doing": agent.doing,
        "detail": agent.detail,
        "requests": agent.requests,
        "cost": agent.cost,
        "cached": agent.cached,
        "last_cached": agent.last_cached,
        "missed": agent.missed,
        "started": agent.started_at,
        "ended": agent.ended_at,
        "warm_until": view.warm_until(agent.path),
        "items": len(agent.transcript),
    }


def _plain(item: Item | PermissionAsked | QuestionAsked, *, whole: bool) -> Any:
    """Give an item or a question as JSON has it, with long texts cut if it need not be whole."""
    value = msgspec.json.decode(msgspec.json.encode(item))
    return value if whole else _cut(value)


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > _LONGEST:
            return f"{value[:_LONGEST]}\n… ({len(value) - _LONGEST:,} more characters)"
        case dict():
            return {name: _cut(each) for name, each in cast("dict[str, Any]", value).items()}
        case list():
            return [_cut(each) for each in cast("list[Any]", value)]
        case _:
            return value
