"""Our ends of pipes: closed while somebody waits for them, and what gets their number next."""

from __future__ import annotations

import os

import anyio
import pytest
from anyio.lowlevel import checkpoint

from prong.system.pipe_end import CHUNK, PipeSink

pytestmark = [pytest.mark.anyio, pytest.mark.door]


async def test_closing_wakes_who_waits_to_be_heard() -> None:
    """A write that waits for room fails as on a broken pipe, and nobody watches the number on."""
    source, sink = os.pipe()
    other, end = os.pipe()
    os.write(end, b"x")
    pipe, failed = PipeSink(sink), list[OSError]()
    more = memoryview(bytes(CHUNK))

    async def fill() -> None:
        try:
            while True:
                await pipe.write(more)
        except OSError as error:
            failed.append(error)

    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(fill)
            await anyio.wait_all_tasks_blocked()
            pipe.close()
            # As the next file that is opened gets it.
            os.dup2(other, sink)
            await anyio.wait_readable(sink)
            await checkpoint()

    assert [type(error) for error in failed] == [BrokenPipeError]
    for number in (source, sink, other, end):
        os.close(number)
