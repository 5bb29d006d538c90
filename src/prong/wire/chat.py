"""OpenAI's Chat Completions API, and everything that calls itself compatible with it.

Two forms: with `explicit` marks (OpenAI's newer models) content is an array of parts so that a mark
can stand on one; without, text is a plain string, which every server understands. The form is
chosen once per conversation and never flips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from prong.wire.raw import EMPTY, Fields, arguments, dump, fields_of, kept, merge, string

THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")
"""The fields in which compatible servers put a reply's thinking."""

_PICTURES: Final = "Pictures from call "


class _Url(msgspec.Struct):
    url: str = ""


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""
    image_url: _Url | None = None


class _Message(msgspec.Struct):
    """A message that `encode` made of a user entry or of results."""

    role: str
    content: str | list[_Part] = ""
    tool_call_id: str = ""


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct):
    id: str = ""
    function: _Function = msgspec.field(default_factory=_Function)


class _Reply(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


_messages = msgspec.json.Decoder(list[_Message]).decode
_reply = msgspec.json.Decoder(_Reply).decode


class Chat(OpenAI, frozen=True):
    """The Chat Completions API."""

    @property
    def name(self) -> str:
        """Name it."""
        return "chat"

    def path(self, model: str, *, stream: bool) -> str:
        """Say where requests go, below the base URL."""
        del model, stream
        return "/chat/completions"

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, ending inside the array of messages."""
        keyed = spec.cache_key and self.explicit
        return self._head(spec, {"prompt_cache_key": spec.cache_key} if keyed else {})

    def _head(self, spec: HeadSpec, more: Mapping[str, Any]) -> Encoded:
        fields: dict[str, Any] = {"model": spec.model}
        if spec.tools:
            fields["tools"] = [{"type": "function", "function": function(t)} for t in spec.tools]
        if spec.effort is not None:
            fields["reasoning_effort"] = spec.effort
        fields |= more
        texts = [Text(text) for text in spec.system if text.strip()]
        system = self._message("system", texts, joint="\n\n")
        return self.opened(merge(fields, spec.extra), b"messages", system, len(texts))

    def encode(self, entry: Entry) -> Encoded:
        """Render one entry, without glue."""
        match entry:
            case User(parts):
                data = self._message("user", kept(parts))
                return Encoded(data, self.mark_at(data))
            case Results(results) if results:
                data = b",".join(self._results(results))
                return Encoded(data, self.mark_at(data))
            case Results():
                return self.encode(User(()))
            case Reply():
                native = entry.dialect == "chat" and entry.blocks
                data = b",".join(entry.blocks) if native else _foreign(entry)
                return Encoded(data, NO_MARK)

    def close(self, role: Role | None) -> bytes:
        """Give the bytes that end the array of messages; without any entry it gets a constant."""
        return self._message("user", (Text(EMPTY),)) + b"]" if role is None else b"]"

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of messages to the final brace."""
        del spec
        fields = self._streaming(tail)
        # There is no pre-warm here: the shortest reply comes nearest to it.
        limit = 1 if tail.prewarm else tail.max_tokens
        if limit is not None:
            fields["max_completion_tokens" if self.explicit else "max_tokens"] = limit
        return ended(merge(fields, tail.extra))

    def _streaming(self, tail: Tail) -> dict[str, Any]:
        if not tail.stream or tail.prewarm:
            return {}
        return {"stream": True, "stream_options": {"include_usage": True}}

    def read(self, role: Role, data: bytes) -> Entry:
        """Turn what `encode` made back into an entry; the kind of a user entry is lost."""
        if role == "assistant":
            return reply_of(data)
        first, *more = _messages(b"[" + data + b"]")
        if first.role != "tool":
            return User(_parts_of(first.content))
        pictures = _pictures_of(more[-1]) if more and more[-1].role == "user" else {}
        tools = [message for message in (first, *more) if message.role == "tool"]
        return Results(tuple(_result_of(m, pictures.get(m.tool_call_id, ())) for m in tools))

    def decoder(self, bounds: ResponseBounds = BOUNDS) -> Decoder:
        """Make a decoder for one response."""
        from prong.wire.chat_stream import ChatStream

        return ChatStream(bounds)

    def _message(self, role: str, parts: Sequence[Part], *, joint: str = "\n") -> bytes:
        return dump({"role": role, "content": self._content(parts, joint)})

    def _content(self, parts: Sequence[Part], joint: str) -> Any:
        texts = [part.text for part in parts if isinstance(part, Text)]
        if not self.explicit and len(texts) == len(parts):
            return joint.join(texts)
        return [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "image_url", "image_url": {"url": data_url(part)}}
            for part in parts
        ]

    def _results(self, results: Iterable[Result]) -> list[bytes]:
        """Render results; a tool message holds only text, so pictures follow in a user message."""
        messages: list[bytes] = []
        pictures: list[Part] = []
        for result in results:
            parts = kept(result.parts)
            images = [part for part in parts if isinstance(part, Image)]
            texts = [part for part in parts if isinstance(part, Text)]
            if result.failed:
                texts.insert(0, Text(FAILED))
            if images:
                pictures += [Text(_PICTURES + result.call_id), *images]
            content = self._content(texts or [Text(EMPTY)], "\n")
            fields = {"role": "tool", "tool_call_id": result.call_id, "content": content}
            messages.append(dump(fields))
        if pictures:
            messages.append(self._message("user", pictures))
        return messages


def reply_of(message: bytes, *, stop: StopReason = "end") -> Reply:
    """View a reply's message plainly."""
    fields = fields_of(message)
    view = _reply(message)
    calls = tuple(
        Call(CallId(call.id), call.function.name, call.function.arguments)
        for call in view.tool_calls or ()
    )
    if stop in {"end", "calls"}:
        stop = "calls" if calls else "refusal" if view.refusal else "end"
    return Reply(
        blocks=(message,),
        dialect="chat",
        text=(view.content or "") + (view.refusal or ""),
        thinking=thinking_of(fields),
        calls=calls,
        stop=stop,
    )


def thinking_of(fields: Fields) -> str:
    """Give a message's thinking; servers that say it twice say the same."""
    return next((text for key in THOUGHTS if (text := string(fields.get(key)))), "")


def _foreign(reply: Reply) -> bytes:
    """Render another vendor's reply, or an empty one; foreign thinking means nothing here."""
    text = reply.text if reply.text.strip() else None
    fields: dict[str, Any] = {"role": "assistant", "content": text}
    if reply.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": bytes(arguments(call.arguments)[1]).decode(),
                },
            }
            for call in reply.calls
        ]
    elif text is None:
        fields["content"] = EMPTY
    return dump(fields)


def _parts_of(content: str | list[_Part]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(image_of(p.image_url.url) if p.image_url else Text(p.text) for p in content)


def _pictures_of(message: _Message) -> dict[str, list[Image]]:
    pictures: dict[str, list[Image]] = {}
    call_id = ""
    for part in _parts_of(message.content):
        if isinstance(part, Text):
            call_id = part.text.removeprefix(_PICTURES)
        else:
            pictures.setdefault(call_id, []).append(part)
    return pictures


def _result_of(message: _Message, pictures: Sequence[Image]) -> Result:
    content = message.content
    texts, failed = result_parts(content if isinstance(content, str) else _parts_of(content))
    if pictures and texts == (Text(EMPTY),):
        texts = ()
    return Result(CallId(message.tool_call_id), (*texts, *pictures), failed=failed)
