"""The end of a process that is no child of whoever ends it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prong.host.process_end import end_process
from prong.system.identity import is_alive, started

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("M7")]

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"


@pytest.mark.parametrize("ask", [True, False])
async def test_one_that_does_not_heed_is_gone(ask: bool) -> None:
    """Whoever has seen to the end of a process that had to be killed finds it no more."""
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        since = started(process.pid)
        await end_process(process.pid, since, ask=ask)

        assert not is_alive(process.pid, since)
    assert process.returncode == -9
