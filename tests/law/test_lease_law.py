"""Whoever has the highest number works in a workspace, however those who come meet."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from prong.errors import NotPossibleNow
from prong.host.lease import RunLease

pytestmark = pytest.mark.spec("R3")


def test_of_two_that_come_at_once_the_higher_stays(tmp_path: Path) -> None:
    """In whatever order their steps fall, the lower one knows that it has lost, and the higher not.

    Each step of the one is followed by a whole turn of the other.
    """
    moment = 0
    for moment in itertools.count():
        path = tmp_path / str(moment)
        path.mkdir()
        lower, higher = RunLease(str(path / "task"), 3), RunLease(str(path / "task"), 4)
        steps = Steps(path, at=moment, then=higher)
        with steps:
            try:
                lower.take()
                refused = False
            except NotPossibleNow:
                refused = True
        if not steps.done:
            break
        assert refused or lower.lost, moment
        assert not higher.lost, moment
    assert moment > 2


class Steps:
    """Lets another take the lease after so many looks or changes of this one in a folder."""

    def __init__(self, folder: Path, *, at: int, then: RunLease) -> None:
        self._folder = str(folder)
        self._at = at
        self._then = then
        self.done = False

    def __enter__(self) -> None:
        STEPS.append(self)

    def __exit__(self, *_: object) -> None:
        STEPS.remove(self)

    def step(self, path: str) -> None:
        if self.done or not path.startswith(self._folder):
            return
        if self._at == 0:
            self.done = True
            self._then.take()
        self._at -= 1


STEPS: list[Steps] = []
WATCHED = {"open", "os.mkdir", "os.rename", "os.remove", "os.listdir", "os.scandir", "os.rmdir"}


def _hook(event: str, given: tuple[object, ...]) -> None:
    if STEPS and event in WATCHED and given:
        STEPS[-1].step(str(given[0]))


sys.addaudithook(_hook)
# It stays for as long as the process does, and says nothing outside of these tests.


def test_who_had_it_has_lost_it_when_the_workspace_is_gone(tmp_path: Path) -> None:
    """Also if another child has the same name by then, and begins to count anew."""
    late, last = RunLease(str(tmp_path / "task"), 2), RunLease(str(tmp_path / "task"), 3)
    late.take()
    last.take()
    last.drop()
    assert late.lost
    assert last.lost
    RunLease(str(tmp_path / "task"), 1).take()
    assert late.lost


def test_a_number_can_be_taken_again(tmp_path: Path) -> None:
    """Who holds it may say so twice, and nothing of earlier ones is left."""
    for number in (1, 2, 2, 5):
        lease = RunLease(str(tmp_path / "task"), number)
        lease.take()
        assert not lease.lost
    assert len([one for one in tmp_path.rglob("*") if one.is_file()]) == 1
    lease.drop()
    assert not list(tmp_path.iterdir())


def test_only_a_higher_number_overtakes(tmp_path: Path) -> None:
    """One that could not be written, and one that is gone, has lost its lease to nobody."""
    lower, higher = RunLease(str(tmp_path / "task"), 1), RunLease(str(tmp_path / "task"), 2)
    assert not lower.overtaken
    lower.take()
    assert not higher.overtaken
    higher.take()
    assert lower.overtaken
    assert not higher.overtaken
    higher.drop()
    assert lower.lost
    assert not lower.overtaken
