"""A session in the line-by-line form that scripts for other programs read.

The journal is the truth; this is made of it, entry by entry, and only when somebody asks: a hook
that is told where it is, or `prong export`. What was made is not made again, so that a hook after
every call costs the entries since the last. Each agent has a file, and a fork's holds what it did
itself: the first line of it names the entry that it began from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from prong.about import __version__
from prong.cost import Charge
from prong.entry import Entry, Image, Part, Reply, Result, Results, Text, Usage, User
from prong.errors import ProngError
from prong.host import make_private
from prong.ids import AgentPath, parent_of, task_of
from prong.journal.record import (
    EntryRecord,
    Foreign,
    HeadRecord,
    Opened,
    Record,
    RequestRecord,
    TipRecord,
    decode,
    unwrap,
)
from prong.wire import Dialect, dialect

_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
_PIECE = 4_000_000
"""Bytes of a journal that are taken at a time."""


class _EntryReader(msgspec.Struct, frozen=True):
    """What an entry is read by: whose language it is in, and of which model."""

    speaks: Dialect
    model: str


class JsonlForm:
    """Makes lines of the records of one journal, in their order."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._opened = Opened(session="", created=0.0, cwd="")
        self._places: dict[str, _EntryReader] = {}
        self._heads: set[str] = set()
        self._staged: dict[str, EntryRecord] = {}
        """Entries of which it is not said yet whose they are, by digest."""
        self._paid: dict[str, Charge] = {}

    def take(self, record: Record | Foreign) -> Iterator[tuple[AgentPath, dict[str, Any]]]:
        """Read a record; gives the lines that follow from it, each with its agent."""
        match record:
            case Opened():
                self._opened = record
            case HeadRecord():
                speaks = dialect(record.dialect, explicit=record.explicit)
                self._places[record.digest] = _EntryReader(speaks, record.spec.model)
                self._heads.add(record.digest)
            case EntryRecord():
                yield from self._entry(record)
            case TipRecord():
                yield from self._moved(record)
            case RequestRecord(row=row) if row.is_turn:
                self._paid[row.agent] = row
            case _:
                pass

    def _entry(self, record: EntryRecord) -> Iterator[tuple[AgentPath, dict[str, Any]]]:
        place = self._places.get(record.parent)
        if place is None:
            return
        self._places[record.digest] = place
        if not record.agent:
            self._staged[record.digest] = record
            return
        yield self._line(AgentPath(record.agent), record, place)

    def _moved(self, record: TipRecord) -> Iterator[tuple[AgentPath, dict[str, Any]]]:
        """Give the lines of what an agent has moved to and nobody was said to have."""
        found: list[EntryRecord] = []
        digest, agent = record.digest, AgentPath(record.agent)
        while (staged := self._staged.pop(digest, None)) is not None:
            found.append(staged)
            digest = staged.parent
        if found and record.reason == "compaction":
            yield agent, self._boundary(agent, record)
        for staged in reversed(found):
            yield agent, self._line(agent, staged, self._places[staged.digest])[1]

    def _boundary(self, agent: AgentPath, record: TipRecord) -> dict[str, Any]:
        line = self._common(agent, record.digest[::-1], record.at)
        told = {"subtype": "compact_boundary", "content": "Conversation compacted"}
        return {"type": "system", "parentUuid": None, **told, **line}

    def _line(
        self, agent: AgentPath, record: EntryRecord, place: _EntryReader
    ) -> tuple[AgentPath, dict[str, Any]]:
        before = None if record.parent in self._heads else _uuid(record.parent)
        common = {"parentUuid": before, **self._common(agent, record.digest, record.at)}
        try:
            entry = place.speaks.read(record.role, unwrap(record.data))
        except (ValueError, msgspec.MsgspecError, ProngError):
            return agent, {"type": "system", "content": "an entry that cannot be read", **common}
        if isinstance(entry, Reply):
            message = self._reply(agent, record, place, entry)
            return agent, {"type": "assistant", "message": message, **common}
        flags: dict[str, Any] = {}
        if record.kind == "summary":
            flags = {"isCompactSummary": True}
        elif record.kind in ("reminder", "notice"):
            flags = {"isMeta": True}
        message = {"role": "user", "content": _content(entry)}
        return agent, {"type": "user", "message": message, **flags, **common}

    def _reply(
        self, agent: AgentPath, record: EntryRecord, place: _EntryReader, reply: Reply
    ) -> dict[str, Any]:
        paid = self._paid.pop(agent, None)
        return {
            "id": f"msg_{record.digest[:24]}",
            "type": "message",
            "role": "assistant",
            "model": place.model,
            "content": list(_blocks(reply)),
            "stop_reason": _STOPS.get(reply.stop, reply.stop),
            "stop_sequence": None,
            "usage": _usage(paid.usage if paid is not None else Usage()),
        }

    def _common(self, agent: AgentPath, digest: str, at: float) -> dict[str, Any]:
        common: dict[str, Any] = {
            "isSidechain": bool(parent_of(agent)),
            "userType": "external",
            "cwd": self._opened.cwd,
            "sessionId": self._opened.session,
            "version": f"prong {__version__}",
            "uuid": _uuid(digest),
            "timestamp": _time(at),
        }
        return common | ({"agentId": task_of(agent)} if parent_of(agent) else {})


