"""Who holds a worktree: written as the reason of git's lock, read back after a crash."""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

_REASON = r"(?s)prong: in use by process (\d+) \(started (\d+)\) on (.*)"


def reason() -> str:
    """Name this process so that another can tell whether it still lives."""
    pid = os.getpid()
    return f"prong: in use by process {pid} (started {started(pid)}) on {os.uname().nodename}"


def is_gone(text: str) -> bool:
    """Whether the process that a lock's reason names has certainly ended.

    Of another machine's process nothing is certain, nor of a lock somebody else has set.
    """
    found = re.fullmatch(_REASON, text)
    if found is None or found[3] != os.uname().nodename:
        return False
    pid = int(found[1])
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    # The number may have been given to another process since.
    return started(pid) != int(found[2])


def tag() -> str:
    """Name this process and machine in a part of a file's name."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}-{os.getpid()}"


def is_gone_tag(text: str) -> bool:
    """Whether the process of such a name was one of this machine and has ended."""
    machine, _, pid = text.rpartition("-")
    if machine != tag().rpartition("-")[0]:
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def is_alive(pid: int, since: int) -> bool:
    """Whether a process that was started at that moment still runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0] not in {b"Z", b"X"} and started(pid) == since
    return started(pid) == since


def started(pid: int) -> int:
    """Give the moment a process was started, in the kernel's ticks; 0 where there is no /proc."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    return 0
