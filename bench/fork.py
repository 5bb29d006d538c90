"""Forks: what they cost, how quickly they start, and how much work they are, beside others.

Runs alone too: `python bench/fork.py`. Rivals run in the interpreter that BENCH_RIVALS names, or in
this one; a rival that is not installed there is said to be missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from math import inf, isinf
from pathlib import Path
from typing import Any

import anyio
import fork_books
import scenario
from measure import Row, show

from prong.testing import Options, Script, ServerProcess, call, calls, say

SIZES = (50_000, 100_000)
COUNTS = (3, 5, 8, 10, 64, 256)
FEW, MANY = 8, 64
ROUNDS = 4
HERE = Path(__file__).parent
RIVALS = os.environ.get("BENCH_RIVALS", sys.executable)
# How each names its tools: read, shell, delegate, the argument that says what to do, and others.
NAMES: dict[str, tuple[str, str, str, str, dict[str, str]]] = {
    "prong": ("Read", "Bash", "Agent", "prompt", {"description": "a part"}),
    "anthropic": ("Read", "Bash", "Agent", "prompt", {}),
    "pydantic-ai": ("read", "bash", "delegate", "prompt", {}),
    "deepagents": ("read_file", "execute", "task", "description", {"subagent_type": "worker"}),
}


def command(who: str) -> list[str]:
    if who == "prong":
        return [sys.executable, str(HERE / "fork_prong.py")]
    python = sys.executable if who == "anthropic" else RIVALS
    return [python, "-W", "ignore", str(HERE / "rival.py"), who]


def versions(who: str) -> str | None:
    """Say what is compared; None if it is not installed."""
    done = subprocess.run([*command(who), "version", "0"], capture_output=True, check=False)
    return ", ".join(json.loads(done.stdout)) if done.returncode == 0 else None


def script(who: str, children: int) -> Script:
    """Write the scenario with a client's own names for its tools."""
    read, shell, delegate, argument, more = NAMES[who]
    path = f"/{scenario.FILE}" if who == "deepagents" else scenario.FILE
    routes = {
        f"PART-{number}.": [
            call(read, {"file_path": path}),
            call(shell, {"command": f"echo part {number}"}),
            say(scenario.report(number)),
        ]
        for number in range(children)
    }
    sent = [(delegate, {**more, argument: scenario.directive(n)}) for n in range(children)]
    waits = [say("I wait.")] if who == "prong" else []
    return Script([say("Ready."), calls(*sent), *waits, say(scenario.CLOSING)], routes)


def run(who: str, url: str, tokens: int) -> dict[str, Any]:
    """Run a client to its end; gives what it says of itself."""
    words = [*command(who), url, str(tokens)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=240)
    said = json.loads(done.stdout)
    assert said["ok"], f"{who} did not come to its end: {said}"
    return said


def served(who: str, tokens: int, children: int) -> dict[str, Any]:
    """Run a client on the loopback server; gives what it says, with the books."""
    with ServerProcess(script(who, children), options=Options(keep_bodies=False)) as server:
        said = run(who, server.url, tokens)
        books = server.ledger()
    assert len(books["rows"]) >= 3 * children
    return {**said, **{name: books[name] for name in ("paid", "uncached", "least_possible")}}


