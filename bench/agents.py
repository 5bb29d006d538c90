"""Typed agents: how quickly one starts beside others' delegation, and what 200 at once take.

Runs alone too: `python bench/agents.py`. Rivals run in the interpreter that BENCH_RIVALS names.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from math import inf, isinf
from pathlib import Path
from typing import Any

import fork
import scenario
from measure import Row, show

from prong.testing import Options, Script, ServerProcess, call, calls, say

HERE = Path(__file__).parent
RIVALS = ("openai-agents", "pydantic-ai")
ARGUMENT = {"prong": "prompt", "openai-agents": "input", "pydantic-ai": "prompt"}
MANY, FEW, CROWD = 64, 8, 200
TURNS = 3
ROUNDS = 4


def command(who: str) -> list[str]:
    if who == "prong":
        return [sys.executable, str(HERE / "agents_prong.py")]
    return [fork.RIVALS, "-W", "ignore", str(HERE / "agents_rival.py"), who]


def versions(who: str) -> str | None:
    done = subprocess.run([*command(who), "version", "0"], capture_output=True, check=False)
    return ", ".join(json.loads(done.stdout)) if done.returncode == 0 else None


def run(who: str, url: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command(who), url, "0"], stdout=subprocess.PIPE, check=True, timeout=240
    )
    said = json.loads(done.stdout)
    assert said["ok"], f"{who} did not come to its end: {said}"
    return said


def tapped(who: str, children: int) -> float:
    """Give the seconds from the dispatching reply's last byte to the last child's first."""
    more = {"description": "a part", "subagent_type": "worker"} if who == "prong" else {}
    dispatched = [
        {
            "type": "tool_use",
            "id": f"toolu_{number:024}",
            "name": "Agent" if who == "prong" else "delegate",
            "input": {**more, ARGUMENT[who]: scenario.directive(number)},
        }
        for number in range(children)
    ]
    words = [sys.executable, str(HERE / "tap.py"), json.dumps(dispatched)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tap:
        assert tap.stdout is not None
        try:
            run(who, tap.stdout.readline().decode().strip())
            return max(json.loads(tap.stdout.readline()))
        except (subprocess.SubprocessError, AssertionError):
            if who == "prong":
                raise
            return inf
        finally:
            tap.terminate()


def served(children: int) -> dict[str, Any]:
    """Run background children of three turns each; gives what the client says of itself."""
    routes = {
        f"PART-{number}.": [
            call("Read", {"file_path": scenario.FILE}),
            call("Bash", {"command": f"echo part {number}"}),
            say(scenario.report(number)),
        ]
        for number in range(children)
    }
    sent = [
        (
            "Agent",
            {
                "description": "a part",
                "prompt": scenario.directive(number),
                "subagent_type": "worker",
                "run_in_background": True,
            },
        )
        for number in range(children)
    ]
    script = Script([say("Ready."), calls(*sent)], routes, forever=say(scenario.CLOSING))
    with ServerProcess(script, options=Options(keep_bodies=False)) as server:
        said = run("prong", server.url)
        assert len(server.ledger()["rows"]) >= TURNS * children
    return said


def rows() -> Iterator[Row]:
    yield from start_rows()
    crowd = served(CROWD)
    whole = crowd["notices"] == crowd["distinct"] == crowd["completed"] == CROWD
    told = f"{crowd['distinct']} of {CROWD} told of, {crowd['notices']} notices"
    yield Row(f"agents: notices of {CROWD} in the background at once", told, "all once", whole)
    each = crowd["peak"] / CROWD / 1e3
    yield Row(f"agents: peak memory per child, N = {CROWD}", f"{each:.0f} kB", "< 1 MB", each < 1e3)
    yield cpu_row()


def start_rows() -> Iterator[Row]:
    """Time the start of children; all take turns, and the best of each counts."""
    known = {who: versions(who) for who in RIVALS}
    racing = ["prong", *(who for who, version in known.items() if version)]
    for n, rounds in ((1, 8), (8, 4), (64, 2)):
        times = [[tapped(who, n) * 1e3 for who in racing] for _ in range(rounds)]
        ours, *others = map(min, zip(*times, strict=True))
        told = ", ".join(
            f"{who} {'failed' if isinf(took) else f'{took:.1f}'}"
            for who, took in zip(racing[1:], others, strict=True)
        )
        what = f"agents: call to last child's first byte, N = {n}"
        quickest = all(ours <= time for time in others)
        yield Row(what, f"{ours:.1f} ms ({told})", "quickest", quickest)
    told = "; ".join(f"{who}: {version or 'not installed'}" for who, version in known.items())
    yield Row("agents: compared with", told)


def cpu_row() -> Row:
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for n in (FEW, MANY):
            times.setdefault(("typed", n), []).append(served(n)["cpu"])
            forked = fork.served("prong", fork.SIZES[0], n)["cpu"]
            times.setdefault(("fork", n), []).append(forked)
    typed, forked = (
        1e3 * (min(times[who, MANY]) - min(times[who, FEW])) / (MANY - FEW) / TURNS
        for who in ("typed", "fork")
    )
    told = f"{typed:.2f} ms (a fork's {forked:.2f} ms)"
    return Row("agents: CPU per child turn, by a fork's", told, "<= 1.1x", typed <= 1.1 * forked)


if __name__ == "__main__":
    raise SystemExit(show(rows()))
