"""When a session did what: its events as spans of time, for whoever draws or exports them.

One pass over the events, one change after the other (`Chronicle.take`): a live reader takes each as
it comes, and `timeline` collects them all. A span lies within its parent, but for two kinds that
outlive the turn in which they began: agents and background commands. Times never run backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from prong.event import (
    AgentFinished,
    AgentStarted,
    CacheMissed,
    Envelope,
    Event,
    InputTaken,
    LineChanged,
    PermissionAsked,
    PromptMoved,
    QuestionAsked,
    ReceiptIssued,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    RequestSettled,
    SessionFinished,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from prong.ids import AgentPath

SpanKind: TypeAlias = Literal[
    "agent", "turn", "request", "tool", "permission", "question", "task", "fanout", "held"
]
SpanDetail: TypeAlias = str | int | float | bool | None


class SpanOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Something begins."""

    key: str
    """Names the span among all of a session."""
    kind: SpanKind
    agent: AgentPath
    name: str
    at: float
    parent: str = ""
    """The key of the span that it is a part of, or that it came of."""
    details: Mapping[str, SpanDetail] = {}


class SpanClosed(msgspec.Struct, frozen=True, kw_only=True):
    """Something ends."""

    key: str
    at: float
    failed: bool = False
    first: float = 0.0
    """Of a request: when its response began."""
    details: Mapping[str, SpanDetail] = {}


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes no time."""

    agent: AgentPath
    at: float
    name: str
    details: Mapping[str, SpanDetail] = {}


class Linked(msgspec.Struct, frozen=True, kw_only=True):
    """One thing led to another: a call to a child, or its end to what the parent is told."""

    kind: Literal["dispatch", "notice"]
    source: str
    """The key of the span that it left."""
    left: float
    target: str
    """The key of the span in which it arrived."""
    arrived: float


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What the session has come to so far."""

    at: float
    cost: float
    read: int
    """Tokens that were read from the cache."""


TimelineChange: TypeAlias = SpanOpened | SpanClosed | Marked | Linked | Counted
_Changes: TypeAlias = Iterator[TimelineChange]


class TimeSpan(msgspec.Struct, frozen=True):
    """A span with both its ends."""

    opened: SpanOpened
    closed: SpanClosed
    is_open: bool = False
    """Whether it had not ended when the events did."""


class Timeline(msgspec.Struct, frozen=True):
    """All of a session."""

    session_id: str
    agents: tuple[AgentPath, ...]
    """In the order in which they began."""
    spans: tuple[TimeSpan, ...]
    marks: tuple[Marked, ...]
    links: tuple[Linked, ...]
    counts: tuple[Counted, ...]


def timeline(envelopes: Iterable[Envelope]) -> Timeline:
    """Put a session's events in their places; what has not ended ends with the last of them."""
    chronicle = Chronicle()
    changes = [change for envelope in envelopes for change in chronicle.take(envelope)]
    left = [*chronicle.close()]
    ends = {one.key: one for one in [*changes, *left] if isinstance(one, SpanClosed)}
    still = {one.key for one in left if isinstance(one, SpanClosed)}
    opened = [one for one in changes if isinstance(one, SpanOpened)]
    return Timeline(
        chronicle.session_id,
        tuple(dict.fromkeys(one.agent for one in opened)),
        tuple(TimeSpan(one, ends[one.key], one.key in still) for one in opened),
        tuple(one for one in changes if isinstance(one, Marked)),
        tuple(one for one in changes if isinstance(one, Linked)),
        tuple(one for one in changes if isinstance(one, Counted)),
    )


class _TracedChild(msgspec.Struct):
    """An agent that another has started, as far as its links need it."""

    parent: AgentPath
    task_id: str
    origin: str
    """The key of the span in which it was started."""
    key: str
    """That of its own."""
    began: float
    fan: str = ""
    receipt: str = ""
    asked: bool = False
    """Whether it has sent a request."""
    ended: float | None = None


