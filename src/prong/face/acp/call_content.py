"""Tool calls as an editor shows them: their kind, where they work, and what they changed."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from prong.face.acp.session_update import (
    CallContent,
    CallDiff,
    CallKind,
    CallLocation,
    call_text,
)
from prong.face.output import printable
from prong.foreign_json import NOT_JSON

_KINDS: dict[str, CallKind] = {
    "Read": "read",
    "Edit": "edit",
    "Write": "edit",
    "NotebookEdit": "edit",
    "Glob": "search",
    "Grep": "search",
    "Bash": "execute",
    "Shell": "execute",
    "Agent": "think",
    "TeamSpawn": "think",
    "TodoWrite": "think",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "EnterPlanMode": "switch_mode",
    "ExitPlanMode": "switch_mode",
}
STARTS_AGENT = frozenset({"Agent", "TeamSpawn"})
"""Tools whose call is not over when it returns: the agent that it started works on."""
_FILES = ("file_path", "notebook_path", "path")
"""Arguments that name a file or folder."""
_WORKTREES = "/.prong/worktrees/"
"""What the path of a worktree has between the project and its name."""
_LONGEST = 20_000
"""Characters of a result that an editor is sent; the model has all of it."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


class CallFolder(msgspec.Struct, frozen=True):
    """Where an agent works, so that what it names can be found by an editor."""

    root: str
    """What its relative paths are relative to; empty if that is on another machine."""
    worktree: str = ""
    """The working copy that it has to itself, if it has one."""

    @classmethod
    def inside(cls, worktree: str, cwd: str) -> CallFolder:
        """Give the place in a worktree that a folder of the project has there."""
        home = worktree.partition(_WORKTREES)[0]
        return cls(f"{worktree}{cwd.removeprefix(home)}", worktree)

    def absolute(self, path: str) -> str:
        """Find a path that an agent names: one of the project is meant in its own copy."""
        found = os.path.join(self.root, path)  # noqa: PTH118 - a text of the model's
        home = self.worktree.partition(_WORKTREES)[0]
        if self.worktree and found.startswith(f"{home}/") and _WORKTREES not in found:
            return f"{self.worktree}{found.removeprefix(home)}"
        return found


def kind_of_tool(name: str) -> CallKind:
    """Say in the protocol's words what a tool does."""
    return _KINDS.get(name, "other")


def read_arguments(arguments: str) -> dict[str, Any]:
    """Read the arguments of a call; empty if they are no object."""
    try:
        read: object = msgspec.json.decode(arguments.encode(errors="replace"))
    except NOT_JSON:
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


def raw_arguments(arguments: str) -> msgspec.Raw | msgspec.UnsetType:
    """Give arguments as JSON that can stand in a line, if they are JSON."""
    read = read_arguments(arguments)
    return msgspec.Raw(msgspec.json.encode(read)) if read else msgspec.UNSET


def locations_of(arguments: dict[str, Any], folder: CallFolder) -> tuple[CallLocation, ...]:
    """Give the files that a call names, absolute as the protocol has them."""
    for key in _FILES if folder.root else ():
        if isinstance(path := arguments.get(key), str) and path:
            line = arguments.get("offset")
            return (
                CallLocation(
                    path=folder.absolute(path),
                    line=line if isinstance(line, int) and line > 0 else None,
                ),
            )
    return ()


def intended(name: str, arguments: dict[str, Any]) -> tuple[CallContent, ...]:
    """Show what a call is to do, where its title cannot: a command in full, an agent's task."""
    if isinstance(command := arguments.get("command"), str) and name == "Bash":
        return (call_text(_fenced(printable(command), "sh")),)
    if isinstance(brief := arguments.get("prompt"), str) and name in STARTS_AGENT:
        return (call_text(printable(brief[:_LONGEST])),)
    return ()


def resulting(name: str, shown: str, text: str, folder: CallFolder) -> tuple[CallContent, ...]:
    """Show what a call gave: its changes, or its output as text."""
    if changes := diffs_of(shown, folder):
        return changes
    told = shown or text
    if not told.strip():
        return ()
    if len(told) > _LONGEST:
        told = f"{told[:_LONGEST]}\n… {len(told) - _LONGEST:,} more characters"
    return (call_text(told if name in STARTS_AGENT else _fenced(told)),)


def output_so_far(text: str) -> tuple[CallContent, ...]:
    """Show what a call has printed while it runs."""
    return (call_text(_fenced(text)),)


def diffs_of(text: str, folder: CallFolder) -> tuple[CallDiff, ...]:
    """Read a diff as changes of parts of a file; empty if it is none, or says only how large."""
    lines = text.split("\n")
    if len(lines) < 3 or not lines[0].startswith("--- ") or not lines[1].startswith("+++ "):
        return ()
    return tuple(_hunks(folder.absolute(lines[1][4:]), lines[2:]))


def _hunks(path: str, lines: Sequence[str]) -> Iterator[CallDiff]:
    old: list[str] = []
    new: list[str] = []
    fresh = False
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if old or new:
                before = None if fresh and not old else "\n".join(old)
                yield CallDiff(path=path, old_text=before, new_text="\n".join(new))
            old, new = [], []
            found = _HUNK.match(line)
            # A file that was not there has no line before its first.
            fresh = found is not None and found[1] == "0"
            continue
        if line.startswith(("-", " ")):
            old.append(line[1:])
        if line.startswith(("+", " ")):
            new.append(line[1:])


def _fenced(text: str, language: str = "") -> str:
    """Put a text between fences that do not occur in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
