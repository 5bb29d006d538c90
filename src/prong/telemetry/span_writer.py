"""Turns a session's events into OpenTelemetry's spans and measurements.

Events carry their agent and their time, so no context variables are needed: a span is begun and
ended when the timeline says so, as a part of what the timeline says. An agent itself is no span:
its turns are, and stand in what started it. Texts are left out unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from opentelemetry import trace
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from prong.about import __version__
from prong.event import Envelope, InputTaken, ReplyFinished, ToolFinished, ToolStarted
from prong.ids import AgentPath
from prong.telemetry import semconv
from prong.timeline import Chronicle, Linked, Marked, SpanClosed, SpanOpened

_OWN: Final = {
    "permission": "prong.permission",
    "question": "prong.question",
    "held": "prong.wait_for_leading_fork",
    "task": "prong.command",
}
"""Names of spans that the conventions do not know."""
_OPERATIONS: Final = {
    "turn": "invoke_agent",
    "request": "chat",
    "tool": "execute_tool",
    "fanout": "invoke_workflow",
}
_SAID: Final = {
    "input_tokens": semconv.INPUT_TOKENS,
    "output_tokens": semconv.OUTPUT_TOKENS,
    "read_tokens": semconv.CACHE_READ,
    "written_tokens": semconv.CACHE_WRITE,
    "reasoning_tokens": semconv.REASONING_TOKENS,
    "answered_by": semconv.RESPONSE_MODEL,
    "response_id": semconv.RESPONSE_ID,
    "cost_usd": semconv.COST,
    "uncached_usd": semconv.UNCACHED_COST,
    "bytes": semconv.REQUEST_BYTES,
    "digest": semconv.REQUEST_DIGEST,
    "sidecar": semconv.SIDECAR,
    "model": semconv.REQUEST_MODEL,
    "call_id": semconv.TOOL_CALL,
    "outcome": semconv.OUTCOME,
    "error": semconv.ERROR,
}
"""What the details of a timeline are called there."""


class SpanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is told beside the events, and how much of them."""

    provider: str = ""
    address: str = ""
    port: int = 0
    """Who serves the model, and where."""
    content: bool = False
    """Whether texts are exported: messages, arguments, results."""
    old_names: bool = False
    """Whether what is written to the cache is told by its earlier name, too."""
    traceparent: str = ""
    """Of which span of whoever started this process the session is a part."""


