"""Writes a session to disk, line by line, and never touches what is there.

A record is on its way to the disk when the call that writes it returns: it survives the death of
the process from then on, and the loss of power once `sync` has returned. What cannot be written
whole is taken back, so the file ends with a whole line whatever happens to the writer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from prong.closable import Closable
from prong.cost import Charge
from prong.entry import EntryKind, User
from prong.errors import JournalError, JournalFull, NoSuchSession, SessionEnded
from prong.journal.lock import create_file, holder, lock, remedy
from prong.journal.note import Begun, Note, encode_note
from prong.journal.record import (
    NoteRecord,
    Opened,
    Record,
    RequestRecord,
    Tally,
    TipRecord,
    body_of,
    charged,
    decode,
    reseal,
    seal,
)
from prong.journal.replay import Lines, Replay, noted, read_journal
from prong.journal.transfer import Dialects, entry_record, head_record
from prong.prompt import Head, Node, Prompt
from prong.system.descriptor import open_own, sync
from prong.system.held_folder import HeldFolder
from prong.wire import dialect

_ABOUT_LENGTH = 200


class Journal(Closable):
    """The one writer of a session's journal."""

    def __init__(
        self,
        path: Path,
        fd: int,
        opened: Opened,
        clock: Callable[[], float],
        tally: Tally | None = None,
    ) -> None:
        """Use `create` or `resume` instead: they take the lock."""
        self.path = path
        self.opened = opened
        self._fd = fd
        self._clock = clock
        self._tally = tally or Tally()
        self._chain = 0
        # Invariant: the first _length bytes of the file are whole lines, and _chain is the
        # checksum of the last of them. What lies beyond, if _dirty, is to be cut off.
        self._length = 0
        self._dirty = False
        # Invariant: the first _safe bytes survive a loss of power.
        self._safe = -1
        self._syncing = anyio.Lock(fast_acquire=True)
        # Held until the first sync, which may come when every other descriptor is taken.
        self._folder: HeldFolder | None = self._open_folder()
        self._heads: set[bytes] = set()
        self._kinds: dict[bytes, EntryKind] = {}
        self._tips: dict[str, bytes] = {}

    @classmethod
    def create(
        cls, path: Path, opened: Opened, *, clock: Callable[[], float] = time.time
    ) -> Journal:
        """Begin a journal where none is."""
        fd = create_file(path)
        try:
            lock(fd, path)
            journal = cls(path, fd, opened, clock)
        except BaseException:
            # Whoever has it locked has begun to write there: it is not ours to remove.
            os.close(fd)
            raise
        try:
            journal._append([opened])
        except BaseException:
            journal.close()
            path.unlink(missing_ok=True)
            raise
        return journal

    @classmethod
    def resume(
        cls, path: Path, dialects: Dialects = dialect, *, clock: Callable[[], float] = time.time
    ) -> tuple[Journal, Replay]:
        """Open a journal to go on with it; an unfinished last line is cut off.

        Raises:
            NoSuchSession: there is no such file, or nothing was ever stored in it.
            JournalBusy: another process has it open for writing.
            JournalDamaged: a line does not check out.

        """
        try:
            fd = open_own(path, os.O_RDWR | os.O_APPEND)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoSuchSession(f"{path} does not exist; 'prong sessions' lists them") from error
        except OSError as error:
            raise JournalError(f"{path} cannot be opened ({error.strerror})") from error
        try:
            lock(fd, path)
            replay = read_journal(path, dialects)
            journal = cls(path, fd, replay.opened, clock, replay.tally)
        except BaseException:
            os.close(fd)
            raise
        try:
            journal._take_over(replay)
        except BaseException:
            journal.close()
            raise
        return journal, replay

    @property
    def session(self) -> str:
        """The session's id."""
        return self.opened.session

    @property
    def tally(self) -> Tally:
        """The session so far, in a few figures."""
        return self._tally

    def keep(self, agent: str, prompt: Prompt, *, reason: str = "") -> None:
        """Store whatever of an agent's prompt is not yet stored.

        Where the prompt does not grow out of the agent's last one, the agent moves to it with the
        last line written: however the writer ends, it stands at the old prompt or at the new one.
        """
        fresh = self._fresh(prompt)
        base = fresh[0].parent if fresh else prompt.tip
        new_head = base is None and prompt.head.digest not in self._heads
        before = self._tips.get(agent)
        staged = bool(fresh) and before not in {None, (base or prompt.head).digest}
        writer, at = "" if staged else agent, self._now()
        records: list[Record] = []
        if new_head:
            records.append(head_record(writer, prompt.head, "" if staged else reason, at))
        records += [entry_record(writer, prompt.head, node, at) for node in fresh]
        if staged or (not fresh and not new_head and (reason or before != _digest(prompt))):
            records.append(TipRecord(agent=agent, digest=prompt.digest, reason=reason, at=at))
        tally = self._counted(prompt.head, fresh)
        if tally.about != self._tally.about:
            records.append(_note_record(agent, Begun(tally.about), at))
        self._append(records)
        self._tally = tally
        self._heads.add(prompt.head.digest)
        self._kinds.update((node.digest, node.kind) for node in fresh)
        self._tips[agent] = _digest(prompt)

    def request(self, row: Charge) -> None:
        """Store a row of the ledger."""
        tally = charged(self._tally, row)
        self._append([RequestRecord(at=self._now(), row=row, tally=tally)])
        self._tally = tally

    def note(self, agent: str, *notes: Note) -> None:
        """Store notes of an agent, all of them or none; the latest of a kind counts."""
        at = self._now()
        records = [_note_record(agent, note, at) for note in notes]
        self._append([*records])
        for record in records:
            self._tally = noted(self._tally, record)

    async def sync(self) -> None:
        """Wait until everything written so far would survive a loss of power.

        One at a time, since a sync takes in all that is there: of agents that end together the
        first syncs what it has, the second what all others have.
        """
        due = self._length
        async with self._syncing:
            if self._safe >= due:
                return
            length = self._length
            try:
                await anyio.to_thread.run_sync(self._sync)
            except OSError as error:
                raise self._full(error) from error
            self._safe = length

    def close(self) -> None:
        """Let others open the journal; to close twice does nothing."""
        if self._fd < 0:
            return
        holder(self.path).unlink(missing_ok=True)
        self._leave_folder()
        os.close(self._fd)
        self._fd = -1

    def copy(self, source: Path, *, last: int) -> None:
        """Take over the lines of another journal from its second to number `last`."""
        lines = Lines(source.read_bytes())
        chain = self._chain
        copies: list[bytes] = []
        for line in lines:
            if 1 < lines.number <= last:
                copy, chain = reseal(_inherited(line), chain)
                copies.append(copy)
        self._write(b"".join(copies))
        self._chain = chain

    def _fresh(self, prompt: Prompt) -> list[Node]:
        found: list[Node] = []
        node = prompt.tip
        # Equal bytes can be of different kinds; replaying must not mix them up.
        while node is not None and self._kinds.get(node.digest) != node.kind:
            found.append(node)
            node = node.parent
        found.reverse()
        return found

    def _counted(self, head: Head, fresh: list[Node]) -> Tally:
        entries = self._tally.entries + len(fresh)
        about = self._tally.about or _about(head, fresh)
        return msgspec.structs.replace(self._tally, entries=entries, about=about, model=head.model)

    def _take_over(self, replay: Replay) -> None:
        self._length, self._chain = replay.length, replay.chain
        self._tips = {agent: _digest(prompt) for agent, prompt in replay.agents.items()}
        for prompt in replay.known.values():
            self._heads.add(prompt.head.digest)
            if prompt.tip is not None:
                self._kinds[prompt.tip.digest] = prompt.tip.kind
        self._dirty = replay.torn > 0
        self._cut()
        if replay.unended:
            self._write(b"\n")

    def _append(self, records: list[Record]) -> None:
        chain = self._chain
        lines: list[bytes] = []
        for record in records:
            line, chain = seal(record, chain)
            lines.append(line)
        if lines:
            self._write(b"".join(lines))
            self._chain = chain

    def _write(self, data: bytes) -> None:
        if self._fd < 0:
            raise SessionEnded(f"the journal of session {self.session} is closed; resume it first")
        self._cut()
        rest = memoryview(data)
        try:
            while rest:
                # Anything written counts as dirt until all of it is there.
                self._dirty = True
                rest = rest[os.write(self._fd, rest) :]
        except BaseException as error:
            with suppress(JournalFull):
                self._cut()
            if isinstance(error, OSError):
                raise self._full(error) from error
            raise
        self._dirty = False
        self._length += len(data)

    def _sync(self) -> None:
        sync(self._fd)
        if self._folder is not None:
            # A new file survives only if its folder's entry does.
            self._folder.sync()
            self._leave_folder()

    def _open_folder(self) -> HeldFolder:
        try:
            return HeldFolder(str(self.path.parent), follow=True)
        except OSError as error:
            raise self._full(error) from error

    def _leave_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()

    def _cut(self) -> None:
        if not self._dirty:
            return
        try:
            os.ftruncate(self._fd, self._length)
        except OSError as error:
            raise self._full(error) from error
        self._dirty = False

    def _full(self, error: OSError) -> JournalFull:
        what = f"{self.path} cannot be written ({error.strerror})"
        if not self._tally.entries:
            # A session in which nothing was said is not kept, or is not worth going on with.
            return JournalFull(f"{what}; nothing was stored yet: {remedy(error)}, then ask again")
        return JournalFull(
            f"{what}; everything before is safe: {remedy(error)}, then continue with "
            f"--resume {self.session}"
        )

    def _now(self) -> float:
        # Not round(at, 3), which goes by way of a text.
        return round(self._clock() * 1e3) / 1e3


def _inherited(line: bytes) -> bytes:
    body = body_of(line)
    if not body.startswith(b'"k":"request"'):
        return body
    record = decode(line)
    assert isinstance(record, RequestRecord)
    # The source session paid for it, so it adds nothing to what this one has cost.
    tally = msgspec.structs.replace(record.tally, cost=0.0, unpriced=False)
    return msgspec.json.encode(msgspec.structs.replace(record, tally=tally))[1:]


def _digest(prompt: Prompt) -> bytes:
    return (prompt.tip or prompt.head).digest


def _note_record(agent: str, note: Note, at: float) -> NoteRecord:
    return NoteRecord(agent=agent, name=note.name, at=at, value=encode_note(note))


def _about(head: Head, nodes: list[Node]) -> str:
    for node in nodes:
        if node.kind == "user":
            entry = head.dialect.read(node.role, node.data)
            text = entry.text if isinstance(entry, User) else ""
            return " ".join(text.split())[:_ABOUT_LENGTH]
    return ""
