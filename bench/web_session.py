"""A session that works as fast as it can once it is told to, for `web.py` to look on at.

Prints its journal, waits for a line, and then prints events, seconds and processor seconds.
"""

from __future__ import annotations

import sys
import time

import anyio
import anyio.to_thread

from prong.testing import Script, call, forks, report, say, world

FORKS, STEPS = 8, 60


def script() -> Script:
    """Script forks that read a file again and again, each time another part of it."""
    parts = [f"Part {number}." for number in range(FORKS)]
    steps = [
        call("Read", {"file_path": "a.txt", "offset": number + 1, "limit": 1})
        for number in range(STEPS)
    ]
    told = {part: [*steps, report("done")] for part in parts}
    return Script([say("Ready."), forks(*parts), say("All done.")], told, forever=say("ok"))


async def work() -> None:
    files = {"a.txt": "a line\n" * STEPS * 2}
    async with world(script(), files=files, mode="bypassPermissions") as w:
        await w.session.run("First")
        print(w.parts.journal.path, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        before, began, spent = w.session.view().seq, time.perf_counter(), time.process_time()
        await w.session.run("Go")
        seconds, processor = time.perf_counter() - began, time.process_time() - spent
        print(w.session.view().seq - before, seconds, processor, flush=True)


if __name__ == "__main__":
    anyio.run(work)
