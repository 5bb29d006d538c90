"""The clocks of the test kit, and its public names."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

import prong.testing
from prong.testing import Clock, WallClock

pytestmark = pytest.mark.anyio


async def test_sleepers_wake_when_they_are_due() -> None:
    """Each sleeper wakes when the time has passed its own mark, in no other way."""
    clock = Clock(start=100)
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with anyio.create_task_group() as group:
        for seconds in (10, 20, 30):
            group.start_soon(sleep, seconds)
        await anyio.wait_all_tasks_blocked()
        assert clock.sleepers == 3
        clock.advance(20)
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == [10, 20]
        clock.advance(9.5)
        await anyio.wait_all_tasks_blocked()
        assert clock.sleepers == 1
        clock.advance(0.5)

    assert woken[-1] == 30
    assert clock.now() == 130


async def test_a_cancelled_sleeper_no_longer_counts() -> None:
    """Who is cancelled does not wait any more."""
    clock = Clock()
    with anyio.move_on_after(0):
        await clock.sleep(5)

    assert clock.sleepers == 0
    await clock.sleep(0)


def test_a_wall_clock_can_be_pushed() -> None:
    """It runs by itself and jumps when told."""
    clock = WallClock()
    before = clock.now()
    clock.advance(1000)

    assert clock.now() - before >= 1000


def test_every_public_name_exists_and_none_is_imported_early() -> None:
    """The kit's names resolve, and importing the package alone loads no server."""
    for name in prong.testing.__all__:
        assert getattr(prong.testing, name) is not None
    code = "import sys, prong.testing; print([m for m in sys.modules if 'asyncio' in m or 'testing.' in m])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="nothing"):
        _ = prong.testing.nothing