class SpanWriter:
    """Writes the spans and measurements of one session."""

    def __init__(self, tracer: Tracer, meter: Meter, options: SpanOptions) -> None:
        """Nothing has happened yet."""
        self._tracer = tracer
        self._options = options
        self._chronicle = Chronicle()
        self._root = TraceContextTextMapPropagator().extract({"traceparent": options.traceparent})
        self._open: dict[str, tuple[SpanOpened, Span | None]] = {}
        self._within: dict[str, SpanContext | None] = {}
        """What a span that is open stands for as a parent; of an agent that is its parent's."""
        self._turned: dict[str, SpanContext] = {}
        """The last turn of an agent, by the key of the agent."""
        self._names: dict[AgentPath, str] = {}
        self._new: dict[AgentPath, list[dict[str, object]]] = {}
        """What an agent was told since its last request, if texts are exported."""
        self._measures = _Measures(meter)

    def take(self, envelope: Envelope) -> None:
        """Take in an event."""
        if self._options.content:
            self._tell(envelope)
        for change in self._chronicle.take(envelope):
            match change:
                case SpanOpened():
                    self._begin(change)
                case SpanClosed():
                    self._end(change)
                case Marked():
                    self._mark(change)
                case Linked(kind="notice"):
                    self._link(change)
                case _:
                    pass
        if self._options.content and isinstance(event := envelope.event, ToolStarted):
            key = f"tool {envelope.agent} {event.call_id}"
            self._set(key, semconv.TOOL_ARGUMENTS, event.arguments)

    def close(self) -> None:
        """End whatever is open."""
        for change in self._chronicle.close():
            if isinstance(change, SpanClosed):
                self._end(change)

    def _begin(self, opened: SpanOpened) -> None:
        within = self._within.get(opened.parent)
        if opened.kind == "agent":
            self._names[opened.agent] = opened.name
            self._open[opened.key], self._within[opened.key] = (opened, None), within
            return
        context = self._root
        if within is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(within))
        span = self._tracer.start_span(
            self._title(opened),
            context=context,
            kind=SpanKind.CLIENT if opened.kind == "request" else SpanKind.INTERNAL,
            attributes=self._described(opened),
            start_time=_ns(opened.at),
        )
        self._open[opened.key], self._within[opened.key] = (opened, span), span.get_span_context()
        if opened.kind == "turn" and opened.parent:
            self._turned[opened.parent] = span.get_span_context()

    def _title(self, opened: SpanOpened) -> str:
        match opened.kind:
            case "turn":
                return f"invoke_agent {self._names.get(opened.agent, opened.agent)}"
            case "request":
                return f"chat {opened.details.get('model', '')}"
            case "tool":
                return f"execute_tool {opened.name}"
            case "fanout":
                return f"invoke_workflow {opened.name}"
            case kind:
                return _OWN.get(kind, kind)

    def _described(self, opened: SpanOpened) -> dict[str, AttributeValue]:
        said: dict[str, AttributeValue] = {
            semconv.CONVERSATION: self._chronicle.session_id,
            semconv.AGENT_NAME: self._names.get(opened.agent, opened.agent),
            semconv.AGENT_ID: opened.agent,
            semconv.AGENT_VERSION: __version__,
        }
        if operation := _OPERATIONS.get(opened.kind):
            said[semconv.OPERATION] = operation
        if opened.kind in {"turn", "request"} and self._options.provider:
            said[semconv.PROVIDER] = self._options.provider
        match opened.kind:
            case "request":
                said |= {semconv.REQUEST_STREAM: True}
                if self._options.address:
                    said[semconv.ADDRESS] = self._options.address
                    said[semconv.PORT] = self._options.port
                if new := self._new.pop(opened.agent, None):
                    said[semconv.INPUT_MESSAGES] = _json(new)
            case "tool":
                said |= {semconv.TOOL_NAME: opened.name, semconv.TOOL_TYPE: "function"}
            case "fanout":
                said |= {semconv.WORKFLOW: opened.name}
            case _:
                pass
        return said | self._renamed(opened.details)

    def _renamed(self, details: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
        said: dict[str, AttributeValue] = {
            _SAID[word]: value
            for word, value in details.items()
            if word in _SAID and value is not None
        }
        if self._options.old_names and semconv.CACHE_WRITE in said:
            said[semconv.CACHE_WRITE_BEFORE] = said[semconv.CACHE_WRITE]
        return said

    def _end(self, closed: SpanClosed) -> None:
        opened, span = self._open.pop(closed.key, (None, None))
        self._within.pop(closed.key, None)
        if opened is None:
            return
        if opened.kind == "agent":
            self._settle(opened, closed)
            return
        if span is None:
            return
        span.set_attributes(self._renamed(closed.details))
        if opened.kind == "request":
            if stop := closed.details.get("stop"):
                span.set_attribute(semconv.FINISH_REASONS, [str(stop)])
            if closed.first:
                span.set_attribute(semconv.FIRST_CHUNK, max(0.0, closed.first - opened.at))
        if closed.failed:
            if "error" not in closed.details:
                span.set_attribute(semconv.ERROR, "_OTHER")
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(closed.at))
        self._measures.take(opened, closed, self._options.provider)

    def _settle(self, opened: SpanOpened, closed: SpanClosed) -> None:
        """Note the receipt of a fork that has ended with its fan-out."""
        if len(self._turned) > _REMEMBERED:
            del self._turned[next(iter(self._turned))]
        _, fan = self._open.get(opened.parent, (None, None))
        if fan is not None and (receipt := closed.details.get("receipt")):
            said = {semconv.AGENT_ID: opened.agent, semconv.RECEIPT: str(receipt)}
            fan.add_event("prong.receipt", said, _ns(closed.at))

    def _mark(self, mark: Marked) -> None:
        span = self._turn_of(mark.agent)
        if span is not None:
            said = {word: value for word, value in mark.details.items() if value is not None}
            span.add_event(f"prong.{mark.name.replace(' ', '_')}", said, _ns(mark.at))
            if mark.name == "new prompt" and mark.details.get("reason") == "compaction":
                span.set_attribute(semconv.COMPACTED, True)

    def _turn_of(self, agent: AgentPath) -> Span | None:
        for opened, span in reversed(self._open.values()):
            if opened.kind == "turn" and opened.agent == agent:
                return span
        return None

    def _link(self, link: Linked) -> None:
        """Let the turn that is told of a child's end point to the child's last turn."""
        _, span = self._open.get(link.target, (None, None))
        turned = self._turned.get(link.source)
        if span is not None and turned is not None:
            span.add_link(turned)

    def _tell(self, envelope: Envelope) -> None:
        """Add texts to the spans they belong to; those that have not begun get them then."""
        agent, event = envelope.agent, envelope.event
        match event:
            case InputTaken(kind=kind, text=text):
                self._new.setdefault(agent, []).append(_message("user", text, kind))
            case ReplyFinished(request_id=name, text=text, stop=stop):
                said = _json([{**_message("assistant", text), "finish_reason": stop}])
                self._set(f"request {name}", semconv.OUTPUT_MESSAGES, said)
            case ToolFinished(call_id=name, text=text):
                self._set(f"tool {agent} {name}", semconv.TOOL_RESULT, text)
                self._new.setdefault(agent, []).append(_message("tool", text))
            case _:
                pass

    def _set(self, key: str, name: str, value: str) -> None:
        _, span = self._open.get(key, (None, None))
        if span is not None:
            span.set_attribute(name, value)


