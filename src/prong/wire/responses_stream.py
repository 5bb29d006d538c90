"""OpenAI's Responses API: responses to events.

The reply is made of the items that the server calls done, byte for byte; the deltas before them
only feed the faces.
"""

from __future__ import annotations

from typing import Final

import msgspec

from prong.entry import CallId, StopReason, Usage
from prong.wire.dialect import (
    BOUNDS,
    Began,
    CallBegan,
    CallPiece,
    Ended,
    Fault,
    ResponseBounds,
    TextPiece,
    ThinkingPiece,
)
from prong.wire.fault import foreign_fault, stream_fault
from prong.wire.raw import list_of, present, tidy
from prong.wire.responses import reply_of, sendable
from prong.wire.sse import Payload, Stream, broken

_NONE: Final = msgspec.Raw(b"")

_STOPS: Final[dict[str, StopReason]] = {"max_output_tokens": "length", "content_filter": "refusal"}


class _WriteSplit(msgspec.Struct):
    ttl_30m_tokens: int | None = None
    ttl_12h_tokens: int | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: _WriteSplit | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str = ""
    model: str = ""
    status: str | None = None
    output: msgspec.Raw = _NONE
    usage: _Usage | None = None
    error: msgspec.Raw = _NONE
    incomplete_details: _Incomplete | None = None
    prompt_cache_diagnostics: msgspec.Raw = _NONE


class _Event(msgspec.Struct):
    type: str = ""
    delta: msgspec.Raw = _NONE
    item_id: str | None = None
    output_index: int | None = None
    summary_index: int | None = None
    content_index: int | None = None
    item: msgspec.Raw = _NONE
    response: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


_event = msgspec.json.Decoder(_Event).decode
_response = msgspec.json.Decoder(_Response).decode
_item = msgspec.json.Decoder(_Item).decode
_string = msgspec.json.Decoder(str).decode


