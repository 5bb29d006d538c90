"""Run the benchmarks, or those that are named, and print one table; see README.md."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
from importlib.metadata import version

from measure import Row

FIGURES = (
    "rope", "fan", "sse", "resume", "start", "request", "fork", "command", "agents", "worktree",
    "local", "slots", "events", "draw", "screen", "sandbox", "mail", "team", "remote", "sessions",
    "models", "web",
)  # fmt: skip
COMPARED = ("prong", "msgspec", "anyio", "anthropic", "openai", "httpx2")


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        print(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    rows: list[Row] = []
    for name in names or FIGURES:
        print(f"{time.monotonic() - began:4.0f} s  {name}", file=sys.stderr)
        rows += importlib.import_module(name).rows()
    versions = ", ".join(f"{name} {version(name)}" for name in COMPARED)
    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores")
    print(f"{versions}\n")
    wide = max(len(row.what) for row in rows)
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row.good]
        print(f"{row.what:<{wide}}  {row.bar:>8}  {verdict:<6}  {row.measured}")
    missed = sum(row.good is False for row in rows)
    print(f"\n{missed} of {len(rows)} missed, {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
