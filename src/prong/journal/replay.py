"""Reads a journal back into the very same prompts.

Every line is checked against its checksum and every entry against its digest, so what comes out is
what went in, byte for byte, or an error with the position of the first line that is not. Agents
that shared nodes share them again, because an entry names its parent by digest.

Only the end of a file may be unsound without being damage: a writer that was killed leaves a piece
of a line there, without its newline. It is left out here, and cut off when the journal is opened
for writing. Reading takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from prong.cost import Charge
from prong.errors import JournalDamaged, JournalError, NoSuchSession, ProngError
from prong.foreign_json import NOT_JSON
from prong.journal.note import (
    AnyNote,
    Begun,
    ChildEnded,
    ChildNotes,
    ChildRun,
    CoordinatorSet,
    FilesRead,
    FolderEntered,
    MainNotes,
    MemberKept,
    MemberOf,
    MessagesUnread,
    ModelChosen,
    ModeSet,
    PlanKept,
    PullsSeen,
    ReceiptClosed,
    ReceiptOpened,
    TeamKept,
    Titled,
    TodosKept,
    TurnSettled,
    decode_note,
)
from prong.journal.record import (
    VERSION,
    EntryRecord,
    Foreign,
    HeadRecord,
    NoteRecord,
    Opened,
    Record,
    RequestRecord,
    Tally,
    TipRecord,
    charged,
    check,
    decode,
)
from prong.journal.transfer import Dialects, begin, grow
from prong.prompt import Prompt
from prong.wire import dialect


class Damage(msgspec.Struct, frozen=True):
    """The first line that does not check out."""

    line: int
    offset: int
    why: str


class Placed(msgspec.Struct, frozen=True):
    """An agent's prompt right after an entry, and the number of the entry's line."""

    seq: int
    agent: str
    prompt: Prompt


class Paid(msgspec.Struct, frozen=True):
    """A row of the ledger, when it was entered, and the number of its line."""

    seq: int
    at: float
    row: Charge
    inherited: bool
    """Whether it was paid by the session this one was branched off."""


class Replay:
    """What a journal holds."""

    def __init__(self, opened: Opened) -> None:
        """Start with the first line."""
        self.opened = opened
        self.agents: dict[str, Prompt] = {}
        """Each agent's prompt as it last stood, in the order of their first appearance."""
        self.entries: list[Placed] = []
        self.requests: list[Paid] = []
        self.known: dict[str, Prompt] = {}
        """Every prompt that was ever reached, by digest."""
        self.tally = Tally()
        self.lines = 0
        """How many good lines there are; also the number of the last."""
        self.length = 0
        """How many bytes the good lines take."""
        self.chain = 0
        """The last good line's checksum."""
        self.torn = 0
        """How many bytes of an unfinished line follow."""
        self.unended = False
        """Whether only the newline of the last good line is missing."""
        self.rests: list[Prompt] = []
        """The prompts with which turns have ended, also those that failed."""
        self._notes: dict[tuple[str, str], bytes] = {}
        self._rows: dict[str, list[Charge]] = {}

    def last(self, agent: str, kind: type[AnyNote], key: str | None = None) -> AnyNote | None:
        """Give an agent's latest note of a kind and key; None if there is none.

        Raises JournalError if there is one that is not of this kind.
        """
        value = self._notes.get((agent, kind.tag if key is None else f"{kind.tag}/{key}"))
        return None if value is None else decode_note(kind, value, key=key)

    def noted(self, agent: str) -> MainNotes:
        """Give what a main agent goes on with beside its conversation; raises as `last` does."""
        mode, plan = self.last(agent, ModeSet), self.last(agent, PlanKept)
        pulls, tools = self.last(agent, PullsSeen), self.last(agent, CoordinatorSet)
        joined = self.last(agent, MemberOf)
        return MainNotes(
            model=self.last(agent, ModelChosen),
            mode=mode.value if mode is not None else None,
            plan=plan.value if plan is not None else None,
            pulls=pulls.value if pulls is not None else {},
            worker_tools=tools.value if tools is not None else None,
            team=self.last(agent, TeamKept),
            member_of=joined.value if joined is not None else None,
            member=self.last(agent, MemberKept),
            reads=(self.last(agent, FilesRead) or FilesRead()).value,
            todos=(self.last(agent, TodosKept) or TodosKept()).value,
            cwd=(self.last(agent, FolderEntered) or FolderEntered()).value,
            settled=(self.last(agent, TurnSettled) or TurnSettled()).value,
        )

    def noted_child(self, agent: str) -> ChildNotes:
        """Give what a child goes on with beside its conversation; raises as `last` does."""
        receipt = self.last(agent, ReceiptClosed) or self.last(agent, ReceiptOpened)
        reads, todos = self.last(agent, FilesRead), self.last(agent, TodosKept)
        folder = self.last(agent, FolderEntered)
        return ChildNotes(
            ended=self.last(agent, ChildEnded) or ChildEnded(),
            runs=(self.last(agent, ChildRun) or ChildRun()).value,
            receipt=receipt.value if receipt is not None else None,
            unread=(self.last(agent, MessagesUnread) or MessagesUnread()).value,
            reads=reads.value if reads is not None else None,
            todos=todos.value if todos is not None else None,
            cwd=folder.value if folder is not None else None,
            member=self.last(agent, MemberKept),
        )

    def each(self, kind: type[AnyNote]) -> Iterator[tuple[str, AnyNote]]:
        """Give every agent's latest note of a kind without a key; raises as `last` does."""
        for (agent, name), value in self._notes.items():
            if name == kind.tag:
                yield agent, decode_note(kind, value)

    def rows(self, agent: str) -> list[Charge]:
        """Give the requests of an agent."""
        return list(self._rows.get(agent, ()))

    def take(self, seq: int, record: Record | Foreign, dialects: Dialects) -> None:
        """Add one record; raises `ValueError` if it does not fit what came before."""
        match record:
            case HeadRecord():
                self._take_head(record, dialects)
            case EntryRecord():
                self._take_entry(seq, record)
            case TipRecord():
                self._move(record.agent, self._reached(record.digest))
            case RequestRecord():
                self._take_request(seq, record)
            case NoteRecord():
                self._take_note(record)
            case Opened():
                raise ValueError("a second opening line")
            case Foreign():
                pass

    def _take_head(self, record: HeadRecord, dialects: Dialects) -> None:
        prompt = begin(record, dialects)
        self._move(record.agent, self.known.setdefault(prompt.digest, prompt))
        self.tally = msgspec.structs.replace(self.tally, model=record.spec.model)

    def _take_entry(self, seq: int, record: EntryRecord) -> None:
        prompt = grow(self._reached(record.parent), record)
        self.known[prompt.digest] = prompt
        self._move(record.agent, prompt)
        self.entries.append(Placed(seq, record.agent, prompt))
        self.tally = msgspec.structs.replace(self.tally, entries=len(self.entries))

    def _take_request(self, seq: int, record: RequestRecord) -> None:
        inherited = seq <= 1 + self.opened.inherited
        self.requests.append(Paid(seq, record.at, record.row, inherited))
        self._rows.setdefault(record.row.agent, []).append(record.row)
        if not inherited:
            self.tally = charged(self.tally, record.row)

    def _take_note(self, record: NoteRecord) -> None:
        self._notes[record.agent, record.name] = bytes(record.value)
        if record.name == TurnSettled.tag and record.agent in self.agents:
            # Written at the end of every turn; after a failure it names an earlier prompt.
            self.rests.append(self.agents[record.agent])
        self.tally = noted(self.tally, record)

    def _move(self, agent: str, prompt: Prompt) -> None:
        if agent:
            self.agents[agent] = prompt

    def _reached(self, digest: str) -> Prompt:
        prompt = self.known.get(digest)
        if prompt is None:
            raise ValueError(f"it extends {digest[:12]}, which no line before it made")
        return prompt


