"""Processes that are killed at any moment and started again until their work is done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence


def swarm(
    works: Mapping[str, Callable[[], None]], rng: random.Random, *, kills: int, pause: float
) -> int:
    """Run each work in a process of its own, and `kill -9` one after the other so many times.

    Gives how many were killed. For a program without threads: it forks. Raises RuntimeError if a
    work fails by itself.
    """
    assert sys.platform != "win32"
    killed = 0
    running = {_start(work): name for name, work in works.items()}
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0, pause))
            if not running:
                break
            victim = rng.choice(sorted(running))
            name = running.pop(victim)
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            if not os.WIFEXITED(status):
                killed += 1
                running[_start(works[name])] = name
            elif status:
                raise RuntimeError(f"{name} failed")
        while running:
            pid, status = os.wait()
            if status:
                raise RuntimeError(f"{running.pop(pid)} failed")
            del running[pid]
        return killed
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _start(work: Callable[[], None]) -> int:
    assert sys.platform != "win32"
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    try:
        work()
    except BaseException:  # noqa: BLE001 - nothing may leave the forked process
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def run_alone(module: str, words: Sequence[str], *, bound: float) -> str:
    """Run a module of `prong.testing` as a program; gives what it found wrong."""
    done = subprocess.run(
        [sys.executable, "-m", f"prong.testing.{module}", *words],
        capture_output=True,
        text=True,
        timeout=bound,
        check=False,
    )
    return done.stdout if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"
