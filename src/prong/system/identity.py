"""Who this is: the user, the machine, and whether a process is still the one that it was."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Literal, TypeAlias

Presence: TypeAlias = Literal["gone", "there", "another's"]
"""What there is of a process: nothing, one of ours, one of another user's."""

if sys.platform == "win32":
    from prong.system import windows_call

    def user_id() -> int:
        """Give the user's number, as files have it; on Windows all of them have none."""
        return 0

    def machine_name() -> str:
        """Give the name of this machine."""
        import socket

        return socket.gethostname()

    def presence(pid: int) -> Presence:
        """Say what there is of a process by its number."""
        try:
            return "gone" if windows_call.process_started(pid) is None else "there"
        except PermissionError:
            return "another's"

    def started(pid: int) -> int:
        """Give the moment a process was started, in the system's own ticks; 0 if nobody tells."""
        with suppress(OSError):
            return windows_call.process_started(pid) or 0
        return 0

    def is_alive(pid: int, since: int) -> bool:
        """Whether a process that was started at that moment still runs; a zombie does not."""
        return presence(pid) != "gone" and started(pid) == since

else:

    def user_id() -> int:
        """Give the user's number, as files have it; on Windows all of them have none."""
        return os.getuid()

    def machine_name() -> str:
        """Give the name of this machine."""
        return os.uname().nodename

    def presence(pid: int) -> Presence:
        """Say what there is of a process by its number."""
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return "gone"
        except PermissionError:
            return "another's"
        return "there"

    def started(pid: int) -> int:
        """Give the moment a process was started, in the system's own ticks; 0 if nobody tells."""
        return _look(pid)[1]

    def is_alive(pid: int, since: int) -> bool:
        """Whether a process that was started at that moment still runs; a zombie does not."""
        if presence(pid) == "gone":
            return False
        state, moment = _look(pid)
        return state not in {"Z", "X"} and moment == since

    if sys.platform == "linux":

        def _look(pid: int) -> tuple[str, int]:
            """Give a process's state and when it was started, in the kernel's ticks."""
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - quick
                    # The second field is the program's name in brackets and may hold anything.
                    fields = file.read().rpartition(b")")[2].split()
                return fields[0].decode(), int(fields[19])
            return "", 0

    else:

        def _look(pid: int) -> tuple[str, int]:
            """Give a process's state and when it was started, in seconds; there is no /proc."""
            import subprocess

            asked = ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)]
            env = {"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"}
            with suppress(OSError, ValueError, subprocess.SubprocessError):
                said = subprocess.run(asked, env=env, capture_output=True, check=True, timeout=5)
                return read_ps(said.stdout.decode())
            return "", 0


def system_name() -> str:
    """Name the system and its processor, for people and models."""
    import platform

    return f"{platform.system()} {platform.machine()}"


def usable_cores() -> int:
    """Say how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_ps(line: str) -> tuple[str, int]:
    """Read the state and the start of a process from what `ps` says, in UTC and in plain C.

    Raises ValueError.
    """
    import calendar
    import time

    state, _, moment = line.strip().partition(" ")
    return state[:1], calendar.timegm(time.strptime(moment.strip(), "%a %b %d %H:%M:%S %Y"))
