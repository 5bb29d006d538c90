"""Google's Gemini API: entries to bytes and back.

Consecutive entries of one role share one content, as at Anthropic; an entry is a run of parts. The
model stands in the address, and what says how to pick words stands behind the conversation: neither
is part of the bytes that forks share.

A result is found by its call's id and by the function's name, and an entry knows only the id. So
an id here is both: `Read~abc`. Ids that other vendors gave are sent with `=` before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

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
from prong.wire.dialect import (
    BOUNDS,
    NO_MARK,
    Decoder,
    Encoded,
    HeadSpec,
    ResponseBounds,
    Tail,
    Ttl,
)
from prong.wire.fault import read_fault
from prong.wire.raw import EMPTY, arguments, dump, kept, list_of, members, merge, tidy

_PICTURES: Final = "Pictures from call "
_JOINT: Final = "~"
_FOREIGN: Final = "="
_UNSIGNED: Final = "skip_thought_signature_validator"
"""What the vendor wants in place of a signature on calls that another vendor's model has made."""
_NAME: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
_CONFIG: Final = frozenset(
    {
        "candidateCount", "frequencyPenalty", "mediaResolution", "presencePenalty",
        "responseJsonSchema", "responseMimeType", "responseSchema", "seed", "stopSequences",
        "temperature", "thinkingConfig", "topK", "topP",
    }
)  # fmt: skip
"""Fields that stand in the configuration of a request and not in the request itself."""
_LEVELS: Final = {"none": "minimal", "xhigh": "high", "max": "high"}
"""Efforts that only other vendors' models know, as the nearest that there is here."""
_BUDGETS: Final = {"minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576}
"""Efforts in tokens, for models that know no others."""
_ROLES: Final[dict[Role, bytes]] = {"user": b"user", "assistant": b"model"}


class _Data(msgspec.Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _Called(msgspec.Struct, rename={"arguments": "args"}):
    name: str = ""
    id: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Answered(msgspec.Struct):
    id: str = ""
    name: str = ""
    response: dict[str, str | list[str]] = {}


class _Part(msgspec.Struct, rename="camel"):
    """The fields of any part that the plain view needs."""

    text: str | None = None
    thought: bool = False
    inline_data: _Data | None = None
    function_call: _Called | None = None
    function_response: _Answered | None = None


_part = msgspec.json.Decoder(_Part).decode
_parts = msgspec.json.Decoder(list[_Part]).decode


class Gemini(msgspec.Struct, frozen=True):
    """The generateContent API."""

    @property
    def name(self) -> str:
        """Name it."""
        return "gemini"

    def path(self, model: str, *, stream: bool) -> str:
        """Say where requests go, below the base URL, which may name another version."""
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:{verb}"

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, ending inside the array of contents."""
        fields: dict[str, Any] = {}
        if texts := [{"text": text} for text in spec.system if text.strip()]:
            fields["systemInstruction"] = {"parts": texts}
        if spec.tools:
            told = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parametersJsonSchema": msgspec.Raw(tidy(tool.schema)),
                }
                for tool in spec.tools
            ]
            fields["tools"] = [{"functionDeclarations": told}]
        merge(fields, {key: one for key, one in spec.extra.items() if key not in _CONFIG})
        opening = b"{" + members(fields) + b"," if fields else b"{"
        return Encoded(opening + b'"contents":[', NO_MARK, 1)

    def encode(self, entry: Entry) -> Encoded:
        """Render one entry, without glue."""
        match entry:
            case User(parts):
                found = [_written(part) for part in kept(parts)]
            case Results(results):
                found = _results(results)
            case Reply(dialect="gemini"):
                found = list(entry.blocks)
            case Reply():
                found = _foreign(entry)
        return Encoded(b",".join(found or [_written(Text(EMPTY))]), NO_MARK)

    def glue(self, before: Role | None, role: Role) -> bytes:
        """Give the bytes between two entries; entries of one role share a content."""
        if before == role:
            return b","
        opening = b'{"role":"%s","parts":[' % _ROLES[role]
        return opening if before is None else b"]}," + opening

    def close(self, role: Role | None) -> bytes:
        """Give the bytes that end the array of contents; without any entry it gets a constant."""
        if role is None:
            return self.glue(None, "user") + _written(Text(EMPTY)) + b"]}]"
        return b"]}]"

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of contents to the final brace."""
        config = _config(spec) if spec is not None else {}
        # There is no pre-warm here: the shortest reply comes nearest to it.
        limit = 1 if tail.prewarm else tail.max_tokens
        if limit is not None:
            config["maxOutputTokens"] = limit
        fields: dict[str, Any] = {"generationConfig": config} if config else {}
        rest = members(merge(fields, tail.extra))
        return b"," + rest + b"}" if rest else b"}"

    def mark(self, ttl: Ttl | None) -> bytes:
        """Give nothing: what was read is kept by itself."""
        del ttl
        return b""

    def read(self, role: Role, data: bytes) -> Entry:
        """Turn what `encode` made back into an entry; the kind of a user entry is lost."""
        array = b"[" + data + b"]"
        if role == "assistant":
            return reply_of([bytes(part) for part in list_of(array)])
        views = _parts(array)
        if any(view.function_response is not None for view in views):
            return Results(tuple(_results_of(views)))
        return User(tuple(_part_of(view) for view in views))

    def decoder(self, bounds: ResponseBounds = BOUNDS) -> Decoder:
        """Make a decoder for one response."""
        from prong.wire.gemini_stream import GeminiStream

        return GeminiStream(bounds)

    def fault(self, status: int, body: bytes) -> tuple[str, str]:
        """Read an error response: the provider's kind and message."""
        return read_fault(status, body)


def reply_of(parts: list[bytes], *, stop: StopReason = "end") -> Reply:
    """View a reply's parts plainly."""
    text: list[str] = []
    thinking: list[str] = []
    calls: list[Call] = []
    for data in parts:
        view = _part(data)
        if view.function_call is not None:
            called = view.function_call
            calls.append(Call(call_id(called.name, called.id), called.name, _said(called)))
        elif view.text is not None:
            (thinking if view.thought else text).append(view.text)
    if stop in {"end", "calls"}:
        stop = "calls" if calls else "end"
    return Reply(
        blocks=tuple(parts),
        dialect="gemini",
        text="".join(text),
        thinking="".join(thinking),
        calls=tuple(calls),
        stop=stop,
    )


def call_id(name: str, given: str) -> CallId:
    """Make the id of a call from the function's name and the id that is on the wire."""
    foreign = given.startswith(_FOREIGN)
    return CallId(given[1:] if foreign else f"{name}{_JOINT}{given}")


def _wired(one: CallId) -> tuple[str, str]:
    """Take the id of a call apart: the function's name, and the id as it is on the wire."""
    name, joint, given = one.partition(_JOINT)
    if joint and not _NAME.search(name):
        return name, given
    # The name is not known, and is found by the id; it must still be a name.
    return _NAME.sub("_", one)[:64] or "_", _FOREIGN + one


def _said(called: _Called) -> str:
    return bytes(called.arguments).decode()


def _config(spec: HeadSpec) -> dict[str, Any]:
    """Give what a head asks for that does not stand in it."""
    config: dict[str, Any] = {key: one for key, one in spec.extra.items() if key in _CONFIG}
    if (thinking := _thinking(spec)) and "thinkingConfig" not in config:
        config["thinkingConfig"] = thinking
    return config


def _thinking(spec: HeadSpec) -> dict[str, Any]:
    levels = re.search(r"gemini-[12](?!\d)", spec.model) is None
    config: dict[str, Any] = {}
    if spec.thinking is False:
        return {"thinkingLevel": "minimal"} if levels else {"thinkingBudget": 0}
    if spec.thinking is not None:
        config["includeThoughts"] = True
    if spec.thinking is not None and spec.thinking is not True:
        config["thinkingBudget"] = spec.thinking
    elif spec.effort is not None:
        config |= _effort(_LEVELS.get(spec.effort, spec.effort), levels=levels)
    return config


def _effort(word: str, *, levels: bool) -> dict[str, Any]:
    """Ask for an effort: by its word, or by its tokens if it has any."""
    if levels:
        return {"thinkingLevel": word}
    return {"thinkingBudget": _BUDGETS[word]} if word in _BUDGETS else {}


def _written(part: Part) -> bytes:
    if isinstance(part, Text):
        return dump({"text": part.text})
    return dump({"inlineData": {"mimeType": part.media_type, "data": part.data}})


def _results(results: Iterable[Result]) -> list[bytes]:
    """Render results; pictures follow behind all of them, because a response holds only values."""
    found: list[bytes] = []
    pictures: list[Part] = []
    for result in results:
        parts = kept(result.parts)
        images = [part for part in parts if isinstance(part, Image)]
        texts = [part.text for part in parts if isinstance(part, Text)] or [EMPTY]
        if images:
            pictures += [Text(_PICTURES + result.call_id), *images]
        name, given = _wired(result.call_id)
        key = "error" if result.failed else "output"
        told = {key: texts[0] if len(texts) == 1 else texts}
        found.append(dump({"functionResponse": {"id": given, "name": name, "response": told}}))
    return found + [_written(part) for part in pictures]


def _foreign(reply: Reply) -> list[bytes]:
    """Render another vendor's reply; its thinking means nothing here."""
    parts = [_written(Text(reply.text))] if reply.text.strip() else []
    for number, call in enumerate(reply.calls):
        name, given = _wired(call.id)
        fields: Mapping[str, Any] = {
            "id": given if name == call.name else _FOREIGN + call.id,
            "name": call.name,
            "args": arguments(call.arguments)[1],
        }
        signed = {} if number else {"thoughtSignature": _UNSIGNED}
        parts.append(dump({"functionCall": fields, **signed}))
    return parts


def _part_of(view: _Part) -> Part:
    if view.inline_data is not None:
        return Image(view.inline_data.mime_type, view.inline_data.data)
    return Text(view.text or "")


def _results_of(views: Iterable[_Part]) -> list[Result]:
    found: dict[CallId, tuple[list[Part], bool]] = {}
    pictured: list[Part] = []
    for view in views:
        answered = view.function_response
        if answered is not None:
            told = answered.response.get("error", answered.response.get("output", ""))
            texts = [told] if isinstance(told, str) else told
            parts: list[Part] = [Text(text) for text in texts]
            found[call_id(answered.name, answered.id)] = parts, "error" in answered.response
        elif isinstance(part := _part_of(view), Text):
            pictured = found[CallId(part.text.removeprefix(_PICTURES))][0]
            if pictured == [Text(EMPTY)]:
                pictured.clear()
        else:
            pictured.append(part)
    return [Result(one, tuple(parts), failed=failed) for one, (parts, failed) in found.items()]
