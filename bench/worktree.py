"""Making a worktree of a repository with 20,000 files, against plain `git worktree add`.

Both take turns on one repository; the lowest and the middle of several rounds are shown, and the
ratios of both. With `--dirty`, 200 files are changed and 200 new before. A slow or busy disk hides
everything else: set TMPDIR to a file system in memory to see the work itself. Run:
TMPDIR=/dev/shm python bench/worktree.py [--dirty] [FILES]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from prong.host import LocalHost
from prong.host.worktree import Removed, create, finish

ROUNDS = 5


def git(*args, cwd):
    subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True)


def make(root, files):
    git("init", "-q", cwd=root)
    for number in range(files):
        folder = root / f"d{number % 200:03}" / f"e{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"value = {number}\n" * (number % 90 + 10))
    git("add", "-A", cwd=root)
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    git(*who, "commit", "-qm", "all", cwd=root)


def change(root):
    for number in range(200):
        folder = root / f"d{number % 200:03}" / f"e{number % 7}"
        (folder / f"f{number}.py").write_text("changed\n")
        (folder / f"new{number}.py").write_text("new\n")


def plain(root, number):
    start = time.perf_counter()
    git("worktree", "add", "-q", "-b", f"plain-{number}", f"{root}-plain-{number}", cwd=root)
    took = time.perf_counter() - start
    git("worktree", "remove", f"{root}-plain-{number}", cwd=root)
    return took


async def ours(host, number):
    start = time.perf_counter()
    made = await create(host, f"ours-{number}")
    took = time.perf_counter() - start
    assert isinstance(await finish(host, made), Removed)
    return took


async def main():
    words = [word for word in sys.argv[1:] if word != "--dirty"]
    files = int(words[0]) if words else 20_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repo"
        root.mkdir()
        make(root, files)
        if "--dirty" in sys.argv:
            change(root)
        host = LocalHost(root)
        times = {"git worktree add": [], "prong": []}
        for number in range(ROUNDS):
            times["git worktree add"].append(plain(root, number))
            times["prong"].append(await ours(host, number))
        for name, taken in times.items():
            middle = statistics.median(taken)
            print(f"{name:<18} lowest {min(taken):.3f} s   middle {middle:.3f} s")
        first, second = times.values()
        low = min(second) / min(first)
        middle = statistics.median(second) / statistics.median(first)
        print(f"ratio {low:.2f} lowest, {middle:.2f} middle, for {files:,} files")


anyio.run(main)