_REMEMBERED: Final = 1_000
"""Agents whose last turn is remembered after their end."""


class _Measures:
    """The metrics of the conventions."""

    def __init__(self, meter: Meter) -> None:
        self._tokens: Histogram = meter.create_histogram(semconv.USAGE, "{token}")
        self._durations: dict[str, Histogram] = {
            "request": meter.create_histogram(semconv.REQUEST_DURATION, "s"),
            "turn": meter.create_histogram(semconv.TURN_DURATION, "s"),
            "tool": meter.create_histogram(semconv.TOOL_DURATION, "s"),
        }

    def take(self, opened: SpanOpened, closed: SpanClosed, provider: str) -> None:
        """Measure what has ended."""
        histogram = self._durations.get(opened.kind)
        if histogram is None:
            return
        said: dict[str, AttributeValue] = {semconv.OPERATION: _OPERATIONS[opened.kind]}
        if opened.kind == "tool":
            said[semconv.TOOL_NAME] = opened.name
        if opened.kind == "request":
            said |= {
                semconv.PROVIDER: provider,
                semconv.REQUEST_MODEL: str(opened.details.get("model", "")),
            }
            for kind in ("input", "output"):
                count = closed.details.get(f"{kind}_tokens")
                if isinstance(count, int):
                    self._tokens.record(count, {**said, semconv.TYPE_OF_TOKENS: kind})
        if closed.failed:
            said[semconv.ERROR] = str(closed.details.get("error", "_OTHER"))
        histogram.record(closed.at - opened.at, said)


def _ns(at: float) -> int:
    return int(at * 1_000_000_000)


def _message(role: str, text: str, name: str = "") -> dict[str, object]:
    """Give a message as the conventions have it; who speaks for the user is named."""
    said: dict[str, object] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return {**said, "name": name} if name not in {"", "user"} else said


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
