"""Who holds a worktree: written as the reason of git's lock, read back after a crash."""

from __future__ import annotations

import os
import re
import zlib

from prong.foreign_number import whole_number
from prong.system.identity import machine_name, presence, started

_REASON = r"(?s)prong: in use by process (\d+) \(started (\d+)\) on (.*)"


def reason() -> str:
    """Name this process so that another can tell whether it still lives."""
    pid = os.getpid()
    return f"prong: in use by process {pid} (started {started(pid)}) on {machine_name()}"


def is_elsewhere(text: str) -> bool:
    """Whether a lock's reason names a process of another machine, or nobody that can be known."""
    found = re.fullmatch(_REASON, text)
    return found is None or found[3] != machine_name()


def is_gone(text: str) -> bool:
    """Whether the process that a lock's reason names has certainly ended.

    Of another machine's process nothing is certain, nor of a lock somebody else has set.
    """
    found = re.fullmatch(_REASON, text)
    if found is None or is_elsewhere(text):
        return False
    pid, then = int(found[1]), int(found[2])
    if presence(pid) == "gone":
        return True
    now = started(pid)
    # The number may have been given to another process since; without both moments nobody knows.
    return now != then and 0 not in (now, then)


def tag() -> str:
    """Name this process and machine in a part of a file's name."""
    return f"{zlib.crc32(machine_name().encode()):08x}-{os.getpid()}"


def is_gone_tag(text: str) -> bool:
    """Whether the process of such a name was one of this machine and has ended."""
    machine, _, digits = text.rpartition("-")
    pid = whole_number(digits)
    if machine != tag().rpartition("-")[0] or pid is None:
        return False
    return presence(pid) == "gone"
