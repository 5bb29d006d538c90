"""A line that proves who wrote it, for which file of which team.

    {"crc":"xxxxxxxx","mac":"64 hex digits",REST

`crc` covers what stands after it and finds damage without a key. `mac` is HMAC-SHA256 with the
writer's key over the team's name, a newline, the file's place in the team's folder without its
ending (`inbox/ann`), a newline, and REST: a line that was copied into another box or another team
is not signed there. Both have fixed places, so that checking them needs no JSON.
"""

from __future__ import annotations

import hmac

import msgspec

from prong.errors import BadInput
from prong.foreign_json import NOT_JSON
from prong.journal.record import body_of, check, reseal
from prong.wire.raw import dump

VERSION = 1
"""Of the lines that this program writes, and the newest it reads."""

LINE_LIMIT = 1_048_576
"""Bytes that a line may have, its newline included."""


_SHOWN = 200
_LEAD = b'"mac":"'
_REST_AT = len(_LEAD) + 64 + len('",')


class Unsound(ValueError):
    """A line is damaged, not signed by whom it names, or not understood; says which."""

    def __init__(self, why: str) -> None:
        """Say it in a short line: what is wrong may have been chosen by whoever wrote it."""
        shown = "".join(char if char.isprintable() else "?" for char in why[:_SHOWN])
        super().__init__(shown if len(why) <= _SHOWN else f"{shown}…")


class _SenderClaim(msgspec.Struct, frozen=True):
    v: int
    sender: str = msgspec.field(name="from")


def sign(value: msgspec.Struct, *, key: bytes, team: str, place: str) -> bytes:
    """Make the line of a value, newline included.

    Raises:
        BadInput: It would be too long.

    """
    rest = dump(value)[1:]
    line, _ = reseal(b'%s%s",%s' % (_LEAD, _mac(rest, key, team, place), rest), 0)
    if len(line) > LINE_LIMIT:
        raise BadInput(
            f"this is {len(line):,} bytes as a line, and {LINE_LIMIT:,} is the most that can be "
            f"sent at once; write it to a file and send its path"
        )
    return line


def claimed_sender(line: bytes) -> str:
    """Say whose a line claims to be, newline left out; raises Unsound if it is damaged or newer."""
    if check(line, 0) is None:
        raise Unsound("its checksum does not match")
    try:
        claim = msgspec.json.decode(line, type=_SenderClaim)
    except NOT_JSON as error:
        raise Unsound(f"it is not understood ({error})") from error
    if claim.v > VERSION:
        raise Unsound(f"a newer Prong wrote it (version {claim.v}, this one reads {VERSION})")
    return claim.sender


def is_signed(line: bytes, *, key: bytes, team: str, place: str) -> bool:
    """Whether the owner of a key wrote a line, for this place."""
    body = body_of(line)
    rest = body[_REST_AT:]
    found = b'%s%s",' % (_LEAD, _mac(rest, key, team, place))
    return hmac.compare_digest(body[:_REST_AT], found)


def _mac(rest: bytes, key: bytes, team: str, place: str) -> bytes:
    # Names hold no newline, so that no two triples give the same bytes.
    message = b"%s\n%s\n%s" % (team.encode(), place.encode(), rest)
    return hmac.digest(key, message, "sha256").hex().encode()
