"""The library in a program: many sessions in one process, a call of a Python tool, the import.

python bench/sessions.py
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from measure import Row, show

import prong
from prong.session import Session, open_session
from prong.testing import Options, Script, ServerProcess, calls, say

MANY = 100
CALLS = 200
ROUNDS = 10
_MB = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


@prong.tool(read_only=True)
def plain(number: int) -> int:
    """Give the number back, from a thread."""
    return number


@prong.tool(read_only=True)
async def waiting(number: int) -> int:
    """Give the number back, from the event loop."""
    return number


def script() -> Script:
    routes = {
        f"{name} {many}.": [
            calls(*((name, {"number": number}) for number in range(many))),
            say("Done."),
        ]
        * (ROUNDS + 1)
        for name in ("plain", "waiting")
        for many in (1, CALLS)
    }
    return Script([], routes, forever=say("Ok."))


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


async def opened(url: str, folder: str) -> Session:
    return await open_session(
        model="claude-sonnet-5-5",
        base_url=url,
        cwd=folder,
        store=f"{folder}/store",
        env={"HOME": folder, "PATH": os.defpath},
        mode="dontAsk",
        tools=[plain, waiting],
    )


async def together(url: str, folder: str) -> dict[str, float]:
    """Open so many sessions at once, let each have a turn, and keep them open."""
    sessions: list[Session] = []

    async def one() -> None:
        session = await opened(url, folder)
        turn = await session.run("Hi")
        assert turn.ok, turn
        sessions.append(session)

    for _ in range(3):
        await one()
    before, files, used = resident(), _files(), time.process_time()
    async with anyio.create_task_group() as group:
        for _ in range(MANY):
            group.start_soon(one)
    used = time.process_time() - used
    found = {
        "memory": (resident() - before) / MANY,
        "files": (_files() - files) / MANY,
        "seconds": used / MANY,
    }
    for session in sessions:
        await session.close()
    return found


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not looked at


async def called(url: str, folder: str) -> dict[str, float]:
    """Take the processor time that one more call in a reply costs, result and events included."""
    found: dict[str, float] = {}
    for name in ("plain", "waiting"):
        best = {1: float("inf"), CALLS: float("inf")}
        for _ in range(ROUNDS):
            for many, least in list(best.items()):
                session = await opened(url, folder)
                used = time.process_time()
                turn = await session.run(f"{name} {many}.")
                best[many] = min(least, time.process_time() - used)
                assert turn.text == "Done.", turn
                await session.close()
        found[name] = (best[CALLS] - best[1]) / (CALLS - 1)
    return found


def measured(what: str) -> dict[str, float]:
    """Run it in a process of its own, which nothing else has filled."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(script(), options=Options(keep_bodies=False)) as server,
    ):
        argv = [sys.executable, __file__, what, server.url, folder]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def imported(code: str) -> float:
    """Give the least processor time of the code in a fresh interpreter, in milliseconds."""
    timed = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
    argv = [sys.executable, "-c", timed]
    runs = [subprocess.run(argv, capture_output=True, check=True).stdout for _ in range(10)]
    return min(map(float, runs)) * 1e3


def rows() -> Iterator[Row]:
    many = measured("together")
    each = many["memory"] / _MB
    detail = f"{each:.2f} MB ({many['files']:.1f} open files, {many['seconds'] * 1e3:.1f} ms each)"
    yield Row(f"sessions: memory of a session, of {MANY} at once", detail, "< 3 MB", each < 3)
    took = measured("called")
    for name, how in (("waiting", "async"), ("plain", "in a thread")):
        ms = took[name] * 1e3
        what = f"sessions: one more call of a Python tool, {how}"
        yield Row(what, f"{ms:.3f} ms (of {CALLS} in a reply)", "< 0.3 ms", ms < 0.3)
    for code, bar in (("import prong", 30), ("import prong; prong.open_session", 0)):
        ms = imported(code)
        good = ms < bar if bar else None
        yield Row(f"sessions: `{code}`", f"{ms:.1f} ms", f"< {bar} ms" if bar else "-", good)


if __name__ == "__main__":
    if sys.argv[1:]:
        work = {"together": together, "called": called}[sys.argv[1]]
        print(json.dumps(anyio.run(work, sys.argv[2], sys.argv[3])))
        raise SystemExit(0)
    raise SystemExit(show(rows()))
