"""Writes what programs print into the pages that show it: `make docs`, or `--check` to compare.

In a page, a fenced block whose first line is `$ prong ...` holds what that command prints, and one
that begins with `> /help` what the interactive prompt answers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from prong.face.slash import HELP

PAGES = (Path(__file__).parent / "cli.md",)
_BLOCK = re.compile(
    r"(?<=^```text\n)(?P<line>\$ prong (?P<words>.*)|> /help)\n(?:.*\n)*?(?=```$)", re.MULTILINE
)


def run(words: str) -> str:
    """Run a command at 80 columns and give what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "prong", *words.split()],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def regenerated(page: str) -> str:
    """Give a page with the output of every command in it."""

    def fresh(found: re.Match[str]) -> str:
        words = found["words"]
        output = f"{HELP}\n" if words is None else run(words)
        return f"{found['line']}\n{output}"

    return _BLOCK.sub(fresh, page)


def main() -> int:
    """Write the pages, or with --check only say whether they are as they would be written."""
    stale = 0
    for path in PAGES:
        page = path.read_text("utf-8")
        fresh = regenerated(page)
        if "--check" in sys.argv[1:]:
            stale += fresh != page
        else:
            path.write_text(fresh, "utf-8")
    if stale:
        print("docs/cli.md is not what the program prints; run 'make docs'")
    return int(bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
