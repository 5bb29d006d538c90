"""Google's Gemini API: responses to events.

A chunk holds a response like a whole one, with the parts that have come since the last. Texts of
one kind that follow each other are one part; what carries a signature stays the part that it is,
and goes back as it came.
"""

from __future__ import annotations

from typing import Final

import msgspec

from prong.entry import Call, StopReason, Usage
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
from prong.wire.gemini import call_id, reply_of
from prong.wire.grown import Grown
from prong.wire.raw import Fields, arguments, dump, fields_of, list_of, present, raw, string, tidy
from prong.wire.sse import Payload, Stream, broken

_NONE: Final = msgspec.Raw(b"")
_TRUE: Final = b"true"

_STOPS: Final[dict[str | None, StopReason]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "BLOCKLIST": "refusal",
    "IMAGE_SAFETY": "refusal",
    "LANGUAGE": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "RECITATION": "refusal",
    "SAFETY": "refusal",
    "SPII": "refusal",
}


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _Content(msgspec.Struct):
    parts: msgspec.Raw = _NONE


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: msgspec.Raw = _NONE


_chunk = msgspec.json.Decoder(_Chunk).decode


class GeminiStream(Stream):
    """Decodes one response of the generateContent API."""

    __slots__ = ("_begun", "_calls", "_detail", "_id", "_made", "_model", "_stop", "_usage")

    def __init__(self, bounds: ResponseBounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._begun = False
        self._id = ""
        self._model = ""
        self._usage = _Usage()
        self._stop: str | None = None
        self._detail = ""
        self._made: list[Grown | bytes] = []
        self._calls: list[Call] = []

    def _take(self, payload: Payload) -> None:
        self._add(payload.data)

    def _whole(self, body: bytes) -> None:
        chunk = _chunk(body)
        if chunk.candidates is None and chunk.prompt_feedback is None and not present(chunk.error):
            self._end(foreign_fault(body, "candidates"))
            return
        self._add(body)
        if not self._over:
            self._finish()

    def _add(self, data: bytes) -> None:
        chunk = _chunk(data)
        if present(chunk.error):
            self._end(stream_fault(msgspec.Raw(data)))
            return
        self._id = chunk.response_id or self._id
        self._model = chunk.model_version or self._model
        self._usage = chunk.usage_metadata or self._usage
        if not self._begun:
            self._begun = True
            self._out.append(Began(self._id, self._model, _count(self._usage)))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._stop = "SAFETY"
            self._detail = chunk.prompt_feedback.block_reason
        for candidate in (chunk.candidates or ())[:1]:
            self._choose(candidate)

    def _choose(self, candidate: _Candidate) -> None:
        self._stop = candidate.finish_reason or self._stop
        self._detail = candidate.finish_message or candidate.finish_reason or self._detail
        if candidate.content is None or not present(candidate.content.parts):
            return
        for part in list_of(candidate.content.parts):
            self._part(part)

    def _part(self, part: msgspec.Raw) -> None:
        fields = fields_of(part)
        if "functionCall" in fields:
            self._begin_part()
            self._made.append(self._call(fields))
            return
        if "text" not in fields:
            self._begin_part()
            self._made.append(tidy(part))
            return
        text, thought = string(fields["text"]), bytes(fields.get("thought", _NONE)) == _TRUE
        if not thought:
            fields.pop("thought", None)
        if text:
            self._out.append(ThinkingPiece(text) if thought else TextPiece(text))
        if fields.keys() - {"text", "thought"}:
            # A signature belongs to this part, so nothing is added to it.
            self._begin_part()
            self._made.append(tidy(part))
            return
        last = self._made[-1] if self._made else None
        if isinstance(last, Grown) and ("thought" in last.fields) == thought:
            last.add("text", text)
        elif text:
            self._begin_part()
            self._made.append(Grown(fields))

    def _call(self, fields: Fields) -> bytes:
        """Take a call, which comes whole; one without an id is given one."""
        called = fields_of(fields["functionCall"])
        name, given = string(called.get("name")), string(called.get("id"))
        if not given:
            given = f"{self._id or 'call'}.{len(self._calls)}"
            called["id"] = raw(given)
        said, sent = arguments(bytes(called.get("args", b"{}")).decode())
        called["args"] = sent
        call = Call(call_id(name, given), name, said)
        self._calls.append(call)
        self._out.append(CallBegan(call.id, name))
        self._out.append(CallPiece(call.id, said))
        fields["functionCall"] = raw(called)
        return tidy(dump(fields))

    def _finish(self) -> None:
        if self._stop is None:
            self._end(broken("truncated", "the stream ended before the reply was whole"))
            return
        parts = [
            tidy(dump(part.done())) if isinstance(part, Grown) else part for part in self._made
        ]
        reply = reply_of(parts, stop=_STOPS.get(self._stop, "other"))
        if not reply.calls and not reply.text.strip():
            # Thinking that led to nothing is not sent back.
            reply = msgspec.structs.replace(reply, blocks=(), text="", thinking="")
        self._end(
            Ended(
                reply=reply,
                usage=_count(self._usage),
                id=self._id,
                model=self._model,
                stop_detail=self._detail,
            )
        )


def _count(usage: _Usage) -> Usage:
    read = usage.cached_content_token_count or 0
    asked = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    thoughts = usage.thoughts_token_count or 0
    return Usage(
        # The count of the prompt includes what was read; what is not told of was not read.
        uncached=max(0, asked - read),
        read=read,
        output=(usage.candidates_token_count or 0) + thoughts,
        reasoning=thoughts,
    )
