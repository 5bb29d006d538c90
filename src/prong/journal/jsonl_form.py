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
from prong.entry import Entry, Image, Part, Reply, Result, Results, Text, Usage, User
from prong.foreign_json import NOT_JSON
from prong.host import make_private
from prong.ids import AgentPath, parent_of, task_of
from prong.journal.entry_trail import EntryTrail, StoredEntry
from prong.journal.record import Opened, decode
from prong.system.descriptor import open_own

_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
_PIECE = 4_000_000
"""Bytes of a journal that are taken at a time."""


def jsonl_lines(opened: Opened, stored: StoredEntry) -> Iterator[dict[str, Any]]:
    """Make the lines of an entry; before one that begins anew stands a line that says so."""
    before = _uuid(stored.parent) if stored.parent else None
    common = _common(opened, stored.agent, stored.digest, stored.at)
    if stored.restarts == "compaction":
        edge = _common(opened, stored.agent, stored.digest[::-1], stored.at)
        told = {"subtype": "compact_boundary", "content": "Conversation compacted"}
        yield {"type": "system", "parentUuid": None, **told, **edge}
    if stored.entry is None:
        why = "an entry that cannot be read"
        yield {"type": "system", "parentUuid": before, "content": why, **common}
    elif isinstance(stored.entry, Reply):
        message = _reply(stored, stored.entry)
        yield {"type": "assistant", "message": message, "parentUuid": before, **common}
    else:
        flags: dict[str, Any] = {}
        if stored.kind == "summary":
            flags = {"isCompactSummary": True}
        elif stored.kind in ("reminder", "notice"):
            flags = {"isMeta": True}
        message = {"role": "user", "content": _content(stored.entry)}
        yield {"type": "user", "message": message, "parentUuid": before, **flags, **common}


def _reply(stored: StoredEntry, reply: Reply) -> dict[str, Any]:
    return {
        "id": f"msg_{stored.digest[:24]}",
        "type": "message",
        "role": "assistant",
        "model": stored.model,
        "content": list(_blocks(reply)),
        "stop_reason": _STOPS.get(reply.stop, reply.stop),
        "stop_sequence": None,
        "usage": _usage(stored.usage or Usage()),
    }


def _common(opened: Opened, agent: AgentPath, digest: str, at: float) -> dict[str, Any]:
    common: dict[str, Any] = {
        "isSidechain": bool(parent_of(agent)),
        "userType": "external",
        "cwd": opened.cwd,
        "sessionId": opened.session,
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
    except NOT_JSON:
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
        self._trail = EntryTrail()
        self._read = 0
        self._begun: set[Path] = set()
        self.problem = ""
        """Why the files are not what they should be, if they are not."""
        self._turn = anyio.Lock()

    def of(self, agent: str) -> Path:
        """Give the file of an agent, by its path."""
        path = AgentPath(agent)
        if not parent_of(path):
            return self._main
        return self._main.with_suffix("") / "subagents" / f"agent-{task_of(path)}.jsonl"

    async def refresh(self) -> Path:
        """Bring the files up to what is stored now; gives the main agent's.

        What cannot be written is not, and `problem` says why: a hook reads what there is.
        """
        async with self._turn:
            await anyio.to_thread.run_sync(self._write)
        return self._main

    def _write(self) -> None:
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
        except OSError as error:
            self.problem = f"{self._main} cannot be written for hooks ({error.strerror})"
        else:
            self.problem = ""

    def _store(self, data: bytes) -> None:
        pieces: dict[Path, list[bytes]] = {}
        for line in data.splitlines():
            try:
                record = decode(line)
            except NOT_JSON:
                continue
            for stored in self._trail.take(record):
                lines = pieces.setdefault(self.of(stored.agent), [])
                for made in jsonl_lines(self._trail.opened, stored):
                    lines.append(msgspec.json.encode(made) + b"\n")
        for path, lines in pieces.items():
            self._touch(path)
            with path.open("ab") as file:
                file.writelines(lines)

    def _touch(self, path: Path) -> None:
        """Begin a file anew, for its owner alone, the first time that something belongs there."""
        if path in self._begun:
            return
        make_private(path.parent)
        os.close(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        self._begun.add(path)
