"""Campaigns: hostile trials by the hundred, each of which can be repeated by its seed and number.

A campaign opens a `Trial`, a function that takes a source of chance, does its worst and says what
was wrong, or nothing. Each trial has a source of its own, made of the seed and the trial's number,
so that the one that failed can be run alone:

    python -m prong.testing.torture                              all, each for 45 s at most
    python -m prong.testing.torture kills streams --seconds 600  two of them, for longer
    python -m prong.testing.torture kills --seed 7 --only 12     one trial again
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TypeAlias

import msgspec

from prong.errors import NotInstalled
from prong.testing.counted_trial import CountedTrial

Trial: TypeAlias = Callable[[random.Random], str]
"""Tries something and says what was wrong, with all that is needed to understand it; or nothing."""

SECONDS = 45.0
"""How long a campaign runs at most, less the trial that is under way then."""


class Campaign(msgspec.Struct, frozen=True):
    """A kind of trial."""

    about: str
    count: int
    """How many trials there are unless somebody says otherwise."""
    module: str
    """Where in `prong.testing` its `trials` are."""

    def trials(self) -> AbstractContextManager[Trial]:
        """Make what the trials need.

        On entering it raises NotInstalled if that cannot be had here.
        """
        return import_module(f"prong.testing.{self.module}").trials()


CAMPAIGNS = {
    "shell": Campaign("hostile lines against the gate, judged by bash", 40_000, "shell_campaign"),
    "programs": Campaign("what bash runs, and what the parser says", 20_000, "program_campaign"),
    "paths": Campaign("lines that change what their paths mean", 6000, "path_campaign"),
    "escapes": Campaign("lines that try to leave their sandbox", 4000, "escape_campaign"),
    "kills": Campaign("kill -9 of sessions with children, resumed", 40, "kill_campaign"),
    "remote": Campaign("kill -9 of sessions, workers, machines and lines", 140, "remote_campaign"),
    "ray": Campaign("the same on a Ray cluster of two machines", 40, "ray_campaign"),
    "cuts": Campaign("a line by ssh that is cut for a minute", 10, "cut_campaign"),
    "merges": Campaign("kill -9 of `prong merge`, run again", 40, "merge_campaign"),
    "steps": Campaign("kill -9 between any two calls of git", 600, "step_campaign"),
    "mail": Campaign("kill -9 of 8 writers and a reader of one mailbox", 10, "mail_campaign"),
    "claims": Campaign("kill -9 of 8 who claim tasks of one list", 10, "claim_campaign"),
    "bytes": Campaign("changed and missing bytes of what is stored", 20_000, "damage_campaign"),
    "streams": Campaign("spoilt replies of three APIs over HTTP", 600, "stream_campaign"),
    "forgeries": Campaign("forged tags and notices in content", 20_000, "forgery_campaign"),
}
"""All campaigns by name."""


class Failure(msgspec.Struct, frozen=True):
    """A trial that found something."""

    number: int
    what: str


class Report(msgspec.Struct, frozen=True):
    """What a campaign found."""

    name: str
    seed: int
    tried: int
    seconds: float
    failures: tuple[Failure, ...]
    counts: tuple[tuple[str, int], ...] = ()
    """What was done, by kind and how often, for a campaign that counts it."""
    left_out: str = ""
    """Why nothing was tried, if what is needed for it is not installed."""


def chance(seed: int, number: int) -> random.Random:
    """Make the source of chance of one trial."""
    return random.Random(f"{seed}/{number}")  # noqa: S311 - the same trial for the same seed


def run(
    name: str,
    *,
    seed: int,
    count: int | None = None,
    seconds: float | None = None,
    only: int | None = None,
) -> Report:
    """Run a campaign, or one trial of it alone."""
    begun = time.monotonic()
    campaign = CAMPAIGNS[name]
    numbers = range(1, (count or campaign.count) + 1) if only is None else range(only, only + 1)
    failures: list[Failure] = []
    tried = 0
    counts: list[tuple[str, int]] = []
    left_out = ""
    try:
        with campaign.trials() as trial:
            for number in numbers:
                if seconds is not None and time.monotonic() - begun > seconds:
                    break
                tried += 1
                if what := _tried(trial, chance(seed, number)):
                    failures.append(Failure(number, what))
            counts = sorted(trial.counts.items()) if isinstance(trial, CountedTrial) else []
    except NotInstalled as error:
        left_out = str(error)
    took = time.monotonic() - begun
    return Report(name, seed, tried, took, tuple(failures), tuple(counts), left_out)


def _tried(trial: Trial, rng: random.Random) -> str:
    try:
        return trial(rng)
    except Exception:  # noqa: BLE001 - whatever a trial runs into is what it was looking for
        return traceback.format_exc()


def table(reports: Sequence[Report]) -> Iterator[str]:
    """Give the lines of a table, and how each failure can be repeated."""
    yield f"{'campaign':<11}{'trials':>8}{'failures':>10}{'seconds':>9}  what"
    for one in reports:
        figures = f"{one.tried:>8,}{len(one.failures):>10}{one.seconds:>9.1f}"
        yield f"{one.name:<11}{figures}  {CAMPAIGNS[one.name].about}"
        if one.left_out:
            yield f"{'':<11}left out: {one.left_out}"
        if one.counts:
            kinds = ", ".join(f"{kind} {times:,}" for kind, times in one.counts)
            yield f"{'':<11}{sum(times for _, times in one.counts):>8,} done: {kinds}"
    for one in reports:
        for failure in one.failures:
            yield ""
            yield f"{one.name} --seed {one.seed} --only {failure.number}"
            yield failure.what


def main(words: Sequence[str] | None = None) -> int:
    """Run campaigns and print what they found; 1 if they found anything."""
    parser = argparse.ArgumentParser(prog="python -m prong.testing.torture", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("name", nargs="*", metavar="NAME", help=f"which; default: all ({', '.join(CAMPAIGNS)})")
    add("--count", type=int, help="trials of each; default: as many as suit it")
    add("--seed", type=int, help="default: another each time, and printed")
    add("--seconds", type=float, default=SECONDS, help="for each; default: %(default)s")
    add("--only", type=int, metavar="NUMBER", help="this trial alone, however long it takes")
    args = parser.parse_args(words)
    if unknown := [name for name in args.name if name not in CAMPAIGNS]:
        parser.error(f"there is no campaign {unknown[0]!r}; there are {', '.join(CAMPAIGNS)}")
    if args.only is not None and (len(args.name) != 1 or args.seed is None):
        parser.error("--only needs the name of one campaign and the seed")
    seed = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    sys.stdout.write(f"seed {seed}\n")
    reports: list[Report] = []
    for name in args.name or CAMPAIGNS:
        seconds = None if args.only is not None else args.seconds
        report = run(name, seed=seed, count=args.count, seconds=seconds, only=args.only)
        sys.stderr.write(f"{name}: {report.tried} tried, {len(report.failures)} failed\n")
        reports.append(report)
    sys.stdout.write("\n".join(table(reports)) + "\n")
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
