"""Records the run that examples/test_support_bot.py replays: part of `make docs`.

A model on this machine plays its part, so that it costs nothing and is the same each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prong.testing import ServerProcess, call, say

EXAMPLES = Path(__file__).parents[1] / "examples"
LAMP = [
    call("find_order", {"number": 1001}),
    call("refund", {"number": 1001, "reason": "The lamp came broken."}),
    say('{"text": "I am sorry! The 39.00 are on their way back to you.", "next_step": "refund"}'),
]


def main(folder: Path = EXAMPLES) -> int:
    """Run the test so that it records; gives its exit code."""
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")
    with ServerProcess(LAMP) as server:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "test_support_bot.py"],
            cwd=folder,
            env={**os.environ, "PRONG_RECORD": "1", "ANTHROPIC_BASE_URL": server.url},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
