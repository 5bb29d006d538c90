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
_LONGEST = 20_000
"""Characters of a result that an editor is sent; the model has all of it."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def kind_of_tool(name: str) -> CallKind:
    """Say in the protocol's words what a tool does."""
    return _KINDS.get(name, "other")


def read_arguments(arguments: str) -> dict[str, Any]:
    """Read the arguments of a call; empty if they are no object."""
    try:
        read: object = msgspec.json.decode(arguments.encode(errors="replace"))
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


def raw_arguments(arguments: str) -> msgspec.Raw | msgspec.UnsetType:
    """Give arguments as JSON that can stand in a line, if they are JSON."""
    read = read_arguments(arguments)
    return msgspec.Raw(msgspec.json.encode(read)) if read else msgspec.UNSET


def locations_of(arguments: dict[str, Any], cwd: str) -> tuple[CallLocation, ...]:
    """Give the files that a call names, absolute as the protocol has them."""
    for key in _FILES:
        if isinstance(path := arguments.get(key), str) and path:
            line = arguments.get("offset")
            return (
                CallLocation(
                    path=os.path.join(cwd, path),  # noqa: PTH118 - a text of the model's
                    line=line if isinstance(line, int) and line > 0 else None,
                ),
            )
    return ()


def intended(name: str, arguments: dict[str, Any]) -> tuple[CallContent, ...]:
    """Show what a call is to do, where its title cannot: a command in full, an agent's task."""
    if isinstance(command := arguments.get("command"), str) and name == "Bash":
        return (call_text(_fenced(command, "sh")),)
    if isinstance(brief := arguments.get("prompt"), str) and name in STARTS_AGENT:
        return (call_text(brief[:_LONGEST]),)
    return ()


def resulting(name: str, shown: str, text: str, cwd: str) -> tuple[CallContent, ...]:
    """Show what a call gave: its changes, or its output as text."""
    if changes := diffs_of(shown, cwd):
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


def diffs_of(text: str, cwd: str) -> tuple[CallDiff, ...]:
    """Read a diff as changes of parts of a file; empty if it is none, or says only how large."""
    lines = text.split("\n")
    if len(lines) < 3 or not lines[0].startswith("--- ") or not lines[1].startswith("+++ "):
        return ()
    path = os.path.join(cwd, lines[1][4:])  # noqa: PTH118 - as the tool wrote it
    return tuple(_hunks(path, lines[2:]))


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
