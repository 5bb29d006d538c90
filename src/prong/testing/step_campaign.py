"""kill -9 between any two steps of what Prong does with git, and what comes of it afterwards.

An operation runs in a process of its own and is killed at one of its calls of git, cp, mv, rm,
mkdir or ln, before that call or after it. What is found then is judged, and once more after the
ordinary recovery: a sweep, or the command given again. A point is an operation, a call and a
moment, and gives the same each time:

    python -m prong.testing.step_campaign            all points of all operations
    python -m prong.testing.step_campaign undo merge those of two
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import anyio
import msgspec

from prong.testing import step_merge, step_worktree
from prong.testing.counted_trial import CountedTrial
from prong.testing.repository import Repo
from prong.testing.step_ground import StepGround
from prong.testing.step_kill import KillMoment, StepKill, SteppedRun
from prong.testing.torture import Trial

OPERATIONS = {**step_worktree.OPERATIONS, **step_merge.OPERATIONS}
"""What is killed."""
PROGRAMS = ("git", "cp", "mv", "rm", "mkdir", "ln")
"""What Prong calls to change something."""
_PERFORM = "import sys; from prong.testing.step_campaign import perform; perform(*sys.argv[1:])"


class KillPoint(msgspec.Struct, frozen=True):
    """A moment between two steps of an operation."""

    at: int
    """The number of a call."""
    when: KillMoment


def perform(name: str, part: str, folder: str) -> None:
    """Prepare an operation, or do it."""
    found = OPERATIONS[name]
    anyio.run(found.prepare if part == "prepare" else found.perform, Repo(Path(folder)))


class SteppedOperation:
    """An operation that can be killed at each of its points."""

    def __init__(self, name: str, folder: Path) -> None:
        """Prepare it in a folder, and do it once without a kill."""
        self._name = name
        self._ground = StepGround(folder)
        self._kill = StepKill(folder / "programs", PROGRAMS)
        self._run("prepare")
        self._ground.save("start")
        self.calls = self._run("perform").calls
        """What it calls if nobody kills it."""
        self._ground.save("end")

    def _run(self, part: str, at: int = 0, when: KillMoment = "before") -> SteppedRun:
        words = [sys.executable, "-c", _PERFORM, self._name, part, str(self._ground.repo.path)]
        ended = self._kill.run(words, at=at, when=when)
        assert ended.killed or ended.code == 0, ended.errors
        return ended

    def points(self) -> Iterator[KillPoint]:
        """Give all points, in order."""
        for at in range(1, len(self.calls) + 1):
            for when in get_args(KillMoment):
                yield KillPoint(at, when)

    def attempt(self, point: KillPoint) -> str:
        """Kill it at a point; says what is wrong then, or after the recovery."""
        self._ground.restore("start")
        ended = self._run("perform", point.at, point.when)
        try:
            wrong = anyio.run(OPERATIONS[self._name].judge, self._ground)
        except Exception:  # noqa: BLE001 - whatever the recovery runs into is what is looked for
            wrong = traceback.format_exc()
        if not wrong:
            return ""
        called = _shown(ended.calls[point.at - 1]) if ended.killed else "nothing"
        return f"{self._name}, killed {point.when} call {point.at} ({called}): {wrong}"


def _shown(words: Sequence[str]) -> str:
    """Give a call without the settings that git has from us each time."""
    return re.sub(r" -c \S+=\S+", "", " ".join(words))


@contextmanager
def trials() -> Generator[Trial]:
    """Kill operations, each at a point that is drawn."""
    with tempfile.TemporaryDirectory() as folder:
        ready: dict[str, SteppedOperation] = {}

        def attempt(rng: random.Random, counts: Counter[str]) -> str:
            name = rng.choice(sorted(OPERATIONS))
            if name not in ready:
                ready[name] = SteppedOperation(name, Path(folder).resolve() / name)
            counts[name] += 1
            return ready[name].attempt(rng.choice(list(ready[name].points())))

        yield CountedTrial(attempt)


def main(names: Sequence[str]) -> int:
    """Try all points of operations, and print what was wrong; 1 if anything was."""
    failed = 0
    for name in names or OPERATIONS:
        with tempfile.TemporaryDirectory() as folder:
            operation = SteppedOperation(name, Path(folder).resolve() / name)
            found = [operation.attempt(point) for point in operation.points()]
        wrong = [one for one in found if one]
        failed += len(wrong)
        sys.stdout.write(f"{name}: {len(found)} points, {len(wrong)} failed\n")
        sys.stdout.writelines(f"  {one}\n" for one in wrong)
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