def tapped(who: str, tokens: int, children: int) -> float:
    """Give the seconds from the dispatching reply's last byte to the last child's first.

    A rival that does not come to its end, as by a time-out of its own, took for ever.
    """
    _, _, delegate, argument, more = NAMES[who]
    dispatched = [
        {
            "type": "tool_use",
            "id": f"toolu_{number:024}",
            "name": delegate,
            "input": {**more, argument: scenario.directive(number)},
        }
        for number in range(children)
    ]
    words = [sys.executable, str(HERE / "tap.py"), json.dumps(dispatched)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tap:
        assert tap.stdout is not None
        try:
            run(who, tap.stdout.readline().decode().strip(), tokens)
            return max(json.loads(tap.stdout.readline()))
        except subprocess.SubprocessError:
            if who == "prong":
                raise
            return inf
        finally:
            tap.terminate()


def rows() -> Iterator[Row]:
    ran = {size: {n: served("prong", size, n) for n in COUNTS} for size in SIZES}
    for size, by_count in ran.items():
        yield paid_row(size, by_count)
    yield cold_row()
    eight = ran[100_000][8]
    saved = 1 - eight["paid"] / eight["uncached"]
    what = "forks: saved against the same requests uncached, 100k, N = 8"
    yield Row(what, f"{saved:.1%}", ">= 85 %", saved >= 0.85)
    yield shared_row()
    yield from cpu_rows()
    for size, by_count in ran.items():
        each = by_count[256]["peak"] / 256e3
        what = f"forks: peak memory per child, {size // 1000}k, N = 256"
        yield Row(what, f"{each:.0f} kB", "< 300 kB", each < 300)
    yield from start_rows()
    yield from woken_rows()
    yield from forecast_rows()
    yield fault_row()


def paid_row(size: int, ran: dict[int, dict[str, Any]]) -> Row:
    ratios = {n: said["paid"] / said["least_possible"] for n, said in ran.items()}
    told = ", ".join(f"{n}: {ratio:.3f}" for n, ratio in ratios.items())
    what = f"forks: paid / least possible, {size // 1000}k"
    return Row(what, told, "<= 1.01", max(ratios.values()) <= 1.01)


def cold_row() -> Row:
    ratio, schedule = anyio.run(fork_books.cold, SIZES[0], FEW)
    what = f"forks: the same, base expired, N = {FEW}"
    return Row(what, f"{ratio:.3f} ({schedule})", "<= 1.05", ratio <= 1.05)


def shared_row() -> Row:
    common, due, whole = anyio.run(fork_books.shared, SIZES[0], FEW)
    told = f"{common:,} of {whole:,} bytes; the directives differ from byte {due:,} on"
    return Row("forks: bytes shared by first requests", told, "all", common >= due)


def cpu_rows() -> Iterator[Row]:
    for size, bar in zip(SIZES, (5.0, 7.0), strict=True):
        times: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for who in ("prong", "anthropic"):
                for n in (FEW, MANY):
                    times.setdefault((who, n), []).append(served(who, size, n)["cpu"])
        slope = {
            who: 1e3 * (min(times[who, MANY]) - min(times[who, FEW])) / (MANY - FEW)
            for who in ("prong", "anthropic")
        }
        ours, theirs = slope["prong"], slope["anthropic"]
        what = f"forks: CPU per added child, {size // 1000}k"
        yield Row(what, f"{ours:.2f} ms", f"<= {bar:g} ms", ours <= bar)
        told = f"1/{theirs / ours:.1f} ({ours:.2f} to {theirs:.2f} ms, both streaming)"
        yield Row(f"{what}, to a plain anthropic loop's", told, "<= 1/4", 4 * ours <= theirs)


def start_rows() -> Iterator[Row]:
    """Time the start of fan-outs; all take turns, and the best of each counts."""
    size = SIZES[0]
    known = {who: versions(who) for who in NAMES if who != "prong"}
    racing = ["prong", *(who for who, version in known.items() if version)]
    for n, bar, rounds in ((8, 15, 3), (64, 80, 2), (256, 350, 2)):
        times = [[tapped(who, size, n) * 1e3 for who in racing] for _ in range(rounds)]
        ours, *others = map(min, zip(*times, strict=True))
        told = ", ".join(
            f"{who} {'failed' if isinf(took) else f'{took:.0f}'}"
            for who, took in zip(racing[1:], others, strict=True)
        )
        quickest = all(ours < time for time in others)
        what = f"forks: dispatch to last child's first byte, N = {n}"
        yield Row(what, f"{ours:.1f} ms ({told})", f"< {bar} ms", ours < bar and quickest)
    told = "; ".join(f"{who}: {version or 'not installed'}" for who, version in known.items())
    yield Row("forks: compared with", told)


def woken_rows() -> Iterator[Row]:
    woken, resumed = anyio.run(fork_books.woken, SIZES[0])
    for what, share in (("a woken fork", woken), ("a resumed session", resumed)):
        yield Row(
            f"forks: {what} reads of what was cached", f"{share:.2%}", ">= 99 %", share > 0.99
        )


def forecast_rows() -> Iterator[Row]:
    for size, n in ((50_000, 8), (100_000, 64)):
        guessed, billed = anyio.run(fork_books.forecast, size, n)
        off = guessed / billed - 1
        what = f"forks: estimate against the bill, {size // 1000}k, N = {n}"
        told = f"{off:+.2%} ({guessed:,.0f} to {billed:,.0f})"
        yield Row(what, told, "5 %", abs(off) <= 0.05)


def fault_row() -> Row:
    found = anyio.run(fork_books.faults, 10_000, FEW)
    good = all(one == (FEW - 1, 1, True) for one in found.values())
    told = "; ".join(
        f"{name}: {done} of {FEW - 1} siblings and {'the' if parent else 'NOT the'} parent "
        f"finish, {notices} failed notice"
        for name, (done, notices, parent) in found.items()
    )
    return Row("forks: one child fails", told, "1 notice", good)


if __name__ == "__main__":
    raise SystemExit(show(rows()))