def noted(tally: Tally, record: NoteRecord) -> Tally:
    """Take over a note of the first agent that says what the session is about, if it is one."""
    if record.name not in {Begun.tag, Titled.tag} or "/" in record.agent:
        return tally
    try:
        text = msgspec.json.decode(record.value, type=str)
    except NOT_JSON:
        return tally
    return msgspec.structs.replace(tally, **{record.name: text})


def read_journal(path: Path, dialects: Dialects = dialect) -> Replay:
    """Read a journal.

    Raises:
        NoSuchSession: there is no such file, or nothing was ever stored in it.
        JournalDamaged: a line does not check out.
        JournalError: a newer program wrote it.

    """
    replay, damage = examine(path, dialects)
    if damage is not None:
        raise JournalDamaged(path, line=damage.line, offset=damage.offset, why=damage.why)
    return replay


def examine(path: Path, dialects: Dialects = dialect) -> tuple[Replay, Damage | None]:
    """Read a journal up to its end or its first damage."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchSession(
            f"{path} does not exist; 'prong sessions' lists what there is"
        ) from error
    except OSError as error:
        raise JournalError(f"{path} cannot be read ({error.strerror}); check its owner") from error
    lines = Lines(data)
    first = next(lines, None)
    if first is None:
        if lines.damage is not None:
            damage = lines.damage
            raise JournalDamaged(path, line=damage.line, offset=damage.offset, why=damage.why)
        raise NoSuchSession(f"{path} ends before its first line was whole; delete it")
    replay = Replay(_opening(path, first))
    replay.lines, replay.length, replay.chain = 1, lines.length, lines.chain
    damage = _fill(replay, lines, dialects)
    replay.torn, replay.unended = lines.torn, lines.unended
    return replay, damage


def _opening(path: Path, line: bytes) -> Opened:
    # A newer format may have another opening line, so the version is looked at by itself.
    try:
        version = msgspec.json.decode(line, type=_Version).version
        record = decode(line)
    except NOT_JSON as error:
        raise JournalDamaged(path, line=1, offset=0, why="it does not open a journal") from error
    if version > VERSION:
        raise JournalError(f"{path} was written by a newer prong (format {version}); upgrade prong")
    if not isinstance(record, Opened):
        raise JournalDamaged(path, line=1, offset=0, why="it does not open a journal")
    return record


class _Version(msgspec.Struct):
    version: int = VERSION


def _fill(replay: Replay, lines: Lines, dialects: Dialects, start: int = 0) -> Damage | None:
    """Take lines in; they begin `start` bytes after the beginning of the file."""
    for line in lines:
        try:
            replay.take(lines.number, decode(line), dialects)
        except (ValueError, LookupError, RecursionError, ProngError) as error:
            return Damage(lines.number, replay.length, _sentence(error))
        replay.lines, replay.length, replay.chain = lines.number, start + lines.length, lines.chain
    damage = lines.damage
    return None if damage is None else Damage(damage.line, start + damage.offset, damage.why)


def take_more(replay: Replay, data: bytes, dialects: Dialects = dialect) -> Damage | None:
    """Take in what was written to a journal after the lines that a replay has."""
    if replay.unended and data:
        if not data.startswith(b"\n"):
            return Damage(replay.lines + 1, replay.length, "the newline before it is missing")
        data, replay.length = data[1:], replay.length + 1
    lines = Lines(data, chain=replay.chain, number=replay.lines)
    damage = _fill(replay, lines, dialects, start=replay.length)
    replay.torn, replay.unended = lines.torn, lines.unended
    return damage


def _sentence(error: Exception) -> str:
    if isinstance(error, NOT_JSON):
        return f"the line is sound but not understood ({error})"
    return str(error)


class Lines:
    """The sound lines of a journal's bytes, without their newlines.

    When it is exhausted, `damage`, `torn` and `unended` tell what came after the last of them.
    """

    def __init__(self, data: bytes, *, chain: int = 0, number: int = 0) -> None:
        """Read from the first line, or from any, given checksum and number of the line before."""
        self.data = data
        self.chain = chain
        self.number = number
        self.length = 0
        self.damage: Damage | None = None
        self.torn = 0
        self.unended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.damage is not None or self.torn or self.length >= len(self.data):
            raise StopIteration
        end = self.data.find(b"\n", self.length)
        line = self.data[self.length : end if end >= 0 else None]
        chain = check(line, self.chain)
        if chain is None:
            self._refuse(line, ended=end >= 0)
            raise StopIteration
        self.number += 1
        self.chain = chain
        self.unended = end < 0
        self.length += len(line) + (end >= 0)
        return line

    def _refuse(self, line: bytes, *, ended: bool) -> None:
        if ended:
            self.damage = Damage(self.number + 1, self.length, "the checksum does not match")
        elif check(line[:-1], self.chain) is not None:
            # No interrupted write leaves a whole line and a byte that is not its newline.
            self.damage = Damage(self.number + 1, self.length, "the newline at its end was changed")
        else:
            self.torn = len(line)
