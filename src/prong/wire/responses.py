"""OpenAI's Responses API: entries to bytes and back.

Every entry is a run of input items of its own. A user entry is always a new message: the boundary
of a cached message must not move because something was added to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from prong.entry import (
    Call,
    CallId,
    Entry,
    Image,
    Part,
    Reply,
    Result,
    Results,
    Role,
    StopReason,
    Text,
    User,
)
from prong.wire.dialect import BOUNDS, NO_MARK, Decoder, Encoded, HeadSpec, ResponseBounds, Tail
from prong.wire.openai import FAILED, OpenAI, data_url, ended, function, image_of, result_parts
from prong.wire.raw import EMPTY, dump, kept, list_of, merge

_FEWEST_TOKENS: Final = 16
"""The smallest reply the API lets one ask for."""


class _Piece(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""
    image_url: str = ""


class _Item(msgspec.Struct):
    """The fields of a known item that the plain view needs."""

    type: str = "message"
    role: str = ""
    content: str | list[_Piece] | None = None
    summary: list[_Piece] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    encrypted_content: str | None = None


class _Kind(msgspec.Struct):
    type: str = "message"


class _Input(msgspec.Struct):
    """An item that `encode` made of a user entry or of results."""

    type: str
    content: list[_Piece] = msgspec.field(default_factory=list[_Piece])
    call_id: str = ""
    output: str | list[_Piece] = ""


_kind = msgspec.json.Decoder(_Kind).decode
_known = msgspec.json.Decoder(_Item).decode
_inputs = msgspec.json.Decoder(list[_Input]).decode


class Responses(OpenAI, frozen=True):
    """The Responses API; with marks come a pre-warm and diagnostics."""

    @property
    def name(self) -> str:
        """Name it."""
        return "responses"

    def path(self, model: str, *, stream: bool) -> str:
        """Say where requests go, below the base URL."""
        del model, stream
        return "/responses"

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, the system texts as a developer message."""
        fields: dict[str, Any] = {"model": spec.model}
        if spec.tools:
            fields["tools"] = [
                {"type": "function", **function(tool), "strict": False} for tool in spec.tools
            ]
        if reasoning := _reasoning(spec):
            fields["reasoning"] = reasoning
        fields["store"] = False
        fields["include"] = ["reasoning.encrypted_content"]
        if spec.cache_key:
            fields["prompt_cache_key"] = spec.cache_key
        texts = [Text(text) for text in spec.system if text.strip()]
        system = _message("developer", texts)
        return self.opened(merge(fields, spec.extra), b"input", system, len(texts))

    def encode(self, entry: Entry) -> Encoded:
        """Render one entry, without glue."""
        match entry:
            case User(parts):
                data = _message("user", kept(parts))
                return Encoded(data, self.mark_at(data))
            case Results(results) if results:
                data = b",".join(self._result(result) for result in results)
                return Encoded(data, self.mark_at(data) if data.endswith(b"]}") else NO_MARK)
            case Results():
                return self.encode(User(()))
            case Reply():
                items = entry.blocks if entry.dialect == self.name else _foreign(entry)
                items = items or (_said(EMPTY),)
                return Encoded(b",".join(items), NO_MARK, len(items))

    def close(self, role: Role | None) -> bytes:
        """Give the bytes that end the array of items; without any entry it gets a constant."""
        return _message("user", (Text(EMPTY),)) + b"]" if role is None else b"]"

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of items to the final brace."""
        del spec
        fields: dict[str, Any] = {}
        options: dict[str, Any] = {}
        if tail.prewarm and self.explicit:
            options["prewarm"] = True
        elif tail.prewarm:
            fields["max_output_tokens"] = _FEWEST_TOKENS
        else:
            if tail.stream:
                fields["stream"] = True
            if tail.max_tokens is not None:
                fields["max_output_tokens"] = tail.max_tokens
        if tail.previous_id is not None and self.explicit:
            options["comparison_response_id"] = tail.previous_id
        if options:
            fields["prompt_cache_options"] = options
        return ended(merge(fields, tail.extra))

    def read(self, role: Role, data: bytes) -> Entry:
        """Turn what `encode` made back into an entry; the kind of a user entry is lost."""
        array = b"[" + data + b"]"
        if role == "assistant":
            return reply_of([bytes(item) for item in list_of(array)])
        items = _inputs(array)
        if items[0].type == "function_call_output":
            return Results(tuple(_result_of(item) for item in items))
        return User(_parts_of(items[0].content))

    def decoder(self, bounds: ResponseBounds = BOUNDS) -> Decoder:
        """Make a decoder for one response."""
        from prong.wire.responses_stream import ResponsesStream

        return ResponsesStream(bounds)

    def _result(self, result: Result) -> bytes:
        parts = kept(result.parts)
        if result.failed:
            parts = (Text(FAILED), *parts)
        if self.explicit or any(isinstance(part, Image) for part in parts):
            output: Any = _content(parts)
        else:
            output = "\n".join(part.text for part in parts if isinstance(part, Text))
        item = {"type": "function_call_output", "call_id": result.call_id, "output": output}
        return dump(item)


def reply_of(items: list[bytes], *, stop: StopReason = "end") -> Reply:
    """View a reply's items plainly."""
    text: list[str] = []
    thinking: list[str] = []
    calls: list[Call] = []
    refused = False
    for data in items:
        item = _view(data)
        if item.type == "message":
            for piece in _pieces(item.content):
                text.append(piece.text or piece.refusal)
                refused = refused or piece.type == "refusal"
        elif item.type == "reasoning":
            thinking += [p.text for p in (*(item.summary or ()), *_pieces(item.content))]
        elif item.type == "function_call":
            calls.append(Call(CallId(item.call_id), item.name, item.arguments or "{}"))
    if stop in {"end", "calls"}:
        stop = "calls" if calls else "refusal" if refused else "end"
    return Reply(
        blocks=tuple(items),
        dialect="responses",
        text="".join(text),
        thinking="\n\n".join(thinking),
        calls=tuple(calls),
        stop=stop,
    )


