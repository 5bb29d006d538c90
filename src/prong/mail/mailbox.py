"""The file of what was sent to one member: how it is written, read once, and kept small.

The first line is a header with the file's generation. Who reads keeps a cursor, and stores it
in the very record that keeps the mail; nothing in the file says what was read. A box that is read
to its end and large is put aside as `NAME.jsonl.1` and begun anew, one generation on.

A cursor knows the bytes before it. If they are no longer there (the file was restored, edited, or
cut by a loss of power after a mail was read and before it was synced) the box is read from its
beginning, and what the reader knows by its id is left out. So is a line that somebody copied:
ids begin with the sender's name, and nobody can use up another's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

import msgspec

from prong.errors import NotPossibleNow
from prong.foreign_json import NOT_JSON
from prong.journal.record import check, reseal
from prong.mail.aside import AsideFile, SetAside
from prong.mail.authority import EVERYONE, may
from prong.mail.body import Mail, MailBody
from prong.mail.keyring import Keyring, Verifier
from prong.mail.line_scan import Cursor, LineScan, stands
from prong.mail.locked_file import locked, open_file, write_whole
from prong.mail.signed_line import LINE_LIMIT, VERSION, Unsound, sign
from prong.system.descriptor import read_at
from prong.wire.raw import dump

ROTATE_OVER = 1_048_576
"""Bytes past which a box that is read to its end is begun anew."""
_HEADER_LIMIT = 4_096
_ID = re.compile(r"[0-9a-f]{16,64}")


class MailBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a box."""

    mails: tuple[tuple[Mail, Cursor], ...] = ()
    """Each with the cursor to store once it is kept."""
    damaged: tuple[SetAside, ...] = ()
    """What is no mail; kept in `NAME.aside.jsonl`."""
    notes: tuple[str, ...] = ()
    """What is wrong with the box as a whole."""
    cursor: Cursor
    """Where to go on, damaged lines at the end included."""
    more: bool = False
    """Whether there is more to read at once."""


