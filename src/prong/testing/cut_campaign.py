"""A line to a real sshd that is cut for a minute while forks work there, and comes back.

It is the campaign of `remote_campaign` with cuts that are long: connections break, or packets are
lost and nobody hears of it, so that one side notices long before the other, or neither does. Now
and then the session or the worker is killed too.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prong.testing.counted_trial import CountedTrial
from prong.testing.cuttable_proxy import CuttableProxy, cuttable_proxy
from prong.testing.kill_target import WORKER, KillTarget, ProcessKills, Struck
from prong.testing.process_table import kill_processes, read_processes
from prong.testing.remote_campaign import remote_trials
from prong.testing.ssh_host import SshHost, ssh_host

_MINUTE = (55.0, 75.0)
_PATIENCE = 180.0


class SshCuts(ProcessKills):
    """Workers to which the real ssh leads, by a line that can be cut."""

    def __init__(
        self,
        host: SshHost,
        proxy: CuttableProxy,
        folder: Path,
        *,
        silent: bool,
        away: tuple[float, float],
    ) -> None:
        """Have connections break at a cut, unless it is a silent one."""
        super().__init__(folder)
        self.kinds: tuple[Struck, ...] = ("network", "network", "network", "session", "worker")
        self.bound = 400.0
        self.away = away
        self.settings |= {"launcher": "ssh", "host": host.name, "patience": _PATIENCE}
        self.path = f"{host.bin}:{os.environ['PATH']}"
        self._host = host
        self._far = folder / "far"
        self._proxy = proxy
        self._silent = silent

    async def strike(self, whom: Struck, session: int) -> bool:  # noqa: ARG002 - sshd starts workers
        """Kill the worker, or cut the line to it; one that has not led there yet just fails."""
        table = read_processes()
        workers = table.holding(WORKER) & table.below({self._host.pid})
        working = workers and any(self._far.glob("*/.prong/worktrees/*/part.txt"))
        if working and whom == "network":
            self._proxy.cut(silent=self._silent)
        elif working:
            kill_processes(workers)
        return bool(working)

    async def restore(self) -> None:
        """Let everything through again."""
        self._proxy.restore()


@contextmanager
def trials(away: tuple[float, float] = _MINUTE) -> Generator[CountedTrial]:
    """Cut the line of sessions with work on another machine, which is this one, for some time.

    Raises NotInstalled if there is no sshd.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ssh_host(Path(folder) / "ssh") as host,
        cuttable_proxy("127.0.0.1", host.port) as proxy,
    ):
        host.reach_by(proxy.port)

        def make(rng: random.Random, folder: Path) -> KillTarget:
            return SshCuts(host, proxy, folder, silent=rng.random() < 0.5, away=away)

        yield remote_trials(make)
