"""A session's timeline in the trace format that Chrome and Perfetto read.

A process is the session, its threads are lanes. An agent has one lane for its turns and all that
lies within them one after the other; what overlaps (calls that run together, sidecars, commands in
the background) goes on lanes beside it, so that the slices of each lane nest. Arrows lead from a
call to the first request of the child, and from a child's end to the turn that is told of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from prong.ids import AgentPath
from prong.timeline.chronicle import Linked, Timeline, TimeSpan

_PROCESS: Final = 1
_NESTED: Final = frozenset(("agent", "turn"))
"""Kinds that hold others on their lane."""
_OUTLIVING: Final = frozenset(("task", "fanout"))
"""Kinds that may go on after the turn in which they began."""


def chrome_trace(found: Timeline) -> dict[str, Any]:
    """Write a timeline as the value of such a file; times count from the session's beginning."""
    return _Writer(found).write()


class _Writer:
    def __init__(self, found: Timeline) -> None:
        self._found = found
        self._begin = min((span.opened.at for span in found.spans), default=0.0)
        self._spans = {span.opened.key: span for span in found.spans}
        self._lanes = _lanes(found)
        self._numbers = {lane: number for number, lane in enumerate(self._in_order(), start=1)}

    def write(self) -> dict[str, Any]:
        """Give the file's value: slices sorted as they nest, the outer first."""
        slices = [one for span in self._found.spans for one in self._slices(span)]
        slices.sort(key=lambda one: (one["ts"], -one["dur"]))
        events = [*self._names(), *slices, *self._marks(), *self._arrows(), *self._counters()]
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"session": self._found.session_id, "begin": self._begin},
        }

    def _in_order(self) -> Iterator[tuple[AgentPath, int]]:
        for agent in self._found.agents:
            taken = {
                self._lanes[s.opened.key] for s in self._found.spans if s.opened.agent == agent
            }
            yield from ((agent, lane) for lane in sorted(taken | {0}))

    def _names(self) -> Iterator[dict[str, Any]]:
        yield _meta("process_name", 0, {"name": f"prong {self._found.session_id}"})
        for (agent, lane), number in self._numbers.items():
            yield _meta("thread_name", number, {"name": f"{agent} +{lane}" if lane else agent})
            yield _meta("thread_sort_index", number, {"sort_index": number})

    def _us(self, at: float) -> int:
        return round((at - self._begin) * 1_000_000)

    def _lane(self, span: TimeSpan) -> int:
        return self._numbers[span.opened.agent, self._lanes[span.opened.key]]

    def _slices(self, span: TimeSpan) -> Iterator[dict[str, Any]]:
        opened, closed = span.opened, span.closed
        details = {**opened.details, **closed.details}
        if closed.failed:
            details["failed"] = True
        if span.is_open:
            details["open"] = True
        yield self._slice(span, opened.name, opened.at, closed.at, details)
        if opened.kind == "request" and opened.at <= closed.first <= closed.at:
            yield self._slice(span, "waiting", opened.at, closed.first, {})
            yield self._slice(span, "streaming", closed.first, closed.at, {})

    def _slice(
        self, span: TimeSpan, name: str, start: float, end: float, details: dict[str, Any]
    ) -> dict[str, Any]:
        begin = self._us(start)
        return {
            "ph": "X",
            "name": name,
            "cat": span.opened.kind,
            "pid": _PROCESS,
            "tid": self._lane(span),
            "ts": begin,
            "dur": self._us(end) - begin,
            "args": details,
        }

    def _marks(self) -> Iterator[dict[str, Any]]:
        for mark in self._found.marks:
            yield {
                "ph": "i",
                "s": "t",
                "name": mark.name,
                "cat": "mark",
                "pid": _PROCESS,
                "tid": self._numbers.get((mark.agent, 0), 0),
                "ts": self._us(mark.at),
                "args": dict(mark.details),
            }

    def _arrows(self) -> Iterator[dict[str, Any]]:
        for number, link in enumerate(self._found.links, start=1):
            yield self._end_of(link, number, "s", link.source, link.left)
            yield self._end_of(link, number, "f", link.target, link.arrived) | {"bp": "e"}

    def _end_of(self, link: Linked, number: int, phase: str, key: str, at: float) -> dict[str, Any]:
        return {
            "ph": phase,
            "id": number,
            "name": link.kind,
            "cat": link.kind,
            "pid": _PROCESS,
            "tid": self._lane(self._spans[key]),
            "ts": self._us(at),
        }

    def _counters(self) -> Iterator[dict[str, Any]]:
        for one in self._found.counts:
            for name, value in (("cost, $", one.cost), ("tokens read from cache", one.read)):
                yield {
                    "ph": "C",
                    "name": name,
                    "pid": _PROCESS,
                    "ts": self._us(one.at),
                    "args": {"so far": value},
                }


def _meta(name: str, lane: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _PROCESS, "tid": lane, "args": args}


class _Free(msgspec.Struct):
    """Until when the lanes of an agent are taken."""

    until: list[float]

    def take(self, start: float, end: float, first: int) -> int:
        """Give the first lane from a number on that is free by then."""
        for lane in range(first, len(self.until)):
            if self.until[lane] <= start:
                self.until[lane] = end
                return lane
        self.until += [0.0] * (first - len(self.until))
        self.until.append(end)
        return len(self.until) - 1


def _lanes(found: Timeline) -> dict[str, int]:
    """Give each span a lane of its agent, such that those of one lane nest.

    On an agent's own lane are its runs, their turns, and in a turn one thing after the other.
    """
    lanes: dict[str, int] = {}
    taken: dict[AgentPath, _Free] = {}
    kinds = {span.opened.key: span.opened.kind for span in found.spans}
    for span in sorted(found.spans, key=lambda one: (one.opened.at, -one.closed.at)):
        opened = span.opened
        if opened.kind in _NESTED:
            lanes[opened.key] = 0
            continue
        within = kinds.get(opened.parent) == "turn" and not opened.details.get("sidecar")
        first = 0 if within and opened.kind not in _OUTLIVING else 1
        free = taken.setdefault(opened.agent, _Free([]))
        lanes[opened.key] = free.take(opened.at, span.closed.at, first)
    return lanes
