"""What failed beside others, once more and alone; `make test` asks for it when a run has failed.

Real terminals, browsers and clusters share two processors here, and meet moments that no test was
written for. A test that passes alone does not stop a landing; it is named as the last thing said,
for it is a defect all the same. Nothing that is decided without a machine has a second look,
nothing that looks for faults by chance, and no run in which several things broke.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDERS = ("tests/door/", "tests/story/")
"""Where tests touch real programs and sockets, or many tasks at once."""
LIMIT = 3
"""How many may have failed: more are no chance."""
RUN_FAILED = int(pytest.ExitCode.TESTS_FAILED)


class SecondLook:
    """Which tests passed this time, and which of them look for faults by chance."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.hunts: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run nothing if a failure was a find."""
        self.hunts = [item.nodeid for item in items if item.get_closest_marker("hunt")]
        if self.hunts:
            items.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed in all its parts."""
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        elif not report.passed:
            self.passed.discard(report.nodeid)


def look_again(code: int, failed: list[str]) -> int:
    """Give the exit code of a whole run whose first part ended with one."""
    why = _refuse(code, failed)
    if why:
        print(f"No second look: {why}")
        return code
    print(f"A second look at {len(failed)} that failed, alone:", flush=True)
    look = SecondLook()
    again = int(pytest.main(["-q", "-p", "no:cacheprovider", *failed], plugins=[look]))
    if look.hunts:
        print(f"No second look: these hunt for faults, and found one: {', '.join(look.hunts)}")
        return code
    if again or look.passed != set(failed):
        return again or code
    print("UNSTEADY, failed beside others and passed alone; each is a defect, to be mended first:")
    print("\n".join(f"    {name}" for name in failed))
    return 0


def _refuse(code: int, failed: list[str]) -> str:
    firm = [name for name in failed if not name.startswith(FOLDERS)]
    if code != RUN_FAILED or not failed:
        return f"the run ended with {code}, and not because tests failed"
    if len(failed) > LIMIT:
        return f"{len(failed)} failed, more than {LIMIT}"
    if firm:
        return f"these depend on no machine: {', '.join(firm)}"
    return ""


def _read_failed() -> list[str]:
    try:
        return sorted(json.loads(Path(".pytest_cache/v/cache/lastfailed").read_text()))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(look_again(int(sys.argv[1]), _read_failed()))
