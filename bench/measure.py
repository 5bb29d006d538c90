"""How a figure is taken, and what a row of the table says."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `good` is None where it is only for information."""

    what: str
    measured: str
    bar: str = "-"
    good: bool | None = None


def at_least(what: str, ratio: float, bar: float, detail: str) -> Row:
    return Row(what, f"{ratio:.1f}x faster ({detail})", f">= {bar:g}x", ratio >= bar)


def under(what: str, value: float, bar: float, detail: str, unit: str = "x") -> Row:
    return Row(what, f"{value:.2f}{unit} ({detail})", f"< {bar:g}{unit}", value < bar)


def race(works: Sequence[Callable[[], object]], *, rounds: int) -> list[float]:
    """Give the best processor time of each work, taking turns so that noise hits all alike."""
    best = [float("inf")] * len(works)
    for work in works:
        work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for index, work in enumerate(works):
                start = time.process_time()
                work()
                best[index] = min(best[index], time.process_time() - start)
    finally:
        gc.enable()
    return best


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def show(rows: Iterable[Row]) -> int:
    """Print rows as they come, for a benchmark that is run alone; gives the exit code."""
    missed = 0
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row.good]
        missed += row.good is False
        print(f"{row.what:<62}  {row.bar:>8}  {verdict:<6}  {row.measured}", flush=True)
    return 1 if missed else 0
