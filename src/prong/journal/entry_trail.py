"""Everything that was ever said in a session, in order: also what a summary has taken the place of.

A replay gives each agent's conversation as it stands; this gives every entry once, with its agent
and its time. Records are taken one by one, so that a journal can be followed while it grows, and
nothing of a conversation is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from prong.cost import Charge
from prong.entry import Entry, EntryKind, Usage
from prong.errors import JournalError, NoSuchSession, ProngError
from prong.foreign_json import NOT_JSON
from prong.ids import AgentPath
from prong.journal.record import (
    EntryRecord,
    Foreign,
    HeadRecord,
    NoteRecord,
    Opened,
    Record,
    RequestRecord,
    TipRecord,
    decode,
    unwrap,
)
from prong.journal.replay import Damage, Lines
from prong.wire import Dialect, dialect


class StoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a session, as it was stored."""

    agent: AgentPath
    digest: str
    parent: str
    """The digest of the entry before it; empty for an agent's first."""
    at: float
    kind: EntryKind
    entry: Entry | None
    """None if its bytes are not understood."""
    model: str
    usage: Usage | None = None
    """What the request cost that a reply answers, if it is known."""
    restarts: str = ""
    """Why a conversation begins anew with it, if one does."""


class _EntryReader(msgspec.Struct, frozen=True):
    """What an entry is read by: whose language it is in, and of which model."""

    speaks: Dialect
    model: str


class EntryTrail:
    """Makes entries of the records of one journal, in their order."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self.opened = Opened(session="", created=0.0, cwd="")
        self.title = ""
        self._readers: dict[str, _EntryReader] = {}
        self._heads: set[str] = set()
        self._staged: dict[str, EntryRecord] = {}
        """Entries of which it is not said yet whose they are, by digest."""
        self._paid: dict[str, Charge] = {}

    def take(self, record: Record | Foreign) -> Iterator[StoredEntry]:
        """Read a record; gives the entries that follow from it."""
        match record:
            case Opened():
                self.opened = record
            case HeadRecord():
                speaks = dialect(record.dialect, explicit=record.explicit)
                self._readers[record.digest] = _EntryReader(speaks, record.spec.model)
                self._heads.add(record.digest)
            case EntryRecord():
                yield from self._entry(record)
            case TipRecord():
                yield from self._moved(record)
            case RequestRecord(row=row) if row.is_turn:
                self._paid[row.agent] = row
            case NoteRecord(name="title" | "about", value=value) if "/" not in record.agent:
                self._name(record.name, value)
            case _:
                pass

    def _name(self, name: str, value: msgspec.Raw) -> None:
        try:
            text = msgspec.json.decode(value, type=str)
        except NOT_JSON:
            return
        self.title = text if name == "title" or not self.title else self.title

    def _entry(self, record: EntryRecord) -> Iterator[StoredEntry]:
        reader = self._readers.get(record.parent)
        if reader is None:
            return
        self._readers[record.digest] = reader
        if record.agent:
            yield self._stored(AgentPath(record.agent), record)
        else:
            self._staged[record.digest] = record

    def _moved(self, record: TipRecord) -> Iterator[StoredEntry]:
        """Give what an agent has moved to and nobody was said to have."""
        found: list[EntryRecord] = []
        digest, agent = record.digest, AgentPath(record.agent)
        while (staged := self._staged.pop(digest, None)) is not None:
            found.append(staged)
            digest = staged.parent
        why = record.reason
        for staged in reversed(found):
            yield msgspec.structs.replace(self._stored(agent, staged), restarts=why)
            why = ""

    def _stored(self, agent: AgentPath, record: EntryRecord) -> StoredEntry:
        reader = self._readers[record.digest]
        try:
            entry = reader.speaks.read(record.role, unwrap(record.data))
        except (*NOT_JSON, ValueError, LookupError, ProngError):
            entry = None
        paid = self._paid.pop(agent, None) if record.kind == "reply" else None
        return StoredEntry(
            agent=agent,
            digest=record.digest,
            parent="" if record.parent in self._heads else record.parent,
            at=record.at,
            kind=record.kind,
            entry=entry,
            model=reader.model,
            usage=None if paid is None else paid.usage,
        )


class WholeSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session with everything that was ever said in it."""

    opened: Opened
    title: str
    entries: tuple[StoredEntry, ...]
    damage: Damage | None = None
    """The first line that does not check out; what follows it is left out."""

    def by_agent(self) -> dict[AgentPath, list[StoredEntry]]:
        """Give the entries of each agent, in the order in which they first spoke."""
        found: dict[AgentPath, list[StoredEntry]] = {}
        for stored in self.entries:
            found.setdefault(stored.agent, []).append(stored)
        return found


def read_whole(path: Path) -> WholeSession:
    """Read everything that was said in a session, up to the first damage.

    Raises NoSuchSession if there is no such file, JournalError if it cannot be read.
    """
    try:
        lines = Lines(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchSession(f"{path} does not exist; 'prong sessions' lists them") from error
    except OSError as error:
        raise JournalError(f"{path} cannot be read ({error.strerror}); check its owner") from error
    trail, found = EntryTrail(), list[StoredEntry]()
    for line in lines:
        try:
            found += trail.take(decode(line))
        except (*NOT_JSON, ProngError):
            continue
    if not trail.opened.session:
        raise JournalError(f"{path} is no journal of prong")
    return WholeSession(
        opened=trail.opened, title=trail.title, entries=tuple(found), damage=lines.damage
    )
