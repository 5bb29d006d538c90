"""kill -9 of real `prong merge` processes at any moment, each run again until it is through.

A repository has branches of children that fit together, and changes of the user's that are not
committed. However often the merge is killed, in the end every child is merged once, the user's
changes are where they were, and git finds nothing half done.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from prong.host import LocalHost
from prong.host.worktree import create, finish
from prong.testing.repository import Repo, make_repo
from prong.testing.torture import Trial

BOUND = 60.0
"""Seconds after which a merge counts as hung."""
_LINES = ["one", "two", "three", "four", "five", "six", "seven"]


class Plan(msgspec.Struct, frozen=True):
    """What there is to merge, and when it is killed."""

    children: int
    staged: bool
    """Whether the user has something in the index."""
    kills: tuple[float, ...]
    """Seconds after the start of each run."""


def plan(rng: random.Random) -> Plan:
    """Choose one."""
    kills = tuple(rng.uniform(0.1, 0.9) for _ in range(rng.randint(1, 3)))
    return Plan(rng.randint(1, 3), rng.random() < 0.5, kills)


def _text(children: set[int]) -> str:
    """Give the lines of a file in which each child has changed one."""
    said = {_LINES[3 * number]: f"child {number}" for number in children}
    return "".join(f"{said.get(line, line)}\n" for line in _LINES)


async def _make(repo: Repo, planned: Plan) -> None:
    host = LocalHost(repo.path)
    for number in range(planned.children):
        made = await create(host, f"c{number}")
        place = Repo(Path(made.path))
        place.write("a.txt", _text({number}))
        place.write(f"new-{number}", "n\n")
        repo.commit(f"c{number} did it", cwd=made.path)
        await finish(host, made)
    await host.close()
    repo.write("src/b.txt", "mine\n")
    repo.write("untracked", "mine too\n")
    if planned.staged:
        repo.git("add", "src/b.txt")


def _merge(repo: Repo, kill: float | None) -> int:
    with subprocess.Popen(
        [sys.executable, "-m", "prong", "merge"],
        cwd=repo.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(BOUND if kill is None else kill)
        process.kill()
    return -9 if kill is not None else 1


def _judge(repo: Repo, planned: Plan) -> str:
    """Say what is wrong with a repository after the last merge."""
    if (found := (repo.path / "a.txt").read_text()) != _text(set(range(planned.children))):
        return f"a.txt is {found!r}"
    subjects = repo.git("log", "--first-parent", "--format=%s").splitlines()
    if len(subjects) != 1 + planned.children:
        return f"the history is {subjects}"
    diff = ("diff", "--name-only")
    changed, staged = repo.git(*diff), repo.git(*diff, "--cached")
    mine = ("", "src/b.txt") if planned.staged else ("src/b.txt", "")
    if (changed, staged) != mine or (repo.path / "src/b.txt").read_text() != "mine\n":
        return f"the user's changes are {changed!r}, of which {staged!r} are staged"
    if (others := repo.git("ls-files", "--others", "--exclude-standard")) != "untracked":
        return f"files that nobody has committed: {others!r}"
    folder = repo.path / ".git"
    left = [name for name in ("index.lock", "HEAD.lock", "MERGE_HEAD") if (folder / name).exists()]
    if left:
        return f"git is left with {left}"
    return repo.git("fsck", "--no-dangling", ok=False)


@contextmanager
def trials() -> Generator[Trial]:
    """Kill merges, each in a repository of its own."""

    def trial(rng: random.Random) -> str:
        planned = plan(rng)
        with tempfile.TemporaryDirectory() as folder:
            repo = make_repo(Path(folder).resolve() / "project")
            anyio.run(_make, repo, planned)
            codes = [_merge(repo, kill) for kill in (*planned.kills, None)]
            wrong = _judge(repo, planned) if codes[-1] == 0 else f"it ended with {codes[-1]}"
        return f"{planned}: {wrong}" if wrong else ""

    yield trial
