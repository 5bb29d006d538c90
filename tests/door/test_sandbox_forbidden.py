"""Containers and kernels that refuse calls which the sandbox needs: never weaker than announced."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from prong.host.sandbox import Profile
from shared import forbidden
from shared.sandbox import ABLE, kernel

pytestmark = [pytest.mark.door, pytest.mark.spec("L13"), kernel]

_HARM = ("inside", "outside", "protected", "hook", "moved", "denied", "modes", "socket")
_WORKING = Profile(name="working", kept=("/x",))
CASES = {
    "no Landlock": ((444, 445, 446), errno.ENOSYS, "none"),
    "Landlock is forbidden": ((444, 445, 446), errno.EPERM, "none"),
    "its version alone is told": ((446,), errno.EPERM, "none"),
    "no rules can be added": ((445,), errno.EPERM, "none"),
    "no privileges can be given up": ((157,), errno.EPERM, "none"),
    "no filters": ((317,), errno.EPERM, "in part"),
    "no namespaces": ((272,), errno.EPERM, "no views"),
    "no copies of mounts": ((428,), errno.ENOSYS, "no views"),
    "no moves of mounts": ((429,), errno.EPERM, "no views"),
    "no flags of mounts": ((442,), errno.ENOSYS, "no views"),
    "no mounts": ((165,), errno.EPERM, "no views"),
}
"""What is refused, by the numbers of x86_64, with which error, and what is left of the sandbox."""


def look(folder: Path, numbers: tuple[int, ...], error: int) -> forbidden.Told:
    words = [str(error), ",".join(map(str, numbers)), str(folder)]
    paths = [str(Path(forbidden.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        [sys.executable, forbidden.__file__, *words],
        env={**os.environ, "PYTHONPATH": ":".join(paths)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return msgspec.json.decode(ended.stdout, type=forbidden.Told)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="by the numbers of x86_64")
@pytest.mark.parametrize("case", CASES)
def test_what_is_announced_holds_where_calls_are_refused(case: str, tmp_path: Path) -> None:
    """Less is held, that is said, what is said to be held is, and commands run all the same."""
    numbers, error, left = CASES[case]
    told = look(tmp_path, numbers, error)

    assert told.warned, "less is held than here, and nobody says so"
    assert told.working["inside"] == "done"
    assert "no start" not in {*told.reading.values(), *told.working.values()}
    assert told.ability.some == (left != "none")
    assert told.ability.writes == (left == "no views")
    assert not told.ability.holds(_WORKING)
    if told.ability.holds(Profile(name="reading")):
        assert {name: told.reading[name] for name in _HARM} == dict.fromkeys(_HARM, "refused")
    if told.ability.writes:
        assert told.working["outside"] == told.working["socket"] == "refused"


def test_where_nothing_is_refused_all_is_held(tmp_path: Path) -> None:
    """The same look around finds a whole sandbox where there is one, and no harm done in it."""
    told = look(tmp_path, (), errno.EPERM)

    assert told.ability == ABLE
    assert bool(told.warned) == (not ABLE.views)
    assert {name: told.reading[name] for name in _HARM} == dict.fromkeys(_HARM, "refused")
    if ABLE.views:
        held = ("outside", "protected", "hook", "moved", "denied", "modes")
        assert {name: told.working[name] for name in held} == dict.fromkeys(held, "refused")