def _pieces(content: str | list[_Piece] | None) -> list[_Piece]:
    return [_Piece("output_text", content)] if isinstance(content, str) else content or []


def sendable(items: list[bytes]) -> list[bytes]:
    """Drop or mend what the API would refuse to see again.

    Nothing is stored on the server, so reasoning that carries neither its encrypted nor its plain
    content is only an id that nobody knows; and reasoning must be followed by what it led to. A
    message that does not say who speaks is said anew.
    """
    views = [(_spoken(data, item), item) for data in items for item in [_view(data)]]
    some = [
        (data, item)
        for data, item in views
        if item.type != "reasoning" or item.encrypted_content or item.content
    ]
    while some and some[-1][1].type == "reasoning":
        some.pop()
    return [data for data, _ in some]


def _spoken(data: bytes, item: _Item) -> bytes:
    if item.type != "message" or item.role == "assistant":
        return data
    content = msgspec.json.decode(data)["content"] if item.content else EMPTY
    return dump({"type": "message", "role": "assistant", "content": content})


def _view(data: bytes) -> _Item:
    """View one item; of a kind that is not known nothing but the kind is relied on."""
    kind = _kind(data).type
    return _known(data) if kind in {"message", "reasoning", "function_call"} else _Item(kind)


def _reasoning(spec: HeadSpec) -> dict[str, Any]:
    reasoning: dict[str, Any] = {}
    if spec.effort is not None:
        reasoning["effort"] = spec.effort
    if spec.thinking is not False and (spec.effort is not None or spec.thinking is not None):
        reasoning["summary"] = "auto"
    return reasoning


def _content(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [
        {"type": "input_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "detail": "auto", "image_url": data_url(part)}
        for part in parts
    ]


def _message(role: str, parts: Iterable[Part]) -> bytes:
    return dump({"type": "message", "role": role, "content": _content(parts)})


def _said(text: str) -> bytes:
    return dump({"type": "message", "role": "assistant", "content": text})


def _foreign(reply: Reply) -> tuple[bytes, ...]:
    """Render another vendor's reply; its thinking means nothing here."""
    said = (_said(reply.text),) if reply.text.strip() else ()
    calls = (
        dump(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments or "{}",
            }
        )
        for call in reply.calls
    )
    return (*said, *calls)


def _parts_of(pieces: Iterable[_Piece]) -> tuple[Part, ...]:
    return tuple(
        image_of(piece.image_url) if piece.type == "input_image" else Text(piece.text)
        for piece in pieces
    )


def _result_of(item: _Input) -> Result:
    output = item.output
    parts, failed = result_parts(output if isinstance(output, str) else _parts_of(output))
    return Result(CallId(item.call_id), parts, failed=failed)
