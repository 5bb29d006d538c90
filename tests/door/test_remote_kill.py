"""A session that is killed while its forks work on another machine, and resumed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.testing import ServerProcess
from prong.testing.repository import make_repo
from shared.remote import copies, remote_settings
from shared.remote_driver import DRIVER, working

pytestmark = pytest.mark.hunt


def start(url: str, folder: Path, how: str) -> subprocess.Popen[str]:
    settings = remote_settings(folder / "far")
    words = [sys.executable, "-c", DRIVER, url, str(folder), how, settings]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.spec("R3", "L8")
@pytest.mark.parametrize("moment", ["prepares", "works"])
def test_work_elsewhere_outlives_a_kill(tmp_path: Path, moment: str) -> None:
    """Both go on where they were, each call runs once, and both branches come back."""
    repo = make_repo(tmp_path / "project")
    far, gate = tmp_path / "far", tmp_path / "go"
    with ServerProcess(working(str(gate))) as server:
        process = start(server.url, tmp_path, "new")
        sign = "*/.prong/worktrees/*/done.txt" if moment == "works" else "*/.prong"
        deadline = time.monotonic() + 60
        while len(list(far.glob(sign))) < (2 if moment == "works" else 1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.communicate()
        gate.touch()

        again = start(server.url, tmp_path, "resumed")
        output, errors = again.communicate(timeout=120)
        assert again.returncode == 0, errors
        found: list[Any] = msgspec.json.decode(output.splitlines()[-1])

    assert [status for status, _, _ in found] == ["completed"] * 2, found
    assert not copies(far)
    for _, _, branch in found:
        # At most the call that was cut off has run in part.
        assert repo.git("show", f"{branch}:done.txt").split() in (["x"] * 3, ["x"] * 2)
