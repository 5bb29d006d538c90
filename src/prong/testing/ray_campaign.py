"""kill -9 of sessions, workers, actors and machines of a Ray cluster, and of what leads there.

It is the campaign of `remote_campaign` on a real cluster of two machines, which are processes of
this one: the first is its head, the second is killed and another one added. Sessions are on a
machine of the cluster, or reach it by `ray://` through a line that can be cut.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from prong.errors import NotInstalled
from prong.testing.counted_trial import CountedTrial
from prong.testing.cuttable_proxy import CuttableProxy, cuttable_proxy
from prong.testing.kill_target import PATIENCE, SHORT, WORKER, KillTarget, Struck
from prong.testing.process_table import (
    continue_processes,
    kill_processes,
    read_processes,
    stop_processes,
)
from prong.testing.ray_cluster import HAS_CLIENT, HAS_RAY, RayNodes, ray_cluster
from prong.testing.remote_campaign import remote_trials

_KINDS: tuple[Struck, ...] = ("session", "worker", "actor", "line", "node")
_INSIDE: tuple[Struck, ...] = (*_KINDS, "stall")
_OUTSIDE: tuple[Struck, ...] = (*_KINDS * 3, "network", "network", "network", "gone")
"""One that is cut off for good waits for some minutes, so there are few of those."""

_ENDS = 80.0
"""Seconds until an actor has ended that nobody wants: one without a worker is kept for a minute."""


class RayKills:
    """Workers on a cluster that outlives the session; its second machine has the label `b`."""

    def __init__(self, nodes: RayNodes, rng: random.Random, folder: Path) -> None:
        """Choose how many workers there are, and where; sessions are inside of the cluster."""
        self.kinds = _INSIDE
        self.bound = 120.0
        self.away = SHORT
        self.settings: dict[str, Any] = {
            "launcher": "ray",
            "address": nodes.address,
            "folder": str(folder / "far"),
            "python": sys.executable,
            "patience": PATIENCE,
            "workers": rng.choice([1, 1, 1, 2, 3]),
        }
        if self.settings["workers"] == 1 or rng.random() < 0.5:
            self.settings["labels"] = {"zone": "b"}
        self.path = os.environ["PATH"]
        self._nodes = nodes
        self._rng = rng
        self._dead = False
        self._stalled: set[int] = set()

    async def strike(self, whom: Struck, session: int) -> bool:
        """Kill one of those that are meant, on any machine of the cluster or beside the session."""
        match whom:
            case "node":
                return self._kill_machine()
            case "stall":
                return self._stall()
            case _:
                found = sorted(self._find(whom, session))
                kill_processes(self._rng.sample(found, min(len(found), 1)))
                return bool(found)

    def _find(self, whom: Struck, session: int) -> set[int]:
        table, actors = read_processes(), self._nodes.actors()
        if whom == "actor":
            return actors
        if whom == "worker":
            return table.holding(WORKER) & table.below(actors)
        return table.holding(b"\0prong.team.ray_carrier\0") & table.below({session})

    def _kill_machine(self) -> bool:
        if not self._nodes.actors(self._nodes.second):
            return False
        self._dead = True
        self._nodes.kill(self._nodes.second)
        return True

    def _stall(self) -> bool:
        self._stalled = self._nodes.actors()
        stop_processes(self._stalled)
        return bool(self._stalled)

    async def restore(self) -> None:
        """Let actors go on, and have a new machine in place of one that was killed."""
        stalled, self._stalled = self._stalled, set()
        continue_processes(stalled)
        if self._dead:
            # In this thread, which alone may say what is done at a signal: Ray does.
            self._nodes.second = self._nodes.add("b", cpus=2)
            self._dead = False

    async def left(self) -> str:
        """Say that an actor is left, which is ended."""
        with anyio.move_on_after(_ENDS):
            while self._nodes.actors():  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.05)
            return ""
        found = self._nodes.actors()
        kill_processes(found)
        return f"{len(found)} actors are left" if found else ""


class RayClientKills(RayKills):
    """A cluster that the session reaches by a line to its head alone."""

    def __init__(
        self, nodes: RayNodes, rng: random.Random, folder: Path, proxy: CuttableProxy
    ) -> None:
        """Lead there by the proxy."""
        super().__init__(nodes, rng, folder)
        self.kinds = _OUTSIDE
        self.bound = 300.0
        self.settings["address"] = f"ray://127.0.0.1:{proxy.port}"
        self._proxy = proxy
        self._silent = rng.random() < 0.5
        self._gone = False

    async def strike(self, whom: Struck, session: int) -> bool:
        """Kill whoever is meant, or cut the line."""
        if whom not in {"network", "gone"}:
            return await super().strike(whom, session)
        if not self._find("line", session):
            return False
        self._gone = self._gone or whom == "gone"
        self._proxy.cut(silent=self._silent)
        return True

    async def restore(self) -> None:
        """Let the line lead there again too."""
        self._proxy.restore()
        await super().restore()

    async def left(self) -> str:
        """Say that an actor is left that could have been told to end."""
        wrong = await super().left()
        return "" if self._gone else wrong


@contextmanager
def trials() -> Generator[CountedTrial]:
    """Kill sessions with work on a cluster, which is started once.

    Raises NotInstalled if there is no Ray.
    """
    if not HAS_RAY:
        raise NotInstalled("Ray is not installed here: pip install 'prong[ray]'")
    with ray_cluster() as nodes:
        host, _, port = nodes.client.removeprefix("ray://").partition(":")
        with cuttable_proxy(host, int(port or 0)) as proxy:

            def make(rng: random.Random, folder: Path) -> KillTarget:
                if rng.random() < 0.3 and HAS_CLIENT:
                    return RayClientKills(nodes, rng, folder, proxy)
                return RayKills(nodes, rng, folder)

            yield remote_trials(make)
