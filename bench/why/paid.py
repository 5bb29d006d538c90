"""What a fan-out of eight costs with Prong and with others; the second table of docs/why.md.

    python bench/why/paid.py

The scenario is that of `bench/fork.py`: a conversation of 50,000 tokens, eight children of three
turns each, the loopback server's books. BENCH_RIVALS names the interpreter of the others.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import fork

TOKENS, CHILDREN = 50_000, 8
CLIENTS = ("prong", "anthropic", "pydantic-ai", "deepagents")


def main() -> None:
    """Print a row for each client."""
    print("| client | paid / least possible | saved against no cache |")
    print("|---|---|---|")
    for who in CLIENTS:
        try:
            books = fork.served(who, TOKENS, CHILDREN)
        except (subprocess.SubprocessError, AssertionError) as error:
            print(f"| {who} | failed: {type(error).__name__} | |", flush=True)
            continue
        saved, ratio = (
            1 - books["paid"] / books["uncached"],
            books["paid"] / books["least_possible"],
        )
        print(f"| {who} | {ratio:.2f} | {saved:.1%} |", flush=True)


if __name__ == "__main__":
    main()
