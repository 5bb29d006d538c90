"""Who holds a worktree: only a process that has certainly ended has let go of it."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from prong.host import owner

pytestmark = [pytest.mark.door, pytest.mark.spec("W4")]


@contextmanager
def no_more_files() -> Generator[None]:
    """Let this process open nothing, as one that has reached its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def held(pid: int, started: int) -> str:
    return f"prong: in use by process {pid} (started {started}) on {os.uname().nodename}"


def test_who_lives_has_not_gone() -> None:
    """A process that is there holds on; one that had its number before does not."""
    assert not owner.is_gone(owner.reason())
    assert owner.is_gone(held(os.getpid(), 1))
    assert owner.is_gone(held(999_999_999, 1))


def test_who_cannot_be_looked_at_has_not_gone() -> None:
    """A process short of files takes nobody's worktree for left behind."""
    text = owner.reason()
    with no_more_files():
        gone = owner.is_gone(text)

    assert not gone


def test_who_could_not_say_when_it_began_has_not_gone() -> None:
    """A lock that was set without the moment holds for as long as there is such a process."""
    assert not owner.is_gone(held(os.getpid(), 0))


def test_a_name_that_begins_alike_is_another_machine() -> None:
    """`web10` is not `web1`: each knows by the whole name who is its own."""
    text = owner.reason()

    assert not owner.is_elsewhere(text)
    assert owner.is_elsewhere(f"{text}0")
    assert owner.is_elsewhere("somebody's own lock")
