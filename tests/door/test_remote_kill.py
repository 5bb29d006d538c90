"""A session that is killed while its forks work on another machine, and resumed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.testing import Script, ServerProcess, call, forks, report, say
from prong.testing.repository import make_repo
from shared.remote import copies, remote_settings

DRIVER = """
import sys, anyio, msgspec
from prong.session import open_session
from prong.testing import inside

async def main(url, folder, resumed, settings):
    given = {"resume": "it"} if resumed else {"session_id": "it"}
    async with open_session(
        model="claude-sonnet-5-5", base_url=url, cwd=folder + "/project", store=folder + "/store",
        mode="bypassPermissions", env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        settings=settings, **given,
    ) as session:
        if not resumed or not inside(session).agent.conversation.prompt.depth:
            await session.run("Go")
        await session.wait_settled()
        results = [inside(session).supervisor.result(c) for c in inside(session).supervisor.children]
        print(msgspec.json.encode([[r.status, r.detail, r.branch] for r in results]).decode())

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3] == "resumed", sys.argv[4])
"""
NAMES = ["Part 1.", "Part 2."]
WORK = call("Bash", {"command": "echo x >> done.txt; sleep 0.3"})
SCRIPT = Script(
    [forks(*NAMES, isolation="remote"), say("waiting")],
    {name: [WORK] * 3 for name in NAMES},
    forever=report(),
)


def start(url: str, folder: Path, how: str) -> subprocess.Popen[str]:
    settings = remote_settings(folder / "far")
    words = [sys.executable, "-c", DRIVER, url, str(folder), how, settings]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.spec("R3", "L8")
@pytest.mark.parametrize("moment", ["prepares", "works"])
def test_work_elsewhere_outlives_a_kill(tmp_path: Path, moment: str) -> None:
    """Both go on where they were, each call runs once, and both branches come back."""
    repo = make_repo(tmp_path / "project")
    far = tmp_path / "far"
    with ServerProcess(SCRIPT) as server:
        process = start(server.url, tmp_path, "new")
        sign = "*/.prong/worktrees/*/done.txt" if moment == "works" else "*/.prong"
        deadline = time.monotonic() + 60
        while len(list(far.glob(sign))) < (2 if moment == "works" else 1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.communicate()

        again = start(server.url, tmp_path, "resumed")
        output, errors = again.communicate(timeout=120)
        assert again.returncode == 0, errors
        found: list[Any] = msgspec.json.decode(output.splitlines()[-1])

    assert [status for status, _, _ in found] == ["completed"] * 2, found
    assert not copies(far)
    for _, _, branch in found:
        # At most the call that was cut off has run in part.
        assert repo.git("show", f"{branch}:done.txt").split() in (["x"] * 3, ["x"] * 2)
