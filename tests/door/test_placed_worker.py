"""What is placed on a machine of a cluster: whose it is, and when it ends by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shared.remote import PlacedHere

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R3"), pytest.mark.timeout(120)]

ALONE = """
import sys, time
from prong.team import placed_worker
placed_worker._EMPTY = placed_worker._LOOK = 0.01
placed_worker.PlacedWorker("")
time.sleep(60)
sys.exit(3)
"""


def test_one_that_nobody_asks_for_anything_ends() -> None:
    """The session is gone for good, and others may want the room."""
    done = subprocess.run([sys.executable, "-c", ALONE], check=False)

    assert done.returncode == 0


async def test_whoever_asks_keeps_it() -> None:
    """By anything that is asked it is known to be wanted, be it refused."""
    actor = PlacedHere()
    for asking in (actor.attach("it", 1, ()), actor.attach("it", 2, (1,)), actor.hold("it", 1)):
        actor._asked = 0.0
        await asking
        assert actor._asked


async def test_only_the_line_that_has_it_uses_it() -> None:
    """Neither another process of the session nor another line of it reads, writes, holds or ends."""
    actor = PlacedHere()
    await actor.attach("it", 2, ())
    assert await actor.attach("it", 1, ()) == "", "an earlier line does not know of a later one"
    for owner, line in (("it", 1), ("it", 3), ("other", 2)):
        for asking in (
            actor.hold(owner, line),
            actor.push(owner, line, 0, b""),
            actor.pull(owner, line, 0, 0.0),
            actor.end(owner, line),
        ):
            with pytest.raises(RuntimeError, match="a later line of the session"):
                await asking
        await actor.leave(owner, line)
    assert actor._process is None, "nothing was started for them"


async def test_a_line_that_attaches_again_keeps_its_worker() -> None:
    """It may not have heard that it had it; a later one gets a worker of its own."""
    actor = PlacedHere()
    await actor.attach("it", 1, ())
    await actor.push("it", 1, 0, b"")
    first = actor._process
    assert first is not None
    assert await actor.attach("it", 1, ()) == "here"
    assert actor._process is first
    assert first.running
    assert actor.patience > 300, "work that goes on is worth the wait for a session"
    assert await actor.attach("it", 2, ()) == "here"
    assert not first.running
    assert actor._process is None
    assert actor.patience < 90
