"""Sessions of Claude Code: a file of lines that point at the line before, and one for each agent.

Rewinding leaves branches in a file; what counts is the branch of its last line, back to the last
summary. A reply is stored in several lines, and the results of calls that ran together hang on
their own calls, beside that branch: both are found by their ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prong.entry import Call, CallId, Entry, Text
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

_NEWEST = 2
"""The last major version whose files are known."""
_MOST = 1_000
"""Agents of a session that are taken over."""


def is_claude(line: JsonObject) -> bool:
    """Say whether a line may be of such a file."""
    return "sessionId" in line or "parentUuid" in line or ("leafUuid" in line and "summary" in line)


def read_claude(path: Path) -> ForeignSession:
    """Read a session with its agents.

    Raises BadInput if the file is of a program that is not known yet, or nothing was said in it.
    """
    return _ClaudeReader(path).read()


class _ClaudeReader:
    """Collects what the lines of a session say, its own and those of its agents' files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cwd = self._model = self._title = ""
        self._notes: list[str] = []
        self._unknown: Counter[str] = Counter()

    def read(self) -> ForeignSession:
        """Read all there is; raises BadInput if that is nothing, or not known yet."""
        agents = self._own_lines() | self._agent_files()
        read = {
            name: _entries(lines, self._unknown)
            for name, lines in list(agents.items())[: _MOST + 1]
        }
        if len(agents) > _MOST + 1:
            self._notes.append(f"only the first {_MOST} of its agents are taken over")
        if not read["main"]:
            raise BadInput(f"{self._path}: nothing was said in it that could be taken over")
        return ForeignSession(
            program="Claude Code",
            cwd=self._cwd,
            model=self._model,
            title=self._title,
            agents={name: entries for name, entries in read.items() if entries},
            notes=(*self._notes, *left_out(self._unknown)),
        )

    def _own_lines(self) -> dict[str, list[JsonObject]]:
        """Read the session's own file, which may have lines of agents, too."""
        reader = ObjectLines(self._path)
        agents: dict[str, list[JsonObject]] = {"main": []}
        for line in reader:
            self._look(line)
            name = _agent_id(line) if line.get("isSidechain") else "main"
            agents.setdefault(name, []).append(line)
        self._notes += reader.notes()
        return agents

    def _agent_files(self) -> dict[str, list[JsonObject]]:
        """Read the files of agents that stand beside a session's."""
        agents: dict[str, list[JsonObject]] = {}
        for file in sorted(self._path.with_suffix("").glob("subagents/**/agent-*.jsonl")):
            reader = ObjectLines(file)
            name = _agent_id({"agentId": file.stem.removeprefix("agent-")})
            agents[name] = list(reader)
            self._notes += [f"{name}: {note}" for note in reader.notes()]
        return agents

    def _look(self, line: JsonObject) -> None:
        """Take what a line says of the session."""
        version = texts(line.get("version"))
        major = re.match(r"(\d{1,9})\.", version)
        if major and int(major[1]) > _NEWEST:
            raise BadInput(
                f"{self._path} was written by Claude Code {version[:20]}; files up to version "
                f"{_NEWEST} are understood: upgrade prong"
            )
        self._cwd = self._cwd or texts(line.get("cwd"))
        for key in ("summary", "aiTitle", "customTitle"):
            self._title = texts(line.get(key)) or self._title
        model = texts(members(line.get("message")).get("model"))
        if model and not model.startswith("<") and not line.get("isSidechain"):
            self._model = model


def _agent_id(line: JsonObject) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", texts(line.get("agentId")))[:60] or "agent"


def _entries(lines: Sequence[JsonObject], unknown: Counter[str]) -> tuple[Entry, ...]:
    log = StepLog()
    for line in _branch(lines):
        _take(log, line, unknown)
    # Results hang beside the branch, and so may a part of a reply.
    for line in lines:
        _take_results(log, line, unknown)
    return log.entries()


def _branch(lines: Sequence[JsonObject]) -> list[JsonObject]:
    """Give the lines of the last line's branch, with all parts of the replies in it."""
    by_id = {texts(line.get("uuid")): line for line in lines if line.get("uuid")}
    spoken = [line for line in lines if line.get("type") in ("user", "assistant")]
    if not spoken or not any(texts(line.get("parentUuid")) in by_id for line in spoken):
        # Nothing points anywhere: they stand in their order.
        return list(lines)
    on_it: set[str] = set()
    at = texts(spoken[-1].get("uuid"))
    while at in by_id and at not in on_it:
        on_it.add(at)
        at = texts(by_id[at].get("parentUuid"))
    replies = {
        texts(members(by_id[one].get("message")).get("id"))
        for one in on_it
        if by_id[one].get("type") == "assistant"
    } - {""}
    return [
        line
        for line in lines
        if texts(line.get("uuid")) in on_it
        or texts(members(line.get("message")).get("id")) in replies
    ]


def _take(log: StepLog, line: JsonObject, unknown: Counter[str]) -> None:
    message = members(line.get("message"))
    match line.get("type"):
        case "assistant" if not line.get("isApiErrorMessage"):
            parts = read_parts(message.get("content"), unknown)
            text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            calls = tuple(_calls(message.get("content")))
            key = texts(message.get("id")) or texts(line.get("uuid"))
            log.steps.append(ForeignReply(key, text, calls))
        case "user" if not line.get("isMeta"):
            parts = read_parts(message.get("content"), unknown)
            if any(not isinstance(part, Text) or part.text.strip() for part in parts):
                log.steps.append(
                    ForeignInput(parts, "summary" if line.get("isCompactSummary") else "user")
                )
        case "attachment":
            queued = members(line.get("attachment"))
            parts = read_parts(queued.get("prompt"), unknown)
            if queued.get("type") == "queued_command" and parts:
                log.steps.append(ForeignInput(parts))
        case _:
            pass


def _calls(content: object) -> list[Call]:
    return [
        Call(CallId(block["id"]), block["name"], msgspec.json.encode(block.get("input")).decode())
        for block in items(content)
        if block.get("type") == "tool_use" and texts(block.get("id")) and texts(block.get("name"))
    ]


def _take_results(log: StepLog, line: JsonObject, unknown: Counter[str]) -> None:
    for block in items(members(line.get("message")).get("content")):
        if block.get("type") == "tool_result" and (call := texts(block.get("tool_use_id"))):
            parts = read_parts(block.get("content"), unknown)
            log.give(call, parts, failed=block.get("is_error") is True)
