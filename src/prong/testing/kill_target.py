"""Targets for agents elsewhere whose workers, machines and lines can be killed.

Each stands for one launcher: it knows who its processes are, and how the way to them is cut.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal, Protocol

from prong.testing.process_table import ProcessTable, kill_processes, read_processes

PATIENCE = 6.0
"""Seconds after which a machine counts as gone for good."""

SHORT = (0.5, 4.0)
"""Seconds for which something is away that comes back in time."""

WORKER = b"\0worker\0--stdio\0"
"""Among the words of every worker."""

Struck = Literal["session", "worker", "node", "line", "network", "gone", "actor", "stall"]
"""Who is killed: `network` is a line that stays away for a while, `gone` one that never comes back.

A node is a worker with all that it has started, and may be away for a while too. `actor` is what
holds a worker on a cluster, and `stall` stops it for a while.
"""

AWAY: frozenset[Struck] = frozenset(["node", "network", "gone", "stall"])
"""Those by which something is away."""


class KillTarget(Protocol):
    """A target of the settings, and what can be done to it."""

    kinds: tuple[Struck, ...]
    """Who can be killed; some more often than others."""
    bound: float
    """Seconds after which a session counts as hung whose target is gone."""
    settings: dict[str, Any]
    """What the settings say of it."""
    path: str
    """Where a session finds the programs that lead there."""
    away: tuple[float, float]
    """Seconds for which something is away, at least and at most."""

    async def strike(self, whom: Struck, session: int) -> bool:
        """Kill whoever is meant, of a session by the number of its process.

        False if that is not there; then nothing was done.
        """
        ...

    async def restore(self) -> None:
        """Bring back what is away, if anything is."""
        ...

    async def left(self) -> str:
        """Say what is left there of a session that has ended; then it is left no more."""
        ...


class ProcessKills:
    """Workers that the session has started by itself."""

    def __init__(self, folder: Path) -> None:
        """Have copies of repositories in a folder."""
        self.kinds: tuple[Struck, ...] = ("session", "worker", "node")
        self.bound = 80.0
        self.away = SHORT
        self.settings: dict[str, Any] = {
            "launcher": "process",
            "folder": str(folder / "far"),
            "python": sys.executable,
            "patience": PATIENCE,
        }
        self.path = os.environ["PATH"]

    async def strike(self, whom: Struck, session: int) -> bool:
        """Kill the workers, with all that they have started if a machine is meant."""
        table = read_processes()
        below = table.below({session}) - {session}
        found = self._find(whom, table, below)
        if found and whom in AWAY:
            self._cut()
        kill_processes(found)
        return bool(found)

    def _find(self, whom: Struck, table: ProcessTable, below: set[int]) -> set[int]:
        workers = table.holding(WORKER) & below
        return workers if whom == "worker" else table.below(workers)

    def _cut(self) -> None:
        """Have nothing to cut: whoever starts a worker finds it."""

    async def restore(self) -> None:
        """Have nothing to bring back."""

    async def left(self) -> str:
        """Have nothing that does not end with the session's own processes."""
        return ""


_SSH = """#!/bin/sh
[ -e "${0%/*}/away" ] && { echo 'ssh: connect to host far: Connection timed out' >&2; exit 255; }
for last; do :; done
exec 3<&0
sh -c "$last" <&3 3<&- &
wait $!
"""
"""Stands for ssh: what it starts is not it, so that the line can die alone, and stay away."""


class SshKills(ProcessKills):
    """Workers to which a program leads that stands for ssh."""

    def __init__(self, folder: Path) -> None:
        """Have that program in a folder, and copies of repositories."""
        super().__init__(folder)
        self.kinds = (*self.kinds, "line", "network", "gone")
        self.settings |= {"launcher": "ssh", "host": "far"}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "ssh").write_text(_SSH)
        (programs / "ssh").chmod(0o755)
        self.path = f"{programs}:{self.path}"
        self._away = programs / "away"

    def _find(self, whom: Struck, table: ProcessTable, below: set[int]) -> set[int]:
        leads = table.holding(b"/bin/ssh\0") & below
        if whom in {"line", "network", "gone"}:
            return leads
        found = super()._find(whom, table, below)
        return found if whom == "worker" else found | leads

    def _cut(self) -> None:
        self._away.touch()

    async def restore(self) -> None:
        """Let the program lead there again."""
        self._away.unlink(missing_ok=True)
