"""What runs on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prong.testing.process_table import kill_processes, read_processes

pytestmark = pytest.mark.door

WAITING = "print(flush=True); input()"
# It waits on when what it has started is gone: of the two, either may be ended first.
TREE = (
    "import subprocess, sys; "
    f"subprocess.run([sys.executable, '-c', {WAITING!r}, sys.argv[1]]); input()"
)


def test_a_process_and_all_that_it_has_started(tmp_path: Path) -> None:
    """They are found by their words and by who has started them, and end at once."""
    mark = str(tmp_path).encode()
    with _started(TREE, str(tmp_path), cwd=Path.cwd()) as top:
        table = read_processes()
        found = table.below([top.pid])

        assert found == table.holding(mark)
        assert len(found) == 2
        assert os.getpid() not in found
        assert found < table.below([os.getpid()])
        kill_processes(found)
        assert top.wait() == -9
    kill_processes(found)
    # Nobody here can wait for a grandchild; how soon a killed one is gone is the system's affair.
    while read_processes().holding(mark):
        time.sleep(0.01)


def test_a_process_is_known_by_where_it_is(tmp_path: Path) -> None:
    """One whose words say nothing is found by the folder that it is in, and one by its words."""
    folder = tmp_path / "in"
    folder.mkdir()
    with (
        _started(WAITING, cwd=folder) as inside,
        _started(WAITING, str(folder), cwd=tmp_path) as told,
    ):
        assert read_processes().knowing(folder) == {inside.pid, told.pid}
        kill_processes([inside.pid, told.pid])
    assert not read_processes().knowing(folder)


@contextmanager
def _started(program: str, *words: str, cwd: Path) -> Generator[subprocess.Popen[bytes]]:
    """Start a program, and wait for its first line: until then its words may still be another's, or none."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process
