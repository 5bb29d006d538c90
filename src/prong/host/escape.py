"""Processes that have left their group, and so are not ended with the session that started them.

Daemons do so on purpose and are not killed, but they are not passed over in silence either. They
are known by a mark in the environment they were started with. Where there is no /proc none is
found, nor is one that was given another environment.
"""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from prong.host.guardian import GUARDIAN

MARK = "PRONG_SESSION"
"""The environment variable that says of which session a command is."""

_LENGTH = 80


def escaped(session: str) -> list[str]:
    """Describe the processes of a session that are in none of the groups which end with it."""
    mark = f"{MARK}={session}".encode()
    found = [_describe(pid, mark, GUARDIAN.groups) for pid in _processes()]
    return [text for text in found if text]


def _processes() -> list[str]:
    with suppress(FileNotFoundError):
        return sorted((n for n in os.listdir("/proc") if n.isdecimal()), key=int)  # noqa: PTH208 - many
    return []


def _describe(pid: str, mark: bytes, groups: Container[int]) -> str:
    # Others' processes cannot be read, and any may end meanwhile.
    with suppress(OSError, ValueError):
        folder = Path("/proc", pid)
        if mark not in folder.joinpath("environ").read_bytes().split(b"\0"):
            return ""
        # The second field is the program's name in brackets and may hold anything.
        state, _, group, *_ = folder.joinpath("stat").read_bytes().rpartition(b")")[2].split()
        if state in {b"Z", b"X"} or int(group) in groups:
            return ""
        words = folder.joinpath("cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        line = "".join(c if c.isprintable() else "?" for c in " ".join(words).strip())
        return f"{pid} ({line if len(line) <= _LENGTH else f'{line[: _LENGTH - 1]}…'})"
    return ""
