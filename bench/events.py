"""The recorded events: what recording takes of a fan-out, and how quickly they make a view."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import fork
import fork_prong
from measure import Row, race, show

from prong.event import Envelope
from prong.journal.eventlog import EventLog
from prong.testing import Options, ServerProcess
from prong.view import fold_all

MANY = 64
TOKENS = 50_000
ROUNDS = 5


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        script = fork.script("prong", MANY)
        with ServerProcess(script, options=Options(keep_bodies=False)) as server:
            ran = anyio.run(fork_prong.work, server.url, TOKENS, folder)
        assert ran["ok"], ran
        [path] = Path(folder).rglob("events.jsonl")
        log = EventLog(path)
        told = list(log.replay(0, log.seq))
        numbers = iter(range(1_000_000))

        def record() -> None:
            write(told, Path(folder) / f"{next(numbers)}.jsonl")

        recording, folding = race([record, lambda: fold_all(told)], rounds=ROUNDS)
    share = recording / ran["cpu"]
    detail = f"{len(told)} events, {recording * 1e6 / MANY:.0f} of {ran['cpu'] * 1e6 / MANY:.0f} us"
    what = f"events: recording, of the processor time of a fork, N = {MANY}"
    yield Row(what, f"{share:.1%} ({detail})", "< 5 %", share < 0.05)
    each = folding / len(told)
    yield Row("events: folding one into a view", f"{each * 1e6:.1f} us", "< 50 us", each < 50e-6)


def write(told: list[Envelope], path: Path) -> None:
    log = EventLog(path)
    for envelope in told:
        log.write(envelope)
    log.flush()
    log.close()


if __name__ == "__main__":
    show(rows())