class ResponsesStream(Stream):
    """Decodes one response of the Responses API."""

    __slots__ = ("_begun", "_calls", "_items", "_thought")

    def __init__(self, bounds: ResponseBounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._begun = False
        self._items: dict[int, bytes] = {}
        self._calls: dict[int | str | None, CallId] = {}
        self._thought: tuple[int | str | None, ...] | None = None

    def _take(self, payload: Payload) -> None:
        if payload.data == b"[DONE]":
            return
        event = _event(payload.data)
        match kind := event.type or payload.name:
            case "response.output_text.delta" | "response.refusal.delta":
                self._out.append(TextPiece(_string(event.delta)))
            case "response.function_call_arguments.delta":
                self._argue(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event)
            case "response.output_item.added":
                self._add(event)
            case "response.output_item.done":
                self._settle(event)
            case "error" | "":
                self._err(event, payload)
            case _:
                self._advance(kind, event)

    def _advance(self, kind: str, event: _Event) -> None:
        """Follow the response as a whole from one state to the next."""
        match kind:
            case "response.created" | "response.in_progress" | "response.queued":
                self._begin(_response(event.response))
            case "response.completed" | "response.incomplete":
                response = _response(event.response)
                response.status = response.status or kind.removeprefix("response.")
                self._conclude(response)
            case "response.failed" | "response.cancelled":
                self._end(_failure(_response(event.response)))
            case _:
                pass

    def _err(self, event: _Event, payload: Payload) -> None:
        # OpenAI's own error event is flat; gateways send the object of an error response.
        if event.type or payload.name or present(event.error):
            self._end(stream_fault(msgspec.Raw(payload.data)))

    def _finish(self) -> None:
        self._end(broken("truncated", "the stream ended before the reply was whole"))

    def _whole(self, body: bytes) -> None:
        response = _response(body)
        if present(response.error) or response.status in {"failed", "cancelled"}:
            self._end(_failure(response))
            return
        if not present(response.output):
            self._end(foreign_fault(body, "output"))
            return
        self._begin(response)
        for index, data in enumerate(list_of(response.output)):
            self._keep(index, data)
        reply = reply_of(list(self._items.values()))
        if reply.thinking:
            self._out.append(ThinkingPiece(reply.thinking))
        if reply.text:
            self._out.append(TextPiece(reply.text))
        for call in reply.calls:
            self._out += [CallBegan(call.id, call.name), CallPiece(call.id, call.arguments)]
        self._conclude(response)

    def _begin(self, response: _Response) -> None:
        if not self._begun:
            self._begun = True
            self._out.append(Began(response.id, response.model))

    def _add(self, event: _Event) -> None:
        self._begin_part()
        item = _item(event.item)
        if item.type != "function_call":
            return
        call_id = CallId(item.call_id or item.id or "")
        for key in (event.output_index, event.item_id or item.id):
            if key is not None:
                self._calls[key] = call_id
        self._out.append(CallBegan(call_id, item.name or ""))

    def _settle(self, event: _Event) -> None:
        self._begin_part()
        index = len(self._items) if event.output_index is None else event.output_index
        item = self._keep(index, event.item)
        call_id = CallId(item.call_id or item.id or "")
        if item.type == "function_call" and call_id not in self._calls.values():
            # A server that streams no deltas: the call is told in one piece.
            self._calls[index] = call_id
            self._out += [
                CallBegan(call_id, item.name or ""),
                CallPiece(call_id, item.arguments or "{}"),
            ]

    def _keep(self, index: int, data: msgspec.Raw) -> _Item:
        """Keep an item; what is not even of some kind could never be sent back."""
        item = _item(data)
        if not item.type:
            raise ValueError("an item of the reply has no type")
        self._items[index] = tidy(data)
        return item

    def _argue(self, event: _Event) -> None:
        call_id = self._calls.get(event.output_index) or self._calls.get(event.item_id)
        if call_id is None:
            raise ValueError("arguments for a call that has not begun")
        self._out.append(CallPiece(call_id, _string(event.delta)))

    def _think(self, event: _Event) -> None:
        key = (event.output_index, event.item_id, event.summary_index, event.content_index)
        if self._thought not in {None, key}:
            self._out.append(ThinkingPiece("\n\n"))
        self._thought = key
        self._out.append(ThinkingPiece(_string(event.delta)))

    def _conclude(self, response: _Response) -> None:
        self._begin(response)
        if not self._items and present(response.output):
            for index, data in enumerate(list_of(response.output)):
                self._keep(index, data)
        why = response.incomplete_details.reason if response.incomplete_details else None
        stop: StopReason = (
            "end" if response.status != "incomplete" else _STOPS.get(why or "", "other")
        )
        items = [self._items[index] for index in sorted(self._items)]
        diagnostics = response.prompt_cache_diagnostics
        self._end(
            Ended(
                reply=reply_of(sendable(items), stop=stop),
                usage=_count(response.usage or _Usage(), items),
                id=response.id,
                model=response.model,
                diagnostics=tidy(diagnostics) if present(diagnostics) else b"",
                stop_detail=": ".join(part for part in (response.status, why) if part),
            )
        )


def _failure(response: _Response) -> Fault:
    if present(response.error):
        return stream_fault(response.error)
    return broken(response.status or "failed", "the server gave up on the reply without a reason")


def _count(usage: _Usage, items: list[bytes]) -> Usage:
    told = usage.input_tokens_details or _InputDetails()
    split = told.cache_write_tokens_details or _WriteSplit()
    long = split.ttl_12h_tokens or 0
    written = told.cache_write_tokens
    if written is None:
        written = long + (split.ttl_30m_tokens or 0)
    read = told.cached_tokens or 0
    details = usage.output_tokens_details or _OutputDetails()
    return Usage(
        # Unlike Anthropic's, this input count includes what was read and written.
        uncached=max(0, (usage.input_tokens or 0) - read - written),
        read=read,
        written_30m=max(0, written - long),
        written_12h=long,
        output=usage.output_tokens or 0,
        reasoning=details.reasoning_tokens or 0,
        silent=told.cached_tokens is None,
        # Of searches the count of tokens tells nothing; each is an item of the reply.
        searches=sum(_item(data).type == "web_search_call" for data in items),
    )
