"""The items of a conversation, as values that belong to no vendor.

An entry is what is appended to a prompt. It is turned into wire bytes once, by a dialect, and from
then on the bytes are the truth; `Reply` therefore carries the provider's own blocks untouched next
to the plain view of them.
"""

from __future__ import annotations

from typing import Literal, NewType, TypeAlias

import msgspec

CallId = NewType("CallId", str)
"""A tool call's id, as the provider gave it."""

Role: TypeAlias = Literal["user", "assistant"]
"""Whose turn an entry belongs to."""

EntryKind: TypeAlias = Literal[
    "user", "reply", "results", "notice", "directive", "summary", "reminder"
]
"""What an entry is; kept beside the bytes so that nobody has to guess it from text."""

StopReason: TypeAlias = Literal["end", "calls", "length", "refusal", "pause", "other"]
"""Why a reply ended, in one vocabulary for all vendors."""


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture, base64-encoded."""

    media_type: str
    data: str


Part: TypeAlias = Text | Image
"""What a user turn or a tool result is made of."""


class User(msgspec.Struct, frozen=True):
    """Something put before the model in the user's role."""

    parts: tuple[Part, ...]
    kind: Literal["user", "notice", "directive", "summary", "reminder"] = "user"

    @property
    def text(self) -> str:
        """All of it as text."""
        return plain(self.parts)


class Call(msgspec.Struct, frozen=True):
    """One tool call of a reply."""

    id: CallId
    name: str
    arguments: str
    """The argument object as JSON text, as it came; may be malformed if the reply was cut off."""


class Result(msgspec.Struct, frozen=True):
    """The answer to one tool call."""

    call_id: CallId
    parts: tuple[Part, ...]
    failed: bool = False

    @property
    def text(self) -> str:
        """All of it as text."""
        return plain(self.parts)


class Results(msgspec.Struct, frozen=True):
    """The answers to all calls of one reply, in call order."""

    results: tuple[Result, ...]


class Reply(msgspec.Struct, frozen=True):
    """One reply of the model."""

    blocks: tuple[bytes, ...]
    """The provider's own blocks or items as JSON, exactly as they came."""
    dialect: str
    """Which dialect the blocks are in; another dialect renders text and calls anew."""
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop: StopReason = "end"


Entry: TypeAlias = User | Results | Reply


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one request in one normal form; the input counts do not overlap."""

    uncached: int = 0
    """Input tokens that were neither read from nor written to the cache."""
    read: int = 0
    """Input tokens read from the cache."""
    written_5m: int = 0
    written_1h: int = 0
    written_30m: int = 0
    written_12h: int = 0
    output: int = 0
    """Output tokens, reasoning included."""
    reasoning: int = 0
    """The part of the output that was reasoning, where the provider tells."""
    silent: bool = False
    """Whether the provider told nothing of its cache: then what was read is not known."""
    searches: int = 0
    """Searches of the web that the provider made, which are paid for by themselves."""

    @property
    def written(self) -> int:
        """Input tokens written to the cache, whatever their time to live."""
        return self.written_5m + self.written_1h + self.written_30m + self.written_12h

    @property
    def input(self) -> int:
        """All input tokens."""
        return self.uncached + self.read + self.written

    def __add__(self, other: Usage) -> Usage:
        """Sum two usages field by field; what is not known of a part is not known of the sum."""
        return Usage(
            self.uncached + other.uncached,
            self.read + other.read,
            self.written_5m + other.written_5m,
            self.written_1h + other.written_1h,
            self.written_30m + other.written_30m,
            self.written_12h + other.written_12h,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.silent or other.silent,
            self.searches + other.searches,
        )


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it."""

    name: str
    description: str
    schema: msgspec.Raw
    """The JSON schema of its arguments, encoded once."""


def kind_of(entry: Entry) -> EntryKind:
    """Say what an entry is."""
    match entry:
        case User(kind=kind):
            return kind
        case Results():
            return "results"
        case Reply():
            return "reply"


def role_of(entry: Entry) -> Role:
    """Say in whose turn an entry stands."""
    return "assistant" if isinstance(entry, Reply) else "user"


def user_text(text: str) -> User:
    """Make a user entry of one text."""
    return User((Text(text),))


def plain(parts: tuple[Part, ...]) -> str:
    """Join the text of parts, naming pictures."""
    return "\n".join(p.text if isinstance(p, Text) else f"[{p.media_type}]" for p in parts)
