"""The lines of a journal, as values and as bytes.

A line is `{"crc":"xxxxxxxx",` and the rest of a JSON object. The checksum covers that rest and is
seeded with the checksum of the line before, so a changed byte, a missing line, a doubled line and
lines in another order are all found. It is the first member, at a fixed place, so that checking
a line needs no JSON.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias
from zlib import crc32

import msgspec

from prong.cost import Charge
from prong.entry import EntryKind, Role
from prong.foreign_json import NOT_JSON
from prong.wire import NO_MARK, HeadSpec
from prong.wire.raw import dump

VERSION = 1
"""The version of the format that this program writes, and the newest it reads."""

_LEAD = b'{"crc":"'
_ROOM = 200
_BODY_AT = len(_LEAD) + 8 + len('",')


FIRST_LINE = 65_536
"""Bytes that the first line may have at most: it holds the path of a folder, escaped."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="open"):
    """First line of a journal."""

    version: int = VERSION
    session: str
    created: float
    """Seconds since the epoch."""
    cwd: str
    program: str = ""
    """The version of the program that began the journal."""
    forked_from: str = ""
    """The session this one was branched off."""
    inherited: int = 0
    """How many lines after this one were copied from there; what they cost was paid there."""


class HeadRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="head"):
    """An agent starts a prompt with a head that the journal has not seen."""

    agent: str
    """Empty if a `tip` will say whose it is, once the entries after it are stored too."""
    digest: str
    dialect: str
    explicit: bool
    mark_at: int
    positions: int
    reason: str = ""
    """Why a new head."""
    at: float = 0.0
    spec: HeadSpec
    data: str
    """The head's bytes; a string, since they are JSON that is not closed."""


class EntryRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="entry"):
    """An agent's prompt grows by one entry, from a prompt that the journal has seen."""

    agent: str
    """Empty as in a head."""
    parent: str
    """Digest of the prompt it extends: an earlier entry's, or a head's."""
    digest: str
    kind: EntryKind
    role: Role
    mark_at: int = NO_MARK
    positions: int
    at: float = 0.0
    data: msgspec.Raw
    """The entry's bytes, see `wrap`."""


class TipRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="tip"):
    """An agent's prompt is now one that the journal has seen: a fork's base, or a step back."""

    agent: str
    digest: str
    reason: str = ""
    at: float = 0.0


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session so far, so that a list of sessions need not read all of each."""

    entries: int = 0
    cost: float = 0.0
    """In dollars; requests of unknown price are left out."""
    unpriced: bool = False
    """Whether there are such requests."""
    about: str = ""
    """The first words of the user."""
    title: str = ""
    model: str = ""


def charged(tally: Tally, row: Charge) -> Tally:
    """Add a request to a tally."""
    cost, unpriced = tally.cost + (row.cost or 0.0), tally.unpriced or row.cost is None
    return msgspec.structs.replace(tally, cost=cost, unpriced=unpriced)


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="request"):
    """A request was answered."""

    at: float = 0.0
    row: Charge
    tally: Tally = Tally()


class NoteRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="note"):
    """A value that is worth keeping beside the conversation, see `prong.journal.note`."""

    agent: str
    name: str
    at: float = 0.0
    value: msgspec.Raw


class Foreign(msgspec.Struct, frozen=True):
    """A sound line of a kind this program does not know; it is passed over."""

    k: str


Record: TypeAlias = Opened | HeadRecord | EntryRecord | TipRecord | RequestRecord | NoteRecord

_KINDS = {"open", "head", "entry", "tip", "request", "note"}
_encoder = msgspec.json.Encoder()


def seal(record: Record, chain: int) -> tuple[bytes, int]:
    """Make the line of a record, newline included, and the checksum that seeds the next."""
    return reseal(dump(record)[1:], chain)


def reseal(body: bytes, chain: int) -> tuple[bytes, int]:
    """Make a line of what stands after the checksum of another."""
    assert b"\n" not in body, "a record is one line"
    chain = crc32(body, chain)
    return b'%s%08x",%s\n' % (_LEAD, chain, body), chain


def body_of(line: bytes) -> bytes:
    """Give what stands after the checksum."""
    return line[_BODY_AT:]


def check(line: bytes, chain: int) -> int | None:
    """Give a line's checksum if the line, without its newline, is sound; None if not."""
    found = crc32(memoryview(line)[_BODY_AT:], chain)
    return found if line[:_BODY_AT] == b'%s%08x",' % (_LEAD, found) else None


@cache
def _decoder() -> msgspec.json.Decoder[Record]:
    # Made when a journal is first read: a new session only writes.
    return msgspec.json.Decoder(Record)


def decode(line: bytes) -> Record | Foreign:
    """Read a line as a record; raises `msgspec.MsgspecError` if it is none."""
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError:
        foreign = msgspec.json.decode(line, type=Foreign)
        if foreign.k in _KINDS:
            raise
        return foreign


def wrap(data: bytes) -> msgspec.Raw:
    """Make a JSON value of an entry's bytes, verbatim between brackets wherever they allow it."""
    value = b"[%s]" % data
    if b"\n" not in data and _is_json(value):
        return msgspec.Raw(value)
    return msgspec.Raw(_encoder.encode(data.decode()))


def unwrap(value: msgspec.Raw) -> bytes:
    """Give back the bytes that `wrap` was given."""
    raw = bytes(value)
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str).encode()
    return raw[1:-1]


def _is_json(value: bytes) -> bool:
    # How deep a value may nest depends on how deep the reader's stack is; this leaves it room.
    try:
        msgspec.json.decode(b"[" * _ROOM + value + b"]" * _ROOM, type=msgspec.Raw)
    except NOT_JSON:
        return False
    return True


def is_unused(data: bytes) -> bool:
    """Whether the first bytes of a file are at most a piece of a first line: nothing is stored."""
    return b"\n" not in data and check(data, 0) is None and len(data) < FIRST_LINE
