"""kill -9 of a program at its n-th call of git or another tool, before that call or after it.

Programs of the same names stand first on the PATH, count the calls over all of them, and kill
whoever made the one that is meant. So every moment between two steps can be tried, one by one:

    steps = StepKill(folder, ["git", "rm"])
    while steps.run(words, at=number, when="after").killed:
        ...  # look at what is left, make it anew
        number += 1
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from prong.errors import NotInstalled

KillMoment: TypeAlias = Literal["before", "after"]
"""Whether the call that is meant has been made when its caller is killed."""

_KILLED = 9
"""The signal that ends a program at once."""

_SCRIPT = """#!/bin/sh
number=1
set -C
until { true > "$PRONG_STEPS/$number"; } 2> /dev/null; do number=$((number + 1)); done
set +C
printf '%s\\n' NAME "$@" > "$PRONG_STEPS/$number"
[ "$PRONG_STEP before" = "$number $PRONG_MOMENT" ] && kill -9 $PPID && exit 137
REAL "$@"
code=$?
[ "$PRONG_STEP after" = "$number $PRONG_MOMENT" ] && kill -9 $PPID
exit $code
"""
"""Makes the file of its number, which only one can; then writes its words there."""


class SteppedRun(msgspec.Struct, frozen=True):
    """What became of a program."""

    killed: bool
    """It was, at the call that was meant; otherwise it came to its end."""
    code: int
    calls: tuple[tuple[str, ...], ...]
    """The calls it made, in order, each with the name of what was called."""
    errors: str
    """What it wrote to standard error."""


class StepKill:
    """Programs that stand for others and kill their caller when it is time."""

    def __init__(self, folder: Path, names: Sequence[str] = ("git",)) -> None:
        """Make the programs in a folder.

        Raises NotInstalled if one of those they stand for is not there.
        """
        self._programs = folder / "bin"
        self._calls = folder / "calls"
        self._programs.mkdir(parents=True)
        for name in names:
            real = shutil.which(name)
            if real is None:
                raise NotInstalled(f"{name} was not found")
            script = _SCRIPT.replace("NAME", shlex.quote(name)).replace("REAL", shlex.quote(real))
            (self._programs / name).write_text(script)
            (self._programs / name).chmod(0o755)

    def run(
        self,
        words: Sequence[str],
        *,
        at: int = 0,
        when: KillMoment = "before",
        env: Mapping[str, str] | None = None,
    ) -> SteppedRun:
        """Run a program until its call number `at`, or to its end if it makes no so many."""
        shutil.rmtree(self._calls, ignore_errors=True)
        self._calls.mkdir()
        own = {"PRONG_STEPS": str(self._calls), "PRONG_STEP": str(at), "PRONG_MOMENT": when}
        given = os.environ if env is None else env
        path = f"{self._programs}{os.pathsep}{given.get('PATH', os.defpath)}"
        done = subprocess.run(
            words,
            env={**given, **own, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        # Each took the first number that was free.
        numbers = range(1, len(list(self._calls.iterdir())) + 1)
        calls = [(self._calls / str(one)).read_text().splitlines() for one in numbers]
        killed = done.returncode == -_KILLED
        errors = done.stderr.decode(errors="replace")
        return SteppedRun(killed, done.returncode, tuple(map(tuple, calls)), errors)
