"""A request in the normal form that the cache, the witness and the checks share.

Whatever the API, a prompt is a sequence of blocks in the order tools, system, messages. A block
keeps the raw JSON bytes the client sent, less its cache mark: the mark's member is cut out exactly,
with one comma, so that a block with a mark and the same block without one have the same bytes.
Nothing is decoded and encoded again, hence whitespace, key order, escapes and the difference
between `"content": "x"` and `"content": [{...}]` all count, as they may at the real thing.

Tokens are counted as ceil(bytes / 4) of a block's raw bytes; a picture is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import msgspec

Section: TypeAlias = Literal["tools", "system", "messages"]
"""Where in the prompt a block stands."""

Api: TypeAlias = Literal["anthropic", "responses", "chat", "gemini"]
"""Which API a request speaks."""

SECTIONS: tuple[Section, ...] = ("tools", "system", "messages")

IMAGE_TOKENS = 1500
"""What a picture counts, whatever its size."""

Counter: TypeAlias = Callable[[bytes], int]
"""Counts the tokens of a block's bytes."""

Members: TypeAlias = dict[str, msgspec.Raw]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()
_NOTHING = msgspec.Raw()
_SPACE = b" \t\r\n"


class Refused(Exception):
    """The request is answered with an error status."""

    def __init__(self, status: int, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.kind = kind
        self.message = message


class Mark(msgspec.Struct, frozen=True):
    """A cache mark."""

    ttl: str | None = None
    """As asked for; None is the API's default."""


class Block(msgspec.Struct, frozen=True):
    """One block of a prompt."""

    section: Section
    role: str
    kind: str
    raw: bytes
    """The bytes less the mark."""
    tokens: int
    where: str
    """The path of the block in the body, e.g. `messages.3.content.0`."""
    item: int = 0
    """The number of the message or item it belongs to."""
    mark: Mark | None = None
    opens: bytes = b""
    """What stands between this block and the one before and is part of the key."""
    digest: bytes = b""
    """Of all of the above that is part of the key."""


class Param(msgspec.Struct, frozen=True):
    """A setting that is part of the cache key from a section on."""

    section: Section
    name: str
    value: bytes


class Request(msgspec.Struct, frozen=True):
    """A request in normal form."""

    api: Api
    model: str
    blocks: tuple[Block, ...]
    params: tuple[Param, ...]
    fields: Members
    """The body's members, undecoded."""
    headers: Mapping[str, str]

    @property
    def tokens(self) -> int:
        """Count the tokens of the whole prompt."""
        return sum(block.tokens for block in self.blocks)

    @property
    def stream(self) -> bool:
        """Say whether a stream was asked for."""
        return self.field("stream") is True

    @property
    def last_text(self) -> str:
        """The text of the last block that is not the model's own."""
        for block in reversed(self.blocks):
            if block.section == "messages" and block.role != "assistant":
                return block_text(block.raw)
        return ""

    def field(self, name: str, default: Any = None) -> Any:
        """Decode one member of the body."""
        raw = self.fields.get(name)
        return default if raw is None else _any.decode(raw)

    def object(self, name: str) -> dict[str, Any]:
        """Decode a member that is an object; one that is missing or null is empty.

        Raises:
            Refused: it is something else.

        """
        value = self.field(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise invalid(f"{name}: Input should be a valid dictionary")
        return value  # pyright: ignore[reportUnknownVariableType] # foreign JSON

    @property
    def body(self) -> Any:
        """Decode the whole body."""
        return {name: _any.decode(raw) for name, raw in self.fields.items()}


def block_text(raw: bytes) -> str:
    """Join all texts of a block, results included."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for one in value:  # pyright: ignore[reportUnknownVariableType] # foreign JSON
                yield from walk(one)
        elif isinstance(value, dict):
            for key in ("text", "content", "functionResponse", "response", "output", "error"):
                yield from walk(value.get(key))  # pyright: ignore[reportUnknownMemberType] # foreign JSON

    return "\n".join(walk(_any.decode(raw)))


def count_bytes(raw: bytes) -> int:
    """Count tokens: a quarter of the bytes, rounded up."""
    return -(-len(raw) // 4)


def object_members(raw: bytes | msgspec.Raw, where: str) -> Members:
    """Read an object's members without decoding them."""
    try:
        return _members.decode(raw)
    except msgspec.DecodeError as error:
        raise invalid(f"{where}: Input should be a valid dictionary ({error})") from error


def array_items(raw: bytes | msgspec.Raw, where: str) -> list[msgspec.Raw]:
    """Read an array's items without decoding them."""
    try:
        return _array.decode(raw)
    except msgspec.DecodeError as error:
        raise invalid(f"{where}: Input should be a valid list ({error})") from error


def invalid(message: str) -> Refused:
    """Make the refusal of a malformed request."""
    return Refused(400, "invalid_request_error", message)


def is_string(raw: msgspec.Raw) -> bool:
    """Say whether raw JSON is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def text_of(raw: msgspec.Raw | None) -> str:
    """Decode a string; anything else is empty."""
    if raw is None or not is_string(raw):
        return ""
    return str(_any.decode(raw))


def unmark(raw: bytes, members: Members, name: str) -> bytes:
    """Cut a member out of an object's bytes, with one comma, and leave all else as it is."""
    if name not in members:
        return raw
    spans = list(_spans(raw, members))
    place = list(members).index(name)
    start, end = spans[place]
    if place:
        start = spans[place - 1][1]
    elif len(spans) > 1:
        end = spans[1][0]
    return raw[:start] + raw[end:]


def _spans(raw: bytes, members: Members) -> Iterator[tuple[int, int]]:
    """Give where each member begins and ends; the lengths of the values are known already."""
    at = _skip(raw, raw.index(b"{") + 1)
    for value in members.values():
        start = at
        at += 1
        while raw[at] != 0x22:
            at += 2 if raw[at] == 0x5C else 1
        at = _skip(raw, at + 1)
        at = _skip(raw, at + 1)
        size = memoryview(value).nbytes
        if raw[at : at + size] != bytes(value):
            raise invalid("a block repeats one of its keys")
        yield start, at + size
        at = _skip(raw, at + size)
        at = _skip(raw, at + 1)


def _skip(raw: bytes, at: int) -> int:
    while at < len(raw) and raw[at] in _SPACE:
        at += 1
    return at


class _AnthropicLead(msgspec.Struct, rename={"mark": "cache_control"}):
    """What is wanted of a block at once; reading only this is quicker than all its members."""

    type: msgspec.Raw = _NOTHING
    mark: msgspec.Raw = _NOTHING


class _OpenaiLead(msgspec.Struct, rename={"mark": "prompt_cache_breakpoint"}):
    type: msgspec.Raw = _NOTHING
    mark: msgspec.Raw = _NOTHING


_LEADS: dict[str, msgspec.json.Decoder[_AnthropicLead] | msgspec.json.Decoder[_OpenaiLead]] = {
    "cache_control": msgspec.json.Decoder(_AnthropicLead),
    "prompt_cache_breakpoint": msgspec.json.Decoder(_OpenaiLead),
}


class Blocks:
    """Collects the blocks of one request."""

    def __init__(self, mark_name: str, count: Counter, pool: dict[bytes, bytes]) -> None:
        self.blocks: list[Block] = []
        self.pictures = 0
        """How many pictures there are."""
        self._mark_name = mark_name
        self._lead = _LEADS[mark_name]
        self._count = count
        self._pool = pool

    def add(
        self,
        section: Section,
        role: str,
        raw: msgspec.Raw | bytes,
        where: str,
        *,
        item: int = 0,
        opens: bytes = b"",
        bare: bool = False,
    ) -> None:
        """Add one block, taking its mark off; `bare` says that it is a string, not an object."""
        data = bytes(raw)
        kind, mark = "text", None
        if data[:1] == b"{":
            try:
                lead = self._lead.decode(data)
            except msgspec.DecodeError as error:
                raise invalid(f"{where}: Input should be a valid dictionary ({error})") from error
            kind = text_of(lead.type) or ("tool" if section == "tools" else "item")
            if lead.mark != _NOTHING:
                mark = _mark(lead.mark)
                data = unmark(data, object_members(data, where), self._mark_name)
        elif not bare:
            raise invalid(f"{where}: Input should be a valid dictionary")
        tokens, pictures = _weigh(kind, data, self._count)
        self.pictures += pictures
        key = blake2b(b"%s\0%s\0%s\0" % (section.encode(), role.encode(), opens), digest_size=16)
        key.update(data)
        digest = key.digest()
        data = self._pool.setdefault(digest, data)
        self.blocks.append(
            Block(section, role, kind, data, tokens, where, item, mark, opens, digest)
        )

    def add_all(self, section: Section, role: str, raw: msgspec.Raw | None, where: str) -> None:
        """Add a string, or every item of an array."""
        if raw is None or bytes(raw) == b"null":
            return
        if is_string(raw) and section == "system":
            self.add(section, role, raw, where, bare=True)
            return
        for index, one in enumerate(array_items(raw, where)):
            self.add(section, role, one, f"{where}.{index}")


def _mark(raw: msgspec.Raw) -> Mark | None:
    if bytes(raw) == b"null":
        return None
    value = _any.decode(raw)
    ttl = value.get("ttl") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # foreign JSON
    return Mark(ttl if isinstance(ttl, str) else None)


_PICTURES = frozenset({"image", "input_image", "image_url"})


def _pictures(raw: bytes) -> tuple[int, int]:
    """Count the pictures inside a result, and their bytes."""
    if b"image" not in raw:
        return 0, 0
    members = _members.decode(raw)
    content = members.get("content") or members.get("output")
    if content is None or bytes(memoryview(content)[:1]) != b"[":
        return 0, 0
    inner = [bytes(one) for one in _array.decode(content)]
    found = [one for one in inner if text_of(_members.decode(one).get("type")) in _PICTURES]
    return len(found), sum(map(len, found))


def _weigh(kind: str, raw: bytes, count: Counter) -> tuple[int, int]:
    """Count a block's tokens, pictures at their constant, and its pictures."""
    if kind in _PICTURES:
        return IMAGE_TOKENS, 1
    if kind in ("tool_result", "function_call_output"):
        number, size = _pictures(raw)
        if number:
            return count(raw) - size // 4 + number * IMAGE_TOKENS, number
    return count(raw), 0
