"""What every vendor's wire format provides.

A dialect is pure: values to bytes, bytes to values, no I/O. A request body is

    head ++ delta ++ delta ++ ... ++ close ++ tail

where `head` ends inside the array of messages, each `delta` starts with the glue that its role and
the role before it demand, `close` ends the array, and `tail` holds what does not belong to the
prompt (stream, max_tokens, diagnostics) and ends the object. Marks are bytes put in at offsets that
the dialect named when it encoded a block; they are no part of the head or of any delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from prong.entry import CallId, Entry, Reply, Role, ToolSpec, Usage

Ttl: TypeAlias = Literal["5m", "1h", "30m", "12h"]
"""How long a cache entry lives after its last use."""

NO_MARK = -1
"""The mark offset of bytes on which no cache mark may stand."""


class HeadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a request that affects the prompt and stands before the conversation."""

    model: str
    system: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    thinking: bool | int | None = None
    """None: the model's default; True: adaptive; a number: a budget in tokens; False: off."""
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further prompt-affecting fields, sent as they are (tool_choice, temperature, speed...)."""
    betas: tuple[str, ...] = ()
    cache_key: str = ""
    """One per fork family; used by the OpenAI dialects."""
    explicit_marks: bool = True
    """Whether the model understands cache marks; decides the block form of the chat dialect."""


class Encoded(msgspec.Struct, frozen=True):
    """Bytes, the place in them where a cache mark may be put, and how many positions they add."""

    data: bytes
    mark_at: int = NO_MARK
    """Offset of the byte before which a mark goes: the `}` of the last block that may carry one."""
    positions: int = 1
    """Cache look-back positions: a run of calls, or of results, is one."""


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says besides its prompt."""

    stream: bool = True
    max_tokens: int | None = None
    """None leaves it to the provider where that is allowed."""
    previous_id: str | None = None
    """The provider's id of the reply before, for its cache diagnostics."""
    prewarm: bool = False
    """Only fill the cache: no output."""
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further fields that do not affect the prompt."""


class ResponseBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much one response may hold.

    Far more than any model writes: what goes beyond is a broken or a hostile server, and is
    neither stored nor asked for again.
    """

    event: int = 16 << 20
    """Bytes of one event, from its first line to the blank one."""
    response: int = 128 << 20
    """Bytes of the whole response, keep-alives included and compression undone."""
    text: int = 16 << 20
    """Characters of text, thinking and arguments together."""
    events: int = 2_000_000
    calls: int = 1_000
    parts: int = 65_536
    """Blocks, items and list elements of which the reply is put together."""


BOUNDS = ResponseBounds()


class Began(msgspec.Struct, frozen=True):
    """The response has begun: from here on its cache entries can be read."""

    id: str
    model: str
    usage: Usage = Usage()
    """What the provider has counted by now, where it tells so early."""


class TextPiece(msgspec.Struct, frozen=True):
    """More of the reply's text."""

    text: str


class ThinkingPiece(msgspec.Struct, frozen=True):
    """More of the reply's thinking, or of its summary."""

    text: str


class CallBegan(msgspec.Struct, frozen=True):
    """A tool call has begun."""

    id: CallId
    name: str


class CallPiece(msgspec.Struct, frozen=True):
    """More of a tool call's argument text."""

    id: CallId
    text: str


class Ended(msgspec.Struct, frozen=True):
    """The reply is whole."""

    reply: Reply
    usage: Usage
    id: str = ""
    """The provider's id of the reply."""
    model: str = ""
    """The model that answered, as the provider names it."""
    diagnostics: bytes = b""
    """The provider's own cache diagnostics as JSON, where it gave any."""
    stop_detail: str = ""
    """The provider's own word for why it stopped, with an explanation of a refusal if given."""


class Fault(msgspec.Struct, frozen=True):
    """The stream carried an error, or ended or continued in a way that makes no sense."""

    kind: str
    message: str
    retryable: bool


WireEvent: TypeAlias = Began | TextPiece | ThinkingPiece | CallBegan | CallPiece | Ended | Fault


def join_pieces(events: Iterable[WireEvent]) -> list[WireEvent]:
    """Make one piece of texts that came together: nobody sees them one after the other."""
    joined: list[WireEvent] = []
    for kind, run in groupby(events, type):
        if kind is TextPiece:
            joined.append(TextPiece(_text(run)))
        elif kind is ThinkingPiece:
            joined.append(ThinkingPiece(_text(run)))
        else:
            joined += run
    return joined


def _text(pieces: Iterable[WireEvent]) -> str:
    return "".join(one.text for one in pieces if isinstance(one, TextPiece | ThinkingPiece))


class Decoder(Protocol):
    """Turns one response into events; bytes may be cut anywhere."""

    def feed(self, data: bytes) -> list[WireEvent]:
        """Take more bytes of a streamed response."""
        ...

    def close(self) -> list[WireEvent]:
        """Say that no more comes; a reply that is not whole is a `Fault`."""
        ...

    def whole(self, body: bytes) -> list[WireEvent]:
        """Decode a response that was not streamed."""
        ...


class Dialect(Protocol):
    """One vendor's wire format."""

    @property
    def name(self) -> str:
        """Name it, as `prong.wire.dialect` is asked for it."""
        ...

    def path(self, model: str, *, stream: bool) -> str:
        """Say where requests for a model go, below the base URL."""
        ...

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, ending inside the array of messages."""
        ...

    def encode(self, entry: Entry) -> Encoded:
        """Render one entry, without glue."""
        ...

    def glue(self, before: Role | None, role: Role) -> bytes:
        """Give the bytes between two entries; `before` is None at the head."""
        ...

    def close(self, role: Role | None) -> bytes:
        """Give the bytes that end the array of messages after an entry of that role."""
        ...

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of messages to the final brace.

        What the head's spec asks for stands here where the vendor has it in one object with what
        does not belong to the prompt.
        """
        ...

    def mark(self, ttl: Ttl | None) -> bytes:
        """Give the bytes of a cache mark; None is the vendor's default time to live."""
        ...

    def read(self, role: Role, data: bytes) -> Entry:
        """Turn what `encode` made back into an entry; the kind of a user entry is lost."""
        ...

    def decoder(self, bounds: ResponseBounds = ...) -> Decoder:
        """Make a decoder for one response, which is a `Fault` if it goes beyond the bounds."""
        ...

    def fault(self, status: int, body: bytes) -> tuple[str, str]:
        """Read an error response: the provider's kind and message."""
        ...
