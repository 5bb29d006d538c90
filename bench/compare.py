"""Forks and the start of several checkouts, in turns; run as a program.

    python bench/compare.py 5 /tmp/before .

Each checkout runs with its own source and its own clients, on this interpreter; the lowest of all
rounds counts. The scenarios are those of `fork.py` (three turns, one with a command), `command.py`
(one command) and `start.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import command
import fork
import start

from prong.testing import Options, Script, ServerProcess

FEW, MANY, MOST = 8, 64, 256
TOKENS = 50_000
ASK = [sys.executable, "-c", start.ENTRY, "-p", "hello", "--model", "claude-sonnet-5-5"]


def forked(tree: Path, script: Script) -> float:
    """Run the fan-out of a script with one checkout; gives its seconds of processor time."""
    with ServerProcess(script, options=Options(keep_bodies=False)) as server:
        words = [sys.executable, str(tree / "bench/fork_prong.py"), server.url, str(TOKENS)]
        env = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=600, env=env)
    said = json.loads(done.stdout)
    assert said["ok"], f"{tree} did not come to its end: {said}"
    return said["cpu"]


def started(tree: Path, folder: str) -> float:
    """Start one checkout; gives the seconds to the first byte of its request."""
    env = {**start.environment(folder), "PYTHONPATH": str(tree / "src")}
    return start.first_byte(ASK, env, folder)


def main(rounds: str, *trees: str) -> None:
    paths = [Path(tree).resolve() for tree in trees]
    for path in paths:
        words = [sys.executable, "-m", "compileall", "-q", str(path / "src")]
        subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
    scripts = [fork.script("prong", n) for n in (FEW, MANY)] + [command.script(MOST, waits=True)]
    best: dict[Path, list[float]] = {path: [float("inf")] * 4 for path in paths}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(int(rounds)):
            for path, lowest in best.items():
                taken = [*(forked(path, one) for one in scripts), started(path, folder)]
                best[path] = list(map(min, lowest, taken))
    for path, (few, many, most, sent) in best.items():
        slope, each = (many - few) * 1e3 / (MANY - FEW), most * 1e3 / MOST
        print(f"{path}: {slope:.2f} ms per added fork, {each:.2f} ms per fork with one command")
        print(f"    (N = {MANY}: {many * 1e3:.0f} ms), {sent * 1e3:.0f} ms to the first byte")


if __name__ == "__main__":
    main(*sys.argv[1:])