def _uuid(digest: str) -> str:
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _time(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.read,
        "output_tokens": usage.output,
    }


def _blocks(reply: Reply) -> Iterator[dict[str, Any]]:
    if reply.thinking:
        yield {"type": "thinking", "thinking": reply.thinking, "signature": ""}
    if reply.text or not reply.calls:
        yield {"type": "text", "text": reply.text}
    for call in reply.calls:
        given = _given(call.arguments)
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _given(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return {"arguments": arguments}


def _content(entry: Entry) -> str | list[dict[str, Any]]:
    match entry:
        case User(parts=(Text(text=text),)):
            return text
        case User(parts=parts):
            return [_part(part) for part in parts]
        case Results(results=results):
            return [_result(result) for result in results]
        case Reply():
            return entry.text


def _result(result: Result) -> dict[str, Any]:
    match result.parts:
        case (Text(text=text),):
            content: str | list[dict[str, Any]] = text
        case parts:
            content = [_part(part) for part in parts]
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return block | ({"is_error": True} if result.failed else {})


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(media_type=media_type, data=data):
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image", "source": source}


class JsonlFiles:
    """The files of one session, for whoever asks for them; made of its journal as it grows."""

    def __init__(self, journal: Path, session: str) -> None:
        """Nothing is made before it is asked for."""
        self._journal = journal
        self._main = journal.with_suffix("") / "transcript" / f"{session}.jsonl"
        self._lines = JsonlForm()
        self._read = 0
        self._begun: set[Path] = set()
        self._turn = anyio.Lock()

    def of(self, agent: str) -> Path:
        """Give the file of an agent, by its path."""
        path = AgentPath(agent)
        if not parent_of(path):
            return self._main
        return self._main.with_suffix("") / "subagents" / f"agent-{task_of(path)}.jsonl"

    async def refresh(self) -> Path:
        """Bring the files up to what is stored now; gives the main agent's.

        What cannot be written is not: a hook reads what there is.
        """
        async with self._turn:
            await anyio.to_thread.run_sync(self.write)
        return self._main

    def write(self) -> Path:
        """Bring the files up to what is stored now, in this thread."""
        try:
            self._touch(self._main)
            with self._journal.open("rb") as file:
                file.seek(self._read)
                while data := file.read(_PIECE):
                    end = data.rfind(b"\n") + 1
                    while not end and (more := file.read(_PIECE)):
                        data += more
                        end = data.rfind(b"\n") + 1
                    self._store(data[:end])
                    self._read += end
                    if end < len(data):
                        file.seek(self._read)
                    if not end:
                        break
        except OSError:
            pass
        return self._main

    def _store(self, data: bytes) -> None:
        pieces: dict[Path, list[bytes]] = {}
        for line in data.splitlines():
            try:
                record = decode(line)
            except (msgspec.MsgspecError, RecursionError):
                continue
            for agent, made in self._lines.take(record):
                pieces.setdefault(self.of(agent), []).append(msgspec.json.encode(made) + b"\n")
        for path, lines in pieces.items():
            self._touch(path)
            with path.open("ab") as file:
                file.writelines(lines)

    def _touch(self, path: Path) -> None:
        """Begin a file anew, for its owner alone, the first time that something belongs there."""
        if path in self._begun:
            return
        make_private(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        self._begun.add(path)