class _BoxHeader(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    box: str
    generation: int


class _MailLine(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    id: str
    sender: str = msgspec.field(name="from")
    to: str
    at: float
    body: MailBody


class Mailbox:
    """The box of one member."""

    def __init__(self, folder: Path, name: str, team: str) -> None:
        """Name the box of a member; nothing is touched."""
        self.path = folder / "inbox" / f"{name}.jsonl"
        self._name = name
        self._team = team
        self._place = f"inbox/{name}"

    def create(self) -> None:
        """Begin a box, or begin one anew that was another member's of that name."""
        if not self.path.exists():
            write_whole(self.path, self._header(1))
            return
        with locked(self.path) as fd:
            self._replace(max(_generation(fd), 0) + 1)
        self._previous.unlink(missing_ok=True)
        self._aside.path.unlink(missing_ok=True)

    def line(self, mail: Mail, key: bytes) -> bytes:
        """Make the line of a mail in this box; raises BadInput if it is too long."""
        line = _MailLine(id=mail.id, sender=mail.sender, to=mail.to, at=mail.at, body=mail.body)
        return sign(line, key=key, team=self._team, place=self._place)

    def read(self, cursor: Cursor, keys: Keyring, known: Container[str] = ()) -> MailBatch:
        """Read on from a cursor; what is no mail is set aside.

        `known` holds the ids of mails and of damaged pieces that the reader has; they are left out.
        Raises FileNotFoundError, and NotPossibleNow if the file cannot be used.
        """
        fd = open_file(self.path, os.O_RDONLY)
        try:
            generation = _generation(fd)
            current = cursor.generation in {0, generation} or generation == _UNKNOWN
            if current and stands(fd, cursor):
                begun = max(generation, cursor.generation)
                return self._read(LineScan(fd, cursor, begun), keys, known)
            if (batch := self._read_previous(cursor, generation, keys, known)) is not None:
                return batch
            note = (
                f"{self.path} is not what it was when it was last read; it was read again from "
                f"its beginning"
            )
            begun = max(generation, 0)
            batch = self._read(LineScan(fd, Cursor(), begun), keys, known)
            return msgspec.structs.replace(batch, notes=(note,))
        finally:
            os.close(fd)

    def prune(self, cursor: Cursor) -> bool:
        """Begin the box anew if it is large and was read to its end; the cursor must be stored."""
        if self.path.stat().st_size <= ROTATE_OVER:
            return False
        with locked(self.path) as fd:
            read = os.fstat(fd).st_size == cursor.offset and stands(fd, cursor)
            if not read or _generation(fd) not in {cursor.generation, _UNKNOWN}:
                return False
            self._previous.unlink(missing_ok=True)
            # At every moment there is a box under its name, and what was read is somewhere.
            os.link(self.path, self._previous)
            self._replace(cursor.generation + 1)
        return True

    @property
    def files(self) -> tuple[Path, ...]:
        """Where its mail is: what waits, and what was read before the box was begun anew."""
        return tuple(path for path in (self.path, self._previous) if path.exists())

    @property
    def _previous(self) -> Path:
        return self.path.with_name(f"{self._name}.jsonl.1")

    @property
    def _aside(self) -> AsideFile:
        return AsideFile(self.path.with_name(f"{self._name}.aside.jsonl"))

    def _replace(self, generation: int) -> None:
        for torn in self.path.parent.glob(f".{self.path.name}.*"):
            torn.unlink(missing_ok=True)
        write_whole(self.path, self._header(generation))

    def _header(self, generation: int) -> bytes:
        return reseal(dump(_BoxHeader(box=self._place, generation=generation))[1:], 0)[0]

    def _read_previous(
        self, cursor: Cursor, generation: int, keys: Keyring, known: Container[str]
    ) -> MailBatch | None:
        """Read the rest of the box before this one, if that is where the cursor stands."""
        try:
            fd = open_file(self._previous, os.O_RDONLY)
        except (FileNotFoundError, NotPossibleNow):
            return None
        try:
            there = _generation(fd)
            known_place = there == cursor.generation or (there == _UNKNOWN and cursor.offset)
            if not known_place or not stands(fd, cursor):
                return None
            batch = self._read(LineScan(fd, cursor, cursor.generation), keys, known)
        finally:
            os.close(fd)
        if batch.more:
            return batch
        return msgspec.structs.replace(batch, cursor=Cursor(max(generation, 0)), more=True)

    def _read(self, scan: LineScan, keys: Keyring, known: Container[str]) -> MailBatch:
        mails: list[tuple[Mail, Cursor]] = []
        damaged: list[tuple[SetAside, bytes]] = []
        found = set[str]()
        verifier = Verifier(keys, team=self._team, place=self._place)
        for offset, length, line in scan:
            if not line or (offset == 0 and _header_of(line) is not None):
                continue
            try:
                mail = self._proved(line, length, verifier)
            except Unsound as error:
                what = SetAside.of(scan.generation, offset, length, line, str(error))
                damaged.append((what, line))
                continue
            if mail.id not in found and mail.id not in known:
                found.add(mail.id)
                mails.append((mail, scan.cursor))
        if damaged:
            self._aside.add(damaged)
        return MailBatch(
            mails=tuple(mails),
            damaged=tuple(what for what, _ in damaged if what.id not in known),
            cursor=scan.cursor,
            more=scan.more,
        )

    def _proved(self, line: bytes, length: int, verifier: Verifier) -> Mail:
        if length >= LINE_LIMIT:
            raise Unsound(f"it has {length:,} bytes, and at most {LINE_LIMIT:,} are allowed")
        sender = verifier.sender(line)
        try:
            found = msgspec.json.decode(line, type=_MailLine)
        except NOT_JSON as error:
            raise Unsound(f"it is not understood ({error})") from error
        if found.to not in {self._name, EVERYONE}:
            raise Unsound(f"it is addressed to {found.to[:40]!r}")
        name, _, rest = found.id.partition(".")
        if name != sender or not _ID.fullmatch(rest):
            raise Unsound(f"its id {found.id[:40]!r} is not one of {sender}")
        if why := may(found.body, sender, found.to if found.to == EVERYONE else self._name):
            raise Unsound(why)
        return Mail(id=found.id, sender=sender, to=found.to, at=found.at, body=found.body)


_UNKNOWN = -1
"""The generation of a box whose header is damaged."""


def _header_of(line: bytes) -> _BoxHeader | None:
    if check(line, 0) is None:
        return None
    with suppress(*NOT_JSON):
        return msgspec.json.decode(line, type=_BoxHeader)
    return None


def _generation(fd: int) -> int:
    line = read_at(fd, _HEADER_LIMIT, 0).partition(b"\n")[0]
    header = _header_of(line)
    return _UNKNOWN if header is None else header.generation
