"""Folders that no agent reads, whatever rules and the mode say; pure.

The keys by which members of a team know each other lie there: who reads them can speak for another.
So do the starts of members, which hold the leader's environment, the sockets by which members
are woken and seen, and the user's logins at MCP servers. Neither a tool nor a command gets at any,
and no rule and no mode opens them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_KEPT = ("teams/*/keys", "teams/*/start", "mcp-tokens")
_SPOKEN = re.compile(r"\bteams/[^/\s]+/(?:keys|start)\b|\bmcp-tokens\b", re.IGNORECASE)


def sealed_in(stores: Iterable[str], sockets: Iterable[str] = ()) -> tuple[str, ...]:
    """Name them for the folders in which Prong keeps what outlives a session; `*` is any name.

    `sockets` are the folders of sockets, and are sealed as they are.
    """
    kept = (f"{store.rstrip('/')}/{name}" for store in stores for name in _KEPT)
    return tuple(dict.fromkeys((*kept, *sockets)))


def holds_sockets(pattern: str) -> bool:
    """Whether one of them is a folder of sockets."""
    return not pattern.endswith(_KEPT)


def seal_pattern(pattern: str) -> str:
    """Write one as a regular expression for whole paths, with all that is in it."""
    return "[^/]+".join(re.escape(part) for part in pattern.split("*")) + r"(?:/.*)?"


def is_sealed(patterns: Sequence[str], path: str) -> bool:
    """Whether a path is one of them or lies in one; case does not matter."""
    return any(_compiled(one).fullmatch(path) for one in patterns)


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(seal_pattern(pattern), re.IGNORECASE | re.DOTALL)


def holds_sealed(patterns: Sequence[str], folder: str) -> bool:
    """Whether one of them may lie in a folder, or is it."""
    names = [name for name in folder.lower().split("/") if name]
    for pattern in patterns:
        parts = [part for part in pattern.lower().split("/") if part]
        if all(part in {name, "*"} for part, name in zip(parts, names, strict=False)):
            return True
    return False


def speaks_of_sealed(line: str) -> bool:
    """Whether a command line has the look of naming one, though its words cannot be told."""
    return _SPOKEN.search(line) is not None
