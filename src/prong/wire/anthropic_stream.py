"""Anthropic's Messages API: responses to events.

The reply's blocks are put together from their start and their deltas. Fields that are not known
keep their place and value, so that a block goes back as it came.
"""

from __future__ import annotations

from typing import Final

import msgspec

from prong.entry import Call, CallId, StopReason, Usage
from prong.wire.anthropic import reply_of, sendable, wire_id
from prong.wire.dialect import (
    BOUNDS,
    Began,
    CallBegan,
    CallPiece,
    Ended,
    ResponseBounds,
    TextPiece,
    ThinkingPiece,
)
from prong.wire.fault import foreign_fault, stream_fault
from prong.wire.grown import Grown
from prong.wire.raw import Fields, arguments, dump, fields_of, list_of, present, raw, string, tidy
from prong.wire.sse import Payload, Stream, broken

_NONE: Final = msgspec.Raw(b"")

_STOPS: Final[dict[str | None, StopReason]] = {
    None: "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}


class _Written(msgspec.Struct):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Served(msgspec.Struct):
    web_search_requests: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: _Written | None = None
    output_tokens_details: _Details | None = None
    server_tool_use: _Served | None = None


class _StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class _Delta(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: msgspec.Raw = _NONE
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: msgspec.Raw = _NONE
    message: msgspec.Raw = _NONE
    usage: _Usage | None = None
    error: msgspec.Raw = _NONE


class _Message(msgspec.Struct):
    type: str = ""
    id: str = ""
    model: str = ""
    content: msgspec.Raw = _NONE
    usage: _Usage | None = None
    diagnostics: msgspec.Raw = _NONE
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    error: msgspec.Raw = _NONE


class _RawDelta(msgspec.Struct):
    delta: Fields


_event = msgspec.json.Decoder(_Event).decode
_message = msgspec.json.Decoder(_Message).decode
_raw_delta = msgspec.json.Decoder(_RawDelta).decode


class _Block:
    """A block under way."""

    __slots__ = ("arguments", "body", "citations", "id", "type")

    def __init__(self, fields: Fields) -> None:
        self.body = Grown(fields)
        self.type = string(fields.get("type"))
        self.id = CallId("")
        self.arguments: list[str] = []
        self.citations: list[msgspec.Raw] = []
        if self.type == "tool_use":
            given = string(fields.get("id"))
            self.id = CallId(wire_id(given))
            if self.id != given:
                fields["id"] = raw(self.id)

    def done(self) -> tuple[bytes, str | None]:
        """Give the whole block, and the argument text if it had to be replaced to be sendable."""
        fields = self.body.done()
        odd: str | None = None
        text = "".join(self.arguments)
        if not text.strip() and self.type == "tool_use":
            text = bytes(fields.get("input", b"")).decode()
        if text.strip():
            said, fields["input"] = arguments(text)
            odd = said if said.encode() != bytes(fields["input"]) else None
        if self.citations:
            old = fields.get("citations")
            given = list_of(old) if old is not None and present(old) else []
            fields["citations"] = raw(given + self.citations)
        return tidy(dump(fields)), odd


class AnthropicStream(Stream):
    """Decodes one response of the Messages API."""

    __slots__ = ("_blocks", "_details", "_message", "_stop", "_usage")

    def __init__(self, bounds: ResponseBounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._message: _Message | None = None
        self._blocks: dict[int, _Block] = {}
        self._usage = _Usage()
        self._stop: str | None = None
        self._details: _StopDetails | None = None

    def _take(self, payload: Payload) -> None:
        event = _event(payload.data)
        kind = event.type or payload.name
        if kind == "content_block_delta":
            self._grow(event, payload)
        elif kind == "content_block_start":
            self._start(event.index, event.content_block)
        elif kind == "message_start":
            self._begin(_message(event.message))
        elif kind == "message_delta":
            self._merge(event.usage)
            if event.delta is not None:
                self._stop = event.delta.stop_reason or self._stop
                self._details = event.delta.stop_details or self._details
        elif kind == "message_stop":
            self._conclude()
        elif kind == "error" or (not kind and present(event.error)):
            self._end(
                stream_fault(event.error if present(event.error) else msgspec.Raw(payload.data))
            )

    def _finish(self) -> None:
        self._end(broken("truncated", "the stream ended before the reply was whole"))

    def _whole(self, body: bytes) -> None:
        message = _message(body)
        if message.type == "error" or present(message.error):
            self._end(stream_fault(message.error))
            return
        if not present(message.content):
            self._end(foreign_fault(body, "content"))
            return
        self._begin(message)
        self._stop, self._details = message.stop_reason, message.stop_details
        for index, data in enumerate(list_of(message.content)):
            self._start(index, data)
            block = self._blocks[index]
            if block.type == "tool_use" and present(block.body.fields.get("input")):
                text = bytes(block.body.fields["input"]).decode()
                self._out.append(CallPiece(block.id, text))
        self._conclude()

    def _begin(self, message: _Message) -> None:
        self._message = message
        self._merge(message.usage)
        self._out.append(Began(message.id, message.model, _count(self._usage)))

    def _start(self, index: int, data: msgspec.Raw) -> None:
        self._begin_part()
        block = self._blocks[index] = _Block(fields_of(data))
        if not block.type:
            # What is not even of some kind could never be sent back.
            raise ValueError("a block of the reply has no type")
        if block.type == "tool_use":
            self._out.append(CallBegan(block.id, string(block.body.fields.get("name"))))
        elif block.type == "text" and (text := string(block.body.fields.get("text"))):
            self._out.append(TextPiece(text))
        elif block.type == "thinking" and (text := string(block.body.fields.get("thinking"))):
            self._out.append(ThinkingPiece(text))

    def _grow(self, event: _Event, payload: Payload) -> None:
        block, delta = self._blocks.get(event.index), event.delta
        if block is None or delta is None:
            raise ValueError(f"a delta for block {event.index}, which has not begun")
        match delta.type:
            case "text_delta" if delta.text:
                block.body.add("text", delta.text)
                self._out.append(TextPiece(delta.text))
            case "input_json_delta" if delta.partial_json:
                block.arguments.append(delta.partial_json)
                if block.type == "tool_use":
                    self._out.append(CallPiece(block.id, delta.partial_json))
            case "thinking_delta" if delta.thinking:
                block.body.add("thinking", delta.thinking)
                self._out.append(ThinkingPiece(delta.thinking))
            case "signature_delta":
                block.body.fields["signature"] = raw(delta.signature or "")
            case "citations_delta":
                self._begin_part()
                block.citations.append(delta.citation)
            case "text_delta" | "input_json_delta" | "thinking_delta":
                pass
            case _:
                delta_fields = _raw_delta(payload.data).delta
                delta_fields.pop("type", None)
                block.body.fold(delta_fields)

    def _merge(self, usage: _Usage | None) -> None:
        """Take cumulative counts; what is absent stands."""
        for field in _Usage.__struct_fields__ if usage is not None else ():
            value = getattr(usage, field)
            if value is not None:
                setattr(self._usage, field, value)

    def _conclude(self) -> None:
        if self._message is None:
            raise ValueError("the reply ended before it began")
        done = [
            (self._blocks[index], *self._blocks[index].done()) for index in sorted(self._blocks)
        ]
        reply = reply_of(
            sendable([data for _, data, _ in done]), stop=_STOPS.get(self._stop, "other")
        )
        odd = {block.id: said for block, _, said in done if said is not None}
        if odd:
            calls = (Call(c.id, c.name, odd.get(c.id, c.arguments)) for c in reply.calls)
            reply = msgspec.structs.replace(reply, calls=tuple(calls))
        diagnostics = self._message.diagnostics
        self._end(
            Ended(
                reply=reply,
                usage=_count(self._usage),
                id=self._message.id,
                model=self._message.model,
                # A null says something too: the comparison asked for found no difference.
                diagnostics=tidy(diagnostics),
                stop_detail=_detail(self._stop, self._details),
            )
        )


def _count(usage: _Usage) -> Usage:
    split = usage.cache_creation or _Written()
    hour = split.ephemeral_1h_input_tokens or 0
    written = usage.cache_creation_input_tokens
    if written is None:
        written = hour + (split.ephemeral_5m_input_tokens or 0)
    details = usage.output_tokens_details or _Details()
    return Usage(
        uncached=usage.input_tokens or 0,
        read=usage.cache_read_input_tokens or 0,
        # The total may grow after the split was told; what the split does not name lives 5 minutes.
        written_5m=max(0, written - hour),
        written_1h=hour,
        output=usage.output_tokens or 0,
        reasoning=details.thinking_tokens or 0,
        searches=(usage.server_tool_use or _Served()).web_search_requests or 0,
    )


def _detail(stop: str | None, details: _StopDetails | None) -> str:
    more = (details.category, details.explanation) if details else ()
    return ": ".join(part for part in (stop, *more) if part)
