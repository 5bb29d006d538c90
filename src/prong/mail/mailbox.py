"""The file of what was sent to one member: how it is written, read once, and kept small.

The first line is a header with the file's generation. Who reads keeps a cursor, and stores it
in the very record that keeps the mail; nothing in the file says what was read. A box that is read
to its end and large is put aside as `NAME.jsonl.1` and begun anew, one generation on.

A cursor knows the bytes before it. If they are no longer there (the file was restored, edited, or
cut by a loss of power after a mail was read and before it was synced) the box is read from its
beginning, and what the reader knows by its id is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from prong.errors import JournalFull, NotPossibleNow
from prong.journal.record import check, reseal
from prong.mail.authority import EVERYONE, may
from prong.mail.body import Mail, MailBody
from prong.mail.locked_file import append, locked, open_file, sync_folder, write_whole
from prong.mail.signed_line import LINE_LIMIT, VERSION, Unsound, claimed_sender, is_signed, sign
from prong.wire.raw import dump

ROTATE_OVER = 1_048_576
"""Bytes past which a box that is read to its end is begun anew."""
BATCH = 4 * LINE_LIMIT
"""Bytes that are read at once."""
ASIDE_LIMIT = 1_048_576
"""Bytes past which nothing more is kept of what is set aside; it is told nevertheless."""
_KEPT = 4_096
_CHECKED = 64


class Cursor(msgspec.Struct, frozen=True):
    """How far a box was read; to be stored together with what was read."""

    generation: int = 0
    offset: int = 0
    check: int = 0
    """Of the bytes before it."""


class SetAside(msgspec.Struct, frozen=True):
    """A piece of a box that is no mail, and why."""

    generation: int
    offset: int
    length: int
    why: str
    sender: str = ""
    """Whose it claims to be, if that much can be read."""


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


class _AsideRecord(msgspec.Struct, frozen=True, kw_only=True):
    what: SetAside
    data: str


Keys = Callable[[str], bytes | None]
"""Gives the key of whoever has one in the team."""


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
        generation = 1
        with suppress(FileNotFoundError):
            generation = _generation(self.path) + 1
        write_whole(self.path, self._header(generation))
        for old in (self._previous, self._aside):
            old.unlink(missing_ok=True)

    def line(self, mail: Mail, key: bytes) -> bytes:
        """Make the line of a mail in this box; raises BadInput if it is too long."""
        line = _MailLine(id=mail.id, sender=mail.sender, to=mail.to, at=mail.at, body=mail.body)
        return sign(line, key=key, team=self._team, place=self._place)

    def read(self, cursor: Cursor, keys: Keys, known: Collection[str] = ()) -> MailBatch:
        """Read on from a cursor; what is no mail is set aside.

        `known` are the ids that the reader has; they are left out.
        """
        current = _generation(self.path)
        notes: list[str] = []
        path = self.path
        if 0 < cursor.generation < current:
            before = _generation(self._previous) if self._previous.exists() else 0
            if before == cursor.generation:
                path = self._previous
            else:
                cursor = Cursor(current)
        fd = open_file(path, os.O_RDONLY)
        try:
            start, again = _start(fd, cursor), False
            if start is None:
                start, again = 0, True
                notes.append(
                    f"{path} is not what it was when it was last read; "
                    f"it was read again from its beginning"
                )
            generation = cursor.generation if path != self.path else current
            scan = _Scan(fd, start, generation)
            batch = self._sort(scan, keys, known, again=again)
            cursor, more = scan.cursor(), scan.more
        finally:
            os.close(fd)
        if path != self.path and not more:
            cursor, more = Cursor(current), True
        mails, damaged = batch
        return MailBatch(mails=mails, damaged=damaged, notes=tuple(notes), cursor=cursor, more=more)

    def prune(self, cursor: Cursor) -> bool:
        """Begin the box anew if it is large and was read to its end; the cursor must be stored."""
        if self.path.stat().st_size <= ROTATE_OVER:
            return False
        with locked(self.path) as fd:
            size = os.fstat(fd).st_size
            generation = _generation(self.path)
            if size != cursor.offset or generation != cursor.generation:
                return False
            if _start(fd, cursor) is None:
                return False
            new = self.path.with_name(f".{self.path.name}.next")
            write_whole(new, self._header(generation + 1))
            self._previous.unlink(missing_ok=True)
            # At every moment there is a box under its name, and what was read is somewhere.
            os.link(self.path, self._previous)
            new.replace(self.path)
        sync_folder(self.path.parent)
        return True

    @property
    def _previous(self) -> Path:
        return self.path.with_name(f"{self.path.name}.1")

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self._name}.aside.jsonl")

    def _header(self, generation: int) -> bytes:
        return reseal(dump(_BoxHeader(box=self._place, generation=generation))[1:], 0)[0]

    def _sort(
        self, scan: _Scan, keys: Keys, known: Collection[str], *, again: bool
    ) -> tuple[tuple[tuple[Mail, Cursor], ...], tuple[SetAside, ...]]:
        mails: list[tuple[Mail, Cursor]] = []
        damaged: list[tuple[SetAside, bytes]] = []
        found = set[str]()
        held = dict[str, bytes | None]()
        for offset, line in scan:
            if offset == 0 and _is_header(line):
                continue
            sender = ""
            try:
                sender = claimed_sender(line)
                if sender not in held:
                    held[sender] = keys(sender)
                mail = self._proved(line, held[sender])
            except Unsound as error:
                what = SetAside(scan.generation, offset, len(line), str(error), sender)
                damaged.append((what, line))
                continue
            if mail.id not in found and mail.id not in known:
                found.add(mail.id)
                mails.append((mail, scan.cursor()))
            elif not again:
                why = f"a mail with its id {mail.id} was there before"
                damaged.append((SetAside(scan.generation, offset, len(line), why, sender), line))
        return tuple(mails), self._set_aside(damaged, again=again)

    def _proved(self, line: bytes, key: bytes | None) -> Mail:
        if key is None or not is_signed(line, key=key, team=self._team, place=self._place):
            raise Unsound("it is not signed by whom it names")
        try:
            found = msgspec.json.decode(line, type=_MailLine)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unsound(f"it is not understood ({error})") from error
        if found.to not in {self._name, EVERYONE}:
            raise Unsound(f"it is addressed to {found.to}")
        if why := may(found.body, found.sender, found.to):
            raise Unsound(why)
        return Mail(id=found.id, sender=found.sender, to=found.to, at=found.at, body=found.body)

    def _set_aside(
        self, damaged: list[tuple[SetAside, bytes]], *, again: bool
    ) -> tuple[SetAside, ...]:
        if not damaged:
            return ()
        there = self._kept_aside()
        new = [(what, line) for what, line in damaged if what not in there]
        with suppress(OSError, JournalFull, NotPossibleNow):
            # What cannot be kept beside still stands in the box, and is told.
            fd = os.open(
                self._aside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            os.close(fd)
            with locked(self._aside) as fd:
                for what, line in new:
                    if os.fstat(fd).st_size > ASIDE_LIMIT:
                        break
                    data = line[:_KEPT].decode("utf-8", "backslashreplace")
                    record = dump(_AsideRecord(what=what, data=data)) + b"\n"
                    append(fd, self._aside, record)
        return tuple(what for what, _ in (new if again else damaged))

    def _kept_aside(self) -> set[SetAside]:
        found = set[SetAside]()
        try:
            fd = open_file(self._aside, os.O_RDONLY)
        except (FileNotFoundError, NotPossibleNow):
            return found
        with os.fdopen(fd, "rb") as file:
            for line in file:
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    found.add(msgspec.json.decode(line, type=_AsideRecord).what)
        return found


class _Scan:
    """The whole lines of a file from an offset on, up to a bound, without their newlines."""

    def __init__(self, fd: int, start: int, generation: int) -> None:
        self.generation = generation
        self.more = False
        self._fd = fd
        self._offset = start

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        until = self._offset + BATCH
        at, data = self._offset, b""
        while True:
            piece = os.pread(self._fd, LINE_LIMIT, at)
            if not piece:
                return
            at += len(piece)
            *lines, data = (data + piece).split(b"\n")
            for line in lines:
                offset = self._offset
                self._offset = offset + len(line) + 1
                yield offset, line
                if self._offset >= until:
                    self.more = True
                    return

    def cursor(self) -> Cursor:
        """Say where the last line ended."""
        return Cursor(self.generation, self._offset, _check(self._fd, self._offset))


def _check(fd: int, offset: int) -> int:
    start = max(0, offset - _CHECKED)
    return crc32(os.pread(fd, offset - start, start))


def _start(fd: int, cursor: Cursor) -> int | None:
    """Give where to read on; None if what stood before it does so no longer."""
    if cursor.offset == 0:
        return 0
    return cursor.offset if _check(fd, cursor.offset) == cursor.check else None


def _is_header(line: bytes) -> bool:
    if check(line, 0) is None:
        return False
    try:
        msgspec.json.decode(line, type=_BoxHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _generation(path: Path) -> int:
    """Read the generation of a box; 0 if its header is damaged."""
    fd = open_file(path, os.O_RDONLY)
    try:
        line = os.pread(fd, 4_096, 0).partition(b"\n")[0]
    finally:
        os.close(fd)
    return msgspec.json.decode(line, type=_BoxHeader).generation if _is_header(line) else 0
