"""Sessions of Codex: a file of items in their order, with what happened between them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec

from prong.entry import Call, CallId, Entry, Part, Text
from prong.errors import BadInput
from prong.journal.foreign_session import (
    ForeignInput,
    ForeignReply,
    ForeignSession,
    JsonObject,
    ObjectLines,
    StepLog,
    items,
    left_out,
    members,
    read_parts,
    texts,
)

_NEWEST = 0
"""The last major version whose files are known."""
_MOST = 1_000
"""Files that are looked at for agents."""
_QUIET = frozenset(
    {"turn_context", "event_msg", "token_usage_record", "state", "ghost_snapshot", "world_state"}
)
_CONTEXT = re.compile(r"\s*(<[a-z_ ]*(?:context|instructions)>|# AGENTS\.md instructions)")
"""How messages begin that the program itself has put there."""
_SILENT = frozenset({"reasoning", "ghost_snapshot", "web_search_call", "compaction_trigger"})
"""Items that are left behind by design."""


def is_codex(line: JsonObject) -> bool:
    """Say whether a line may be of such a file."""
    meta = line.get("type") == "session_meta" and "payload" in line
    # The oldest begin with a bare object.
    return meta or ("instructions" in line and "id" in line and "timestamp" in line)


def parent_thread(meta: JsonObject) -> str:
    """Name the session from which an agent's was started; empty if it is no agent's."""
    spawned = members(members(members(meta.get("source")).get("subagent")).get("thread_spawn"))
    return texts(spawned.get("parent_thread_id"))


def _agents(path: Path, session: str) -> tuple[dict[str, tuple[Entry, ...]], list[str]]:
    """Read the agents of a session, whose files stand beside its own; and say which cannot be."""
    agents: dict[str, tuple[Entry, ...]] = {}
    notes: list[str] = []
    for file in sorted(path.parent.glob("rollout-*.jsonl"))[:_MOST]:
        first = next(iter(ObjectLines(file)), None)
        meta = members(first.get("payload")) if first is not None else {}
        if file != path and session and parent_thread(meta) == session:
            name = re.sub(r"[^A-Za-z0-9_-]", "-", texts(meta.get("id")))[:60] or "agent"
            try:
                agents[name] = read_codex(file, children=False).agents["main"]
            except BadInput as error:
                notes.append(str(error))
    return agents, notes


def read_codex(path: Path, *, children: bool = True) -> ForeignSession:
    """Read a session, with its agents if they are wanted.

    Raises BadInput if the file is of a program that is not known yet, or nothing was said in it.
    """
    reader, rollout = ObjectLines(path), _Rollout(path)
    for line in reader:
        rollout.take(line)
    entries = rollout.entries()
    if not entries:
        raise BadInput(f"{path}: nothing was said in it that could be taken over")
    agents, notes = _agents(path, rollout.thread) if children else ({}, [])
    return ForeignSession(
        program="Codex",
        cwd=rollout.cwd,
        model=rollout.model,
        agents={"main": entries} | agents,
        notes=(*reader.notes(), *left_out(rollout.unknown), *notes),
    )


class _Rollout:
    """A session in the making."""

    def __init__(self, path: Path) -> None:
        self.thread = self.cwd = self.model = ""
        self._path = path
        self._log = StepLog()
        self._told: list[ForeignInput] = []
        """Those steps that only the record of events has."""
        self._typed = False
        """Whether items have what was typed, too."""
        self._began = ""
        self._round = 0
        self.unknown: Counter[str] = Counter()

    def take(self, line: JsonObject) -> None:
        """Read a line."""
        payload = members(line.get("payload"))
        if self._began and texts(line.get("timestamp")) < self._began:
            # An agent's file begins with a copy of what its parent had said before.
            return
        match line.get("type"):
            case "session_meta":
                self._begin(payload)
            case "response_item":
                self._item(payload)
            case "compacted":
                self._compacted(payload)
            case "turn_context":
                self.model = texts(payload.get("model")) or self.model
            case "event_msg":
                self._event(payload)
            case str(kind) if kind in _QUIET:
                pass
            case str() if "payload" not in line:
                self._item(line)
            case None if "instructions" in line:
                self._begin(line)
            case kind:
                self.unknown[texts(kind) or "?"] += 1

    def entries(self) -> tuple[Entry, ...]:
        """Put together what was said."""
        if self._typed:
            self._log.leave_out(self._told)
        return self._log.entries()

    def _begin(self, payload: JsonObject) -> None:
        version = texts(payload.get("cli_version"))
        major = re.match(r"(\d{1,9})\.", version)
        if major and int(major[1]) > _NEWEST:
            raise BadInput(
                f"{self._path} was written by Codex {version[:20]}; files up to version "
                f"{_NEWEST} are understood: upgrade prong"
            )
        if not self.thread:
            # A second one is of the session that an agent was started from.
            self.thread = texts(payload.get("id"))
            self.cwd = texts(payload.get("cwd"))
            if parent_thread(payload):
                self._began = texts(payload.get("timestamp"))

    def _event(self, payload: JsonObject) -> None:
        """Take what was typed; newer files have it in a form of its own, and some have both."""
        item = members(payload.get("item"))
        if payload.get("type") == "user_message":
            parts: tuple[Part, ...] = (Text(texts(payload.get("message"))),)
        elif payload.get("type") == "item_completed" and item.get("type") == "UserMessage":
            parts = read_parts(item.get("content"), self.unknown)
        else:
            return
        told = ForeignInput(parts)
        if parts and (not self._log.steps or self._log.steps[-1] != told):
            self._round += 1
            self._told.append(told)
            self._log.steps.append(told)

    def _compacted(self, payload: JsonObject) -> None:
        message, history = texts(payload.get("message")), items(payload.get("replacement_history"))
        if message or history:
            self._log.steps.clear()
        if message:
            self._log.steps.append(ForeignInput((Text(message),), "summary"))
        for item in history:
            self._item(item)

    def _item(self, item: JsonObject) -> None:
        match texts(item.get("type")) or ("message" if "role" in item else ""):
            case "message":
                self._message(item)
            case "function_call" | "custom_tool_call" | "local_shell_call":
                self._call(item)
            case "function_call_output" | "custom_tool_call_output":
                self._round += 1
                parts, failed = self._output(item.get("output"))
                self._log.give(texts(item.get("call_id")), parts, failed=failed)
            case kind if kind not in _SILENT:
                self.unknown[kind or "?"] += 1
            case _:
                pass

    def _message(self, item: JsonObject) -> None:
        parts = read_parts(item.get("content"), self.unknown)
        text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        if item.get("role") == "assistant":
            self._log.steps.append(ForeignReply(str(self._round), text))
        elif item.get("role") == "user" and parts and not _CONTEXT.match(text):
            self._typed = True
            self._round += 1
            self._log.steps.append(ForeignInput(parts))

    def _call(self, item: JsonObject) -> None:
        name, given = texts(item.get("name")) or "local_shell", item.get("arguments")
        if not isinstance(given, str):
            own = {"input": item["input"]} if "input" in item else item.get("action")
            given = msgspec.json.encode(own or {}).decode()
        if call_id := texts(item.get("call_id")) or texts(item.get("id")):
            call = Call(CallId(call_id), name, given)
            self._log.steps.append(ForeignReply(str(self._round), "", (call,)))

    def _output(self, output: object) -> tuple[tuple[Part, ...], bool]:
        whole = members(output)
        if whole:
            content = whole.get("content", whole.get("output"))
            return read_parts(content, self.unknown), whole.get("success") is False
        return read_parts(output, self.unknown), False
