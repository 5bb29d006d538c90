"""A reviewer that reads the change once, forks for each file, and merges what the forks found.

    python examples/review.py [FOLDER]

The parent reads the whole change. Each fork begins with all of that, from the cache, and looks at
one file; what they find comes back as values.
"""

import subprocess
import sys
from typing import Literal

import anyio
import msgspec

import prong


class Finding(msgspec.Struct):
    """One thing that is wrong."""

    line: int
    severity: Literal["high", "medium", "low"]
    what: str


def changed_files(folder: str) -> list[str]:
    """List what the last commit has changed."""
    words = ["git", "diff", "--name-only", "--diff-filter=d", "HEAD~1"]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.split()


async def review(session: prong.Session, files: list[str]) -> list[tuple[str, Finding]]:
    """Give the findings of all files, the worst first."""
    await session.run("Read `git diff HEAD~1` and say in a sentence what the change is for.")
    results = await session.map(
        files, "Look for mistakes that this change makes in {}, and in no other file.",
        returns=list[Finding],
    )  # fmt: skip
    found: list[tuple[str, Finding]] = []
    for file, result in zip(files, results, strict=True):
        if result.status != "completed":
            print(f"{file}: not reviewed, {result.detail}", file=sys.stderr)
            continue
        found += ((file, finding) for finding in result.value)
    order = ("high", "medium", "low")
    return sorted(found, key=lambda one: (order.index(one[1].severity), one[0], one[1].line))


async def main(folder: str = ".") -> int:
    """Print the findings; gives 1 if one is high."""
    allowed = ("Bash(git diff:*)", "Bash(git log:*)")
    async with prong.open_session(cwd=folder, mode="dontAsk", allow=allowed) as session:
        found = await review(session, changed_files(folder))
        for file, one in found:
            print(f"{file}:{one.line}: {one.severity}: {one.what}")
        shared = [receipt.saved_share for receipt in session.receipts()]
        told = ", ".join(f"{share:.0%}" for share in shared if share is not None)
        print(f"forks saved {told} of what they read; the review cost ${session.cost or 0:.4f}")
    return int(any(one.severity == "high" for _, one in found))


if __name__ == "__main__":
    sys.exit(anyio.run(main, (sys.argv[1:] or ["."])[0]))