class Chronicle:
    """Turns events into changes of a timeline, one after the other."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.session_id = ""
        self._now = 0.0
        self._open: dict[str, str] = {}
        """Keys of spans that have begun, by what their end is known by."""
        self._used: dict[str, int] = {}
        self._children: dict[AgentPath, _TracedChild] = {}
        self._replied: dict[AgentPath, str] = {}
        """The last reply of each agent: the calls that come after are of it."""
        self._fans: dict[str, set[AgentPath]] = {}
        self._cost = 0.0
        self._read = 0

    def take(self, envelope: Envelope) -> _Changes:
        """Give what an event changes."""
        self._now = max(self._now, envelope.at)
        agent, event = envelope.agent, envelope.event
        match event:
            case SessionStarted(session_id=name):
                self.session_id = name
            case SessionFinished():
                yield from self.close()
            case AgentStarted():
                yield from self._begin_agent(agent, event)
            case AgentFinished(status=status, detail=detail):
                yield from self._end_agent(agent, {"status": status, "detail": detail})
            case TurnStarted():
                yield from self._begin("turn", agent, agent, "turn", parent=f"agent {agent}")
                child = self._children.get(agent)
                if child is not None and child.fan and not child.asked:
                    yield from self._begin("held", agent, agent, "waits", parent=f"turn {agent}")
            case TurnFinished(why=why, detail=detail, turns=turns):
                yield from self._end("held", agent)
                yield from self._end(
                    "turn",
                    agent,
                    failed=why == "error",
                    details={"why": why, "detail": detail, "requests": turns},
                )
            case RequestSent() | ReplyFinished() | RequestFailed() | ReplyDiscarded():
                yield from self._request(agent, event)
            case _:
                yield from self._work(agent, event)

    def close(self) -> _Changes:
        """End whatever is open: the events do not go on."""
        for known in [*reversed(self._open)]:
            yield SpanClosed(key=self._open.pop(known), at=self._now)

    def _request(
        self, agent: AgentPath, event: RequestSent | ReplyFinished | RequestFailed | ReplyDiscarded
    ) -> _Changes:
        match event:
            case RequestSent():
                yield from self._end("held", agent)
                yield from self._begin(
                    "request",
                    agent,
                    event.request_id,
                    event.sidecar or event.model,
                    parent=f"turn {agent}",
                    details={
                        "model": event.model,
                        "sidecar": event.sidecar,
                        "bytes": event.bytes,
                        "entries": event.entries,
                        "digest": event.digest,
                    },
                )
                if not event.sidecar:
                    yield from self._dispatched(agent, f"request {event.request_id}")
            case ReplyDiscarded(why=why, attempt=attempt):
                yield Marked(
                    agent=agent,
                    at=self._now,
                    name="sent again",
                    details={"why": why, "try": attempt},
                )
                yield from self._count(event)
            case RequestFailed(why=why, error=error):
                yield from self._end(
                    "request",
                    event.request_id,
                    failed=True,
                    details={"why": why, "error": error} | _billed(event),
                )
                yield from self._count(event)
            case ReplyFinished():
                self._replied[agent] = event.request_id
                yield from self._end(
                    "request",
                    event.request_id,
                    first=max(0.0, self._now - event.latency + event.first_event),
                    details={
                        "stop": event.stop,
                        "response_id": event.response_id,
                        "answered_by": event.model,
                    }
                    | _billed(event),
                )
                yield from self._count(event)

    def _work(self, agent: AgentPath, event: Event) -> _Changes:
        parent = f"turn {agent}"
        match event:
            case ToolStarted(call_id=call_id, name=name, title=title):
                yield from self._begin(
                    "tool",
                    agent,
                    f"{agent} {call_id}",
                    name,
                    parent=parent,
                    details={"call_id": call_id, "title": title},
                )
            case ToolFinished(call_id=call_id, failed=failed):
                known = f"{agent} {call_id}"
                yield from self._end(
                    "tool", known, failed=failed, details={"size": len(event.text)}
                )
            case PermissionAsked(request_id=name, tool=tool, title=title, call_id=call_id):
                yield from self._begin(
                    "permission",
                    agent,
                    name,
                    f"asks: {tool}",
                    parent=parent,
                    details={"call_id": call_id, "title": title},
                )
            case QuestionAsked(request_id=name):
                yield from self._begin("question", agent, name, "asks", parent=parent)
            case RequestSettled(request_id=name, outcome=outcome):
                yield from self._end("permission", name, details={"outcome": outcome})
                yield from self._end("question", name, details={"outcome": outcome})
            case TaskStarted(task_id=task_id, title=title, kind=kind) if kind == "shell":
                yield from self._begin("task", agent, task_id, title, parent=f"agent {agent}")
            case TaskFinished(task_id=task_id, status=status):
                yield from self._end(
                    "task", task_id, failed=status != "completed", details={"status": status}
                )
            case _:
                yield from self._remark(agent, event)

    def _remark(self, agent: AgentPath, event: Event) -> _Changes:
        details: Mapping[str, SpanDetail]
        match event:
            case InputTaken(kind="notice", text=text):
                yield from self._notice(agent, text)
                return
            case CacheMissed(predicted=predicted, read=read, why=why):
                name, details = "cache missed", {"predicted": predicted, "read": read, "why": why}
            case PromptMoved(reason=reason, detail=detail):
                name, details = "new prompt", {"reason": reason, "detail": detail}
            case ReceiptIssued(text=text):
                if agent in self._children:
                    self._children[agent].receipt = text
                return
            case LineChanged(state=state, text=text):
                name, details = f"line {state}", {"why": text}
            case _:
                return
        yield Marked(agent=agent, at=self._now, name=name, details=details)

    def _dispatched(self, agent: AgentPath, request: str) -> _Changes:
        """Link the first request of a child to what started it."""
        child = self._children.get(agent)
        if child is None or child.asked:
            return
        child.asked = True
        yield Linked(
            kind="dispatch",
            source=child.origin,
            left=child.began,
            target=self._open[request],
            arrived=self._now,
        )

    def _notice(self, agent: AgentPath, text: str) -> _Changes:
        """Link what an agent is told of to the ends of its children."""
        turn = self._open.get(f"turn {agent}")
        if turn is None:
            return
        for child in self._children.values():
            if child.parent == agent and child.ended is not None and _tells_of(text, child.task_id):
                left, child.ended = child.ended, None
                yield Linked(
                    kind="notice", source=child.key, left=left, target=turn, arrived=self._now
                )

    def _begin_agent(self, agent: AgentPath, event: AgentStarted) -> _Changes:
        parent = f"tool {event.parent} {event.call_id}"
        parent = parent if parent in self._open else f"agent {event.parent}"
        fan, origin = "", self._open.get(parent, "")
        if event.kind == "fork":
            fan = self._replied.get(event.parent, event.parent)
            if fan not in self._fans:
                yield from self._begin(
                    "fanout", event.parent, fan, "fan-out", parent=self._turn(event.parent)
                )
            self._fans.setdefault(fan, set()).add(agent)
            parent = f"fanout {fan}"
        yield from self._begin(
            "agent",
            agent,
            agent,
            event.agent_type or event.kind,
            parent=parent,
            details={
                "title": event.title,
                "model": event.model,
                "isolation": event.isolation,
                "target": event.target,
                "task_id": event.task_id,
                "run": event.run,
            },
        )
        if origin:
            key = self._open[f"agent {agent}"]
            self._children[agent] = _TracedChild(
                event.parent, event.task_id, origin, key, self._now, fan
            )

    def _turn(self, agent: AgentPath) -> str:
        """Name what an agent does now: its turn, or between turns the agent itself."""
        turn = f"turn {agent}"
        return turn if turn in self._open else f"agent {agent}"

    def _end_agent(self, agent: AgentPath, details: Mapping[str, SpanDetail]) -> _Changes:
        child = self._children.get(agent)
        told = details if child is None else {**details, "receipt": child.receipt}
        yield from self._end("agent", agent, failed=details["status"] != "completed", details=told)
        if child is None:
            return
        child.ended = self._now
        fan = self._fans.get(child.fan, set())
        fan.discard(agent)
        if not fan and self._fans.pop(child.fan, None) is not None:
            yield from self._end("fanout", child.fan)

    def _begin(
        self,
        kind: SpanKind,
        agent: AgentPath,
        known: str,
        name: str,
        *,
        parent: str = "",
        details: Mapping[str, SpanDetail] = {},
    ) -> _Changes:
        spoken = f"{kind} {known}"
        if spoken in self._open:
            # Events are missing: what it was is not known any more, only that it is over.
            yield SpanClosed(key=self._open.pop(spoken), at=self._now)
        number = self._used[spoken] = self._used.get(spoken, 0) + 1
        key = self._open[spoken] = spoken if number == 1 else f"{spoken} {number}"
        yield SpanOpened(
            key=key,
            kind=kind,
            agent=agent,
            name=name,
            at=self._now,
            parent=self._open.get(parent, "") if parent else "",
            details=_told(details),
        )

    def _end(
        self,
        kind: SpanKind,
        known: str,
        *,
        failed: bool = False,
        first: float = 0.0,
        details: Mapping[str, SpanDetail] = {},
    ) -> _Changes:
        key = self._open.pop(f"{kind} {known}", None)
        if key is not None:
            yield SpanClosed(
                key=key, at=self._now, failed=failed, first=first, details=_told(details)
            )

    def _count(self, event: ReplyFinished | RequestFailed | ReplyDiscarded) -> _Changes:
        self._cost += event.cost or 0.0
        self._read += event.usage.read
        yield Counted(at=self._now, cost=self._cost, read=self._read)


def _told(details: Mapping[str, SpanDetail]) -> dict[str, SpanDetail]:
    return {word: value for word, value in details.items() if value not in {"", None}}


def _billed(event: ReplyFinished | RequestFailed) -> dict[str, SpanDetail]:
    usage = event.usage
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "read_tokens": usage.read,
        "written_tokens": usage.written,
        "reasoning_tokens": usage.reasoning,
        "cost_usd": event.cost,
        "uncached_usd": event.uncached,
    }


def _tells_of(text: str, task_id: str) -> bool:
    return bool(task_id) and f"<task-id>{task_id}</task-id>" in text
