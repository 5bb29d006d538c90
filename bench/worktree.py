"""Making a worktree of a repository with 20,000 files, against plain `git worktree add`.

Both take turns on one repository; the lowest of several rounds count. Once the repository is as it
was committed, and once 200 files are changed and 200 new, which git's own command leaves behind. A
slow or busy disk hides everything else, so this is done in memory where there is a file system for
that, unless TMPDIR names another place. Runs alone too: `python bench/worktree.py`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
from measure import Row, show

from prong.host import LocalHost
from prong.host.worktree import Removed, create, finish

ROUNDS = 5
FILES = 20_000


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


async def times(files, *, dirty):
    """Give what each took, round by round: git's own command, and ours."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", memory)) as folder:
        root = Path(folder) / "repo"
        root.mkdir()
        make(root, files)
        if dirty:
            change(root)
        host = LocalHost(root)
        theirs, our_own = [], []
        for number in range(ROUNDS):
            theirs.append(plain(root, number))
            our_own.append(await ours(host, number))
        return theirs, our_own


def rows() -> Iterator[Row]:
    for dirty, bar in ((False, 1.3), (True, None)):
        theirs, our_own = anyio.run(partial(times, FILES, dirty=dirty))
        ratio = min(our_own) / min(theirs)
        middle = statistics.median(our_own) / statistics.median(theirs)
        told = (
            f"{ratio:.2f} ({min(our_own):.2f} to {min(theirs):.2f} s; the middle one {middle:.2f})"
        )
        what = (
            f"worktree of {FILES:,} files{', 200 changed, 200 new' if dirty else ''}, to git's own"
        )
        if bar is None:
            yield Row(what, told)
        else:
            yield Row(what, told, f"<= {bar:g}", ratio <= bar)


if __name__ == "__main__":
    raise SystemExit(show(rows()))
