"""Which processes are there, and whether they still run."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended; when init reaps one that has is no matter."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


def started_with(word: str) -> list[int]:
    """Give the processes that have a word in what they were started with."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(entry.name))
    return found
