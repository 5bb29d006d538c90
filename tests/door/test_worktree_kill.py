"""Killed at any moment and resumed, children find their worktrees again and lose no work."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.host import LocalHost
from prong.host.cleanup import clean
from prong.host.merge import merge
from prong.host.worktree import create, leftovers, sweep
from prong.testing import Script, ServerProcess, call, forks, report, say
from prong.testing.repository import make_repo

pytestmark = pytest.mark.hunt

DRIVER = """
import sys, anyio, msgspec
from prong.session import open_session
from prong.testing import inside

async def main(url, folder, resumed):
    given = {"resume": "it"} if resumed else {"session_id": "it"}
    async with open_session(
        model="claude-sonnet-5-5", base_url=url, cwd=folder + "/project", store=folder + "/store",
        mode="bypassPermissions", env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        settings='{"retry": {"first": 0.01}}', **given,
    ) as session:
        print("open", flush=True)
        if not resumed or not inside(session).agent.conversation.prompt.depth:
            await session.run("Go")
        await session.wait_settled()
        results = [inside(session).supervisor.result(c) for c in inside(session).supervisor.children]
        found = [[r.status, r.detail, r.worktree] for r in results]
        print(msgspec.json.encode(found).decode(), flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3] == "resumed")
"""


def start(url: str, folder: Path, how: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", DRIVER, url, str(folder), how]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


MAKE = "from prong.host import LocalHost; from prong.host.worktree import create"
NAMES = [f"Part {n}." for n in range(1, 4)]
WORK = call("Bash", {"command": "echo x >> done.txt; sleep 0.2"})
SCRIPT = Script(
    [forks(*NAMES, isolation="worktree"), say("waiting")],
    {name: [WORK] * 3 for name in NAMES},
    forever=report(),
)


def finish(url: str, folder: Path, how: str) -> set[str]:
    """Let the session come to its end; gives the worktrees that hold work."""
    process = start(url, folder, how)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found: list[Any] = msgspec.json.decode(output.splitlines()[-1])
    assert [status for status, _, _ in found] == ["completed"] * 3, found
    return {place for _, _, place in found if place}


def await_path(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.005)


def folders(folder: Path) -> set[str]:
    return {str(place) for place in (folder / "project/.prong/worktrees").glob("*/")}


@pytest.mark.timeout(240)
@pytest.mark.spec("W4", "L8")
def test_work_outlives_a_kill(tmp_path: Path) -> None:
    """Killed while all three work, each goes on in the worktree that it had."""
    repo = make_repo(tmp_path / "project")
    before = repo.fingerprint()
    with ServerProcess(SCRIPT) as server:
        process = start(server.url, tmp_path, "new")
        for number in (1, 2, 3):
            await_path(tmp_path / f"project/.prong/worktrees/part-{number}/done.txt")
        process.kill()
        process.communicate()
        begun = folders(tmp_path)

        assert finish(server.url, tmp_path, "resumed") == begun == folders(tmp_path)
        assert len(begun) == 3
        assert repo.fingerprint() == before
        server.check_prefixes()


@pytest.mark.timeout(240)
@pytest.mark.spec("W4")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kills_leave_nothing_behind(tmp_path: Path, seed: int) -> None:
    """Whenever it is killed, at last every child has ended and only work is left."""
    chance = random.Random(seed)
    repo = make_repo(tmp_path / "project")
    before = repo.fingerprint()
    with ServerProcess(SCRIPT) as server:
        for how in ("new", "resumed", "resumed"):
            process = start(server.url, tmp_path, how)
            assert process.stdout is not None
            assert process.stdout.readline()
            # Before the first child has begun there is nothing to lose.
            await_path(tmp_path / "project/.prong/worktrees")
            time.sleep(chance.uniform(0.0, 0.4))
            process.kill()
            process.communicate()
        kept = finish(server.url, tmp_path, "resumed")
        # Sessions do this in the background, and the last one may have been too short for it.
        anyio.run(sweep, LocalHost(str(repo.path)))

        assert all((Path(place) / "done.txt").exists() for place in kept)
        assert folders(tmp_path) == kept
        assert repo.fingerprint() == before
        server.check_prefixes()


@pytest.mark.spec("W4", "W5")
@pytest.mark.parametrize("known", [True, False])
def test_a_worktree_that_was_half_made_is_no_work(tmp_path: Path, known: bool) -> None:
    """Killed while git writes the files, those that are missing are neither kept nor merged.

    Neither if git got as far, on its way out, as to forget the folder.
    """
    repo = make_repo(tmp_path / "project")
    repo.write("z.slow", "slow\n")
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.commit()
    before = repo.fingerprint()
    begun = tmp_path / "begun"
    program = f"import anyio; {MAKE}; anyio.run(create, LocalHost({str(repo.path)!r}), 'half')"
    stalled = f"filter.slow.smudge=echo $$ > {begun}.new; mv {begun}.new {begun}; exec sleep 600"
    key, _, value = stalled.partition("=")
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": value}
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **env})
    await_path(begun)
    host, place = LocalHost(str(repo.path)), repo.path / ".prong/worktrees/half"
    assert place.is_dir()
    # As long as it is made, it is not touched.
    assert anyio.run(sweep, host) == []
    assert place.is_dir()

    # Git is killed before it can tidy up, and its caller before it hears of that.
    process.send_signal(signal.SIGSTOP)
    os.killpg(os.getpgid(int(begun.read_text())), signal.SIGKILL)
    process.kill()
    process.wait()
    assert repo.git("status", "--porcelain", cwd=place)
    if not known:
        shutil.rmtree(repo.path / ".git/worktrees/half")
    assert anyio.run(leftovers, host) == []
    assert anyio.run(merge, host).steps == ()
    assert ["it is being made" in one.why for one in anyio.run(clean, host).items] == [True] * known
    anyio.run(sweep, host)
    assert not place.exists()
    assert "prong" not in repo.git("for-each-ref") + repo.git("worktree", "list")
    assert repo.fingerprint() == before
    assert anyio.run(create, host, "half").slug == "half"
