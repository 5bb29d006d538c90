"""What a command had printed when it was interrupted."""

from __future__ import annotations

import time

import anyio
import pytest

from prong.entry import CallId
from prong.tools.shell import Bash
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L2", "L8")]


async def test_what_nobody_has_read_yet_is_shown(bench: Workbench) -> None:
    """A program that is kept from reading hears of an interrupt and of the output at once."""
    command = (
        "touch up; until [ -e go ]; do sleep 0.02; done; echo half done; touch begun; sleep 99"
    )

    async def run() -> None:
        await bench(Bash(), command=command)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        while not (bench.root / "up").exists():
            await anyio.sleep(0.02)
        (bench.root / "go").touch()
        while not (bench.root / "begun").exists():
            # Nobody is to read meanwhile.
            time.sleep(0.02)
        group.cancel_scope.cancel()

    assert bench.context.outputs[CallId("c")] == "half done\n"
