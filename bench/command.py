"""Many forks that each run a shell command: Prong's own work, and what it holds in memory.

Runs alone too: `python bench/command.py`. What the shells themselves take is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fork
import scenario
from measure import Row, show

from prong.testing import Options, Script, ServerProcess, call, calls, say

TOKENS = 50_000
MANY, MOST = 256, 1_000
ROUNDS = 3
HERE = Path(__file__).parent


def script(children: int, *, waits: bool) -> Script:
    """Let each child run one command and report."""
    _, shell, delegate, argument, more = fork.NAMES["prong"]
    routes = {
        f"PART-{number}.": [
            call(shell, {"command": f"echo part {number}"}),
            say(scenario.report(number)),
        ]
        for number in range(children)
    }
    sent = [(delegate, {**more, argument: scenario.directive(n)}) for n in range(children)]
    between = [say("I wait.")] if waits else []
    return Script([say("Ready."), calls(*sent), *between, say(scenario.CLOSING)], routes)


def run(program: str, children: int) -> dict[str, Any]:
    """Run one side to its end; gives what it says of itself."""
    told = script(children, waits=program == "fork_prong.py")
    with ServerProcess(told, options=Options(keep_bodies=False)) as server:
        words = [sys.executable, str(HERE / program), server.url, str(TOKENS)]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=600)
    said = json.loads(done.stdout)
    assert said["ok"], f"{program} did not come to its end: {said}"
    return said


def rows() -> Iterator[Row]:
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(run("fork_prong.py", MANY))
        bare.append(run("bare.py", MANY))
    each, other = (min(one["cpu"] for one in ran) * 1e3 / MANY for ran in (ours, bare))
    what = f"forks with one command: own CPU of each, N = {MANY}"
    yield Row(what, f"{each:.2f} ms", "< 4 ms", each < 4)
    told = f"1/{other / each:.1f} ({each:.2f} to {other:.2f} ms, both streaming)"
    yield Row(f"{what}, to a raw client's and subprocesses'", told, "<= 1/2", 2 * each <= other)
    held, theirs = (min(one["peak"] for one in ran) / 1e6 for ran in (ours, bare))
    what = f"forks with one command: memory over the session's, N = {MANY}"
    yield Row(what, f"{held:.0f} MB (raw client {theirs:.0f} MB)", "< 100 MB", held < 100)
    most = run("fork_prong.py", MOST)["peak"] / 1e6
    what = f"forks with one command: memory over the session's, N = {MOST:,}"
    yield Row(what, f"{most:.0f} MB ({most * 1e3 / MOST:.0f} kB each)")


if __name__ == "__main__":
    raise SystemExit(show(rows()))
