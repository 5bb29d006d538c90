"""OpenAI's Chat Completions API: responses to events.

One assistant message is put together from the deltas. Compatible servers differ in what they leave
out (ids, indexes, the end mark) and in what they add (thinking in one of several fields, signatures
beside a call); what they add goes back to them as it came.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from prong.entry import Call, CallId, StopReason, Usage
from prong.wire.chat import THOUGHTS, reply_of
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
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refusal",
}

_UNSENT: Final = frozenset({"role", "annotations"})
"""What a message of a response has and a message of a request has not, or has as a constant."""
_GROWING: Final = frozenset({"text", "summary", "data"})


class _Written(msgspec.Struct):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_creation_token_details: _Written | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: msgspec.Raw = _NONE
    message: msgspec.Raw = _NONE
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = _NONE


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = _NONE


_chunk = msgspec.json.Decoder(_Chunk).decode
_function = msgspec.json.Decoder(_Function).decode
_number = msgspec.json.Decoder(int).decode


class _Call:
    """A call under way."""

    __slots__ = ("extra", "id", "name", "pieces")

    def __init__(self, call_id: str) -> None:
        self.id = CallId(call_id)
        self.name = ""
        self.pieces: list[str] = []
        self.extra: Fields = {}

    def done(self) -> tuple[dict[str, Any], str]:
        """Give the call as the message holds it, and its argument text as it came."""
        said, sent = arguments("".join(self.pieces))
        # Many servers parse the string again, so what is sent back must be an object.
        function = {"name": self.name, "arguments": bytes(sent).decode()}
        return {"id": self.id, "type": "function", "function": function, **self.extra}, said


class _Items:
    """A list of a message under way; objects that carry an equal type and index are one."""

    __slots__ = ("_items", "_placed")

    def __init__(self) -> None:
        self._items: list[Grown | msgspec.Raw] = []
        self._placed: dict[tuple[bytes, bytes], Grown] = {}

    def add(self, value: msgspec.Raw) -> None:
        """Take one more element, or more of one."""
        if bytes(value)[:1] != b"{":
            self._items.append(value)
            return
        fields = fields_of(value)
        place = (bytes(fields.get("type", b"")), bytes(fields.get("index", b"")))
        old = self._placed.get(place)
        if old is not None:
            old.fold(fields, growing=_GROWING)
            return
        new = Grown(fields)
        self._items.append(new)
        if "index" in fields:
            self._placed[place] = new

    def done(self) -> list[Fields | msgspec.Raw]:
        """Give the whole list."""
        return [item.done() if isinstance(item, Grown) else item for item in self._items]


class ChatStream(Stream):
    """Decodes one response of the Chat Completions API."""

    __slots__ = (
        "_begun",
        "_body",
        "_calls",
        "_given",
        "_id",
        "_lists",
        "_model",
        "_slots",
        "_stop",
        "_thought",
        "_usage",
    )

    def __init__(self, bounds: ResponseBounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._begun = False
        self._id = ""
        self._model = ""
        self._usage = _Usage()
        self._stop: str | None = None
        self._body = Grown({"role": raw("assistant"), "content": raw(None)})
        self._lists: dict[str, _Items] = {}
        self._thought: str | None = None
        self._calls: list[_Call] = []
        self._slots: dict[int, _Call] = {}
        self._given: dict[str, _Call] = {}

    def _take(self, payload: Payload) -> None:
        if payload.data == b"[DONE]":
            self._finish()
            return
        chunk = _chunk(payload.data)
        if present(chunk.error) or payload.name == "error":
            self._end(stream_fault(msgspec.Raw(payload.data)))
            return
        self._note(chunk)
        for choice in chunk.choices or ():
            if not choice.index:
                self._choose(choice, choice.delta)

    def _finish(self) -> None:
        if self._stop is None:
            self._end(broken("truncated", "the stream ended before the reply was whole"))
        else:
            self._conclude()

    def _whole(self, body: bytes) -> None:
        chunk = _chunk(body)
        if present(chunk.error):
            self._end(stream_fault(msgspec.Raw(body)))
            return
        if not chunk.choices:
            self._end(foreign_fault(body, "choices"))
            return
        self._note(chunk)
        self._choose(chunk.choices[0], chunk.choices[0].message)
        self._finish()

    def _note(self, chunk: _Chunk) -> None:
        self._id = chunk.id or self._id
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        if not self._begun and (chunk.id or chunk.choices):
            self._begun = True
            self._out.append(Began(self._id, self._model))

    def _choose(self, choice: _Choice, delta: msgspec.Raw) -> None:
        self._stop = choice.finish_reason or self._stop
        self._usage = choice.usage or self._usage
        for field, value in fields_of(delta).items() if present(delta) else ():
            if field in _UNSENT or not present(value):
                continue
            if field == "content":
                self._grow(field, _content(value))
            elif field == "tool_calls":
                for piece in list_of(value):
                    self._call(fields_of(piece))
            else:
                self._add(field, value)

    def _add(self, field: str, value: msgspec.Raw) -> None:
        """Keep a field that the API itself does not have: texts and lists grow, others replace."""
        first = bytes(value)[:1]
        if first == b'"':
            self._grow(field, string(value))
        elif first == b"[":
            self._body.fields.setdefault(field, value)
            items = self._lists.setdefault(field, _Items())
            for item in list_of(value):
                self._begin_part()
                items.add(item)
        else:
            self._body.fields[field] = value

    def _grow(self, field: str, text: str) -> None:
        self._body.add(field, text)
        if not text:
            return
        if field in {"content", "refusal"}:
            self._out.append(TextPiece(text))
        elif field in THOUGHTS:
            # A server may say its thinking under two names: the first one is heard.
            self._thought = self._thought or field
            if field == self._thought:
                self._out.append(ThinkingPiece(text))

    def _call(self, piece: Fields) -> None:
        index = piece.pop("index", None)
        function = _function(piece.pop("function", b"{}"))
        given = string(piece.pop("id", None))
        piece.pop("type", None)
        place = _number(index) if index is not None and present(index) else None
        call = self._which(place, given, function.name)
        call.extra.update((key, value) for key, value in piece.items() if present(value))
        if function.name and not call.name:
            call.name = function.name
            self._out.append(CallBegan(call.id, call.name))
            self._out += [CallPiece(call.id, text) for text in call.pieces]
        text = string(function.arguments)
        if not text and present(function.arguments) and bytes(function.arguments) != b'""':
            # Some servers send the object itself instead of its text.
            text = bytes(function.arguments).decode()
        if text:
            call.pieces.append(text)
            if call.name:
                self._out.append(CallPiece(call.id, text))

    def _which(self, index: int | None, given: str, name: str | None) -> _Call:
        """Find the call that a piece belongs to, or begin one."""
        if index is not None:
            call = self._slots.get(index)
        elif given:
            call = self._given.get(given)
        else:
            call = None if name or not self._calls else self._calls[-1]
        if call is not None and name and given and given != call.id:
            # Another id in a used place: a server that numbers all its calls alike.
            call = None
        if call is None:
            self._begin_part()
            call = _Call(given or f"call_{len(self._calls)}")
            self._calls.append(call)
            self._given.setdefault(call.id, call)
            if index is not None:
                self._slots[index] = call
        return call

    def _conclude(self) -> None:
        for field, items in self._lists.items():
            self._body.fields[field] = raw(items.done())
        fields = self._body.done()
        done = [call.done() for call in self._calls]
        if done:
            fields["tool_calls"] = raw([sent for sent, _ in done])
        stop = _STOPS.get(self._stop, "other")
        reply = reply_of(tidy(dump(fields)), stop=stop)
        if done:
            pairs = zip(reply.calls, done, strict=True)
            calls = tuple(Call(call.id, call.name, said) for call, (_, said) in pairs)
            reply = msgspec.structs.replace(reply, calls=calls)
        elif not reply.text.strip():
            # Thinking that led to nothing is not sent back.
            reply = msgspec.structs.replace(reply, blocks=(), text="", thinking="")
        self._end(
            Ended(
                reply=reply,
                usage=self._counted(self._usage),
                id=self._id,
                model=self._model,
                stop_detail=self._stop or "",
            )
        )

    def _counted(self, usage: _Usage) -> Usage:
        return _count(usage)


class ClaudeChatStream(ChatStream):
    """Decodes one response of a gateway to Claude, whose cache is Anthropic's."""

    def _counted(self, usage: _Usage) -> Usage:
        told = usage.prompt_tokens_details or _InputDetails()
        split = told.cache_creation_token_details or _Written()
        counted, long = _count(usage), split.ephemeral_1h_input_tokens or 0
        written = told.cache_creation_tokens or counted.written
        return msgspec.structs.replace(
            counted,
            uncached=max(0, counted.uncached + counted.written - written),
            written_30m=0,
            written_5m=max(0, written - long),
            written_1h=min(written, long),
        )


def _content(value: msgspec.Raw) -> str:
    """Read content, which a few servers send as a list of parts."""
    if bytes(value)[:1] != b"[":
        return string(value)
    parts = (fields_of(part) for part in list_of(value))
    return "".join(string(part.get("text")) for part in parts)


def _count(usage: _Usage) -> Usage:
    told = usage.prompt_tokens_details or _InputDetails()
    read = told.cached_tokens or usage.prompt_cache_hit_tokens or 0
    written = told.cache_write_tokens or 0
    details = usage.completion_tokens_details or _OutputDetails()
    return Usage(
        # Unlike Anthropic's, this input count includes what was read and written.
        uncached=max(0, (usage.prompt_tokens or 0) - read - written),
        read=read,
        written_30m=written,
        output=usage.completion_tokens or 0,
        reasoning=details.reasoning_tokens or 0,
        silent=told.cached_tokens is None and usage.prompt_cache_hit_tokens is None,
    )
