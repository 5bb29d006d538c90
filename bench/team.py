"""Teammates in one process: what each keeps in memory, and what sleeping ones take of a core.

python bench/team.py
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

from prong.session import open_session
from prong.testing import Options, Script, ServerProcess, Step, call, calls, say

MANY = 20
SLEEPING = 10
SECONDS = 10.0
_MB = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


def names(first: int, many: int) -> list[str]:
    return [f"m{number}" for number in range(first, first + many)]


def spawn(members: list[str], kind: str) -> Step:
    more = {} if kind == "fork" else {"subagent_type": kind}
    return calls(
        *(
            ("TeamSpawn", {"name": one, "description": "x", "prompt": f"PART of {one}.", **more})
            for one in members
        )
    )


def script(kind: str, many: int) -> Script:
    warm, rest = names(1, 2), names(3, many)
    create = call("TeamCreate", {"name": "bench"})
    routes = {f"PART of {one}.": [say("Done.")] for one in (*warm, *rest)}
    routes |= {"BEGIN": [create, spawn(warm, kind)], "MORE": [spawn(rest, kind)]}
    return Script([], routes, forever=say("Ok."))


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


async def work(url: str, folder: str, many: int) -> dict[str, float]:
    """Start two members, then so many more, and let all of them sleep."""
    async with open_session(
        model="claude-sonnet-5-5",
        base_url=url,
        cwd=folder,
        store=f"{folder}/store",
        env={"HOME": folder, "PATH": os.defpath},
        mode="bypassPermissions",
        team=True,
    ) as session:
        await session.run("BEGIN")
        before = resident()
        await session.run("MORE")
        after = resident()
        states = [agent.state for agent in session.view().agents.values() if agent.member]
        assert states == ["idle"] * (many + 2), states
        began, used = time.monotonic(), time.process_time()
        await anyio.sleep(SECONDS)
        used, took = time.process_time() - used, time.monotonic() - began
        return {"each": (after - before) / many, "share": used / took}


def measured(kind: str, many: int) -> dict[str, float]:
    """Run it in a process of its own, which nothing else has filled."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(script(kind, many), options=Options(keep_bodies=False)) as server,
    ):
        given = [sys.executable, __file__, server.url, folder, str(many)]
        done = subprocess.run(given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def rows() -> Iterator[Row]:
    for kind in ("fork", "general-purpose"):
        each = measured(kind, MANY)["each"] / _MB
        what = f"team: memory of a teammate in the process, {kind}, of {MANY}"
        yield Row(what, f"{each:.2f} MB", "< 2 MB", each < 2)
    share = measured("fork", SLEEPING - 2)["share"]
    what = f"team: share of a core that {SLEEPING} sleeping teammates take"
    yield Row(what, f"{share:.2%} (over {SECONDS:g} s)", "< 1 %", share < 0.01)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(anyio.run(work, sys.argv[1], sys.argv[2], int(sys.argv[3]))))
        raise SystemExit(0)
    raise SystemExit(show(rows()))
