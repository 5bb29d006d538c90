"""The start of a command that is held to a profile, against a plain one, in the same run.

All take turns on one host, from the call to the end of `true`. The lowest of many rounds counts,
and what it is above the plain one. Everybody but root comes into a view of the files by the
starter. Runs alone too: `python bench/sandbox.py`.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from measure import Row, show, under

from prong.host import LocalHost
from prong.host.git import Git
from prong.host.residue import own_folder
from prong.host.sandbox import NONE, Profile, spawn
from prong.host.worktree import create
from prong.tools.derive import reading, working, worktree
from prong.tools.ground import Policy, Sandboxing
from prong.tools.policy import Ground

ROUNDS = 150
BARS = {
    "reading": 1,
    "worktree": 1,
    "working": 6,
    "worktree, by the starter": 1,
    "working, by the starter": 6,
}
"""Milliseconds above a plain start."""


async def once(host: LocalHost, profile: Profile) -> float:
    start = time.perf_counter()
    process = await host.start("true", env={}, profile=profile)
    await process.wait()
    took = time.perf_counter() - start
    await process.kill()
    process.leave()
    return took


async def measure(root: Path) -> dict[str, float]:
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    host = LocalHost(root)
    box = Sandboxing(on=True, ability=host.ability, temp=("/var/tmp",))
    policy = Policy(root=str(root), home=str(Path.home()), sandbox=box)
    made = await create(host, "bench")
    own, common = await own_folder(Git(host, made.parent), made.path)
    ground = Ground(made.cwd, made.path, (made.parent,), own, common, made.branch)
    profiles = {
        "plain": NONE,
        "reading": reading(policy),
        "worktree": worktree(policy, ground),
        "working": working(policy),
    }
    by_starter = {f"{name}, by the starter": profiles[name] for name in ("worktree", "working")}
    taken: dict[str, list[float]] = {name: [] for name in [*profiles, *by_starter]}
    by_thread = spawn.enters_by_thread
    for _ in range(ROUNDS):
        for name, profile in profiles.items():
            taken[name].append(await once(host, profile))
        spawn.enters_by_thread = lambda: False
        for name, profile in by_starter.items():
            taken[name].append(await once(host, profile))
        spawn.enters_by_thread = by_thread
    await host.close()
    return {name: min(times) * 1000 for name, times in taken.items()}


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        if not LocalHost(folder).ability.views:
            yield Row("a command in a sandbox", "this system has none, or not all of it")
            return
        found = anyio.run(measure, Path(folder))
    plain = found["plain"]
    for name, bar in BARS.items():
        told = f"{found[name]:.2f} ms, plain {plain:.2f} ms"
        yield under(
            f"a command in '{name}': more than plain", found[name] - plain, bar, told, " ms"
        )


if __name__ == "__main__":
    show(rows())
