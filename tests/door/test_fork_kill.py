"""Killed at any moment and resumed, a session tells of each fork exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.journal.eventlog import EventLog
from prong.testing import Script, ServerProcess, call, forks, report, say
from prong.testing.span import check_events
from prong.view import fold_all

pytestmark = pytest.mark.hunt

DRIVER = """
import sys, anyio, msgspec
from prong.session import open_session
from prong.testing import inside
from prong.team.notice import mentions
from prong.entry import User, plain

async def tell_begun(session):
    # Before the dispatch is stored there is nothing to resume, and the server's reply is spent.
    while not inside(session).supervisor.children:
        await anyio.sleep(0.001)
    print("begun", flush=True)

async def main(url, folder, resumed):
    given = {"resume": "it"} if resumed else {"session_id": "it"}
    async with open_session(
        model="claude-sonnet-5-5", base_url=url, cwd=folder + "/project", store=folder + "/store",
        mode="bypassPermissions", env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        settings='{"fork": {"wake": "%s"}, "retry": {"first": 0.01}, "agents": {"backend": "%s"}}'
        % (sys.argv[4], sys.argv[5]), **given,
    ) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(tell_begun, session)
            if not resumed:
                await session.run("Go")
            await session.wait_settled()
        texts = [plain(e.parts) for k, e in inside(session).agent.conversation.prompt.entries() if k == "notice"]
        told = {c.spec.task_id: sum(t.count("<task-id>%s</task-id>" % c.spec.task_id)
                for t in texts) for c in inside(session).supervisor.children}
        statuses = {c.spec.task_id: c.status for c in inside(session).supervisor.children}
        print(msgspec.json.encode({"told": told, "statuses": statuses}).decode(), flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3] == "resumed")
"""


def start(
    url: str, folder: Path, how: str, wake: str, backend: str = "inline"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, url, str(folder), how, wake, backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.spec("T4", "L8", "L1")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("wake", ["all", "each"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exactly_once(tmp_path: Path, seed: int, wake: str) -> None:
    """Six forks, up to four kills at random moments: every report arrives once."""
    chance = random.Random(seed)
    (tmp_path / "project").mkdir()
    names = [f"Part {n}." for n in range(1, 7)]
    step = call("Bash", {"command": "sleep 0.03; echo x"})
    # A killed request may have used up its step, so there are more than are needed.
    script = Script(
        [forks(*names), say("waiting")], {name: [step] * 3 for name in names}, forever=report()
    )
    with ServerProcess(script) as server:
        how = "new"
        for _ in range(4):
            process = start(server.url, tmp_path, how, wake)
            assert process.stdout is not None
            if process.stdout.readline():
                how = "resumed"
                time.sleep(chance.uniform(0.0, 0.25))
            process.kill()
            process.communicate()
        process = start(server.url, tmp_path, how, wake)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        found: dict[str, Any] = msgspec.json.decode(output.splitlines()[-1])
        assert set(found["told"].values()) == {1}
        assert set(found["statuses"].values()) == {"completed"}
        server.check_prefixes()
    [path] = tmp_path.glob("store/projects/*/it/events.jsonl")
    log = EventLog(path)
    told = list(log.replay(0, log.seq))
    check_events(told)
    forks_seen = fold_all(told).children("main")
    assert {fork.ended for fork in forks_seen} == {"completed"}
    assert len(forks_seen) == len(names)


def workers(folder: Path) -> list[int]:
    """Give the workers that were started for a session in this folder and still run."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").readlink().is_relative_to(folder / "store"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.spec("T4", "L8", "L1")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_worker_outlives_its_session(tmp_path: Path, seed: int) -> None:
    """Killed with forks in processes of their own, a session leaves none, and goes on from disk."""
    chance = random.Random(seed)
    (tmp_path / "project").mkdir()
    names = ["Part 1.", "Part 2."]
    # None of them is done before they were seen, however late that is looked for.
    step = call("Bash", {"command": "until [ -e seen ]; do sleep 0.02; done; sleep 0.1; echo x"})
    script = Script(
        [forks(*names), say("waiting")], {name: [step] * 3 for name in names}, forever=report()
    )
    with ServerProcess(script) as server:
        process = start(server.url, tmp_path, "new", "all", "process")
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        deadline = time.monotonic() + 50
        while not workers(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (tmp_path / "project/seen").touch()
        time.sleep(chance.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 50
        while workers(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not workers(tmp_path)
        process = start(server.url, tmp_path, "resumed", "all", "process")
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        found: dict[str, Any] = msgspec.json.decode(output.splitlines()[-1])
        assert set(found["told"].values()) == {1}
        assert set(found["statuses"].values()) == {"completed"}
        server.check_prefixes()
    [path] = tmp_path.glob("store/projects/*/it/events.jsonl")
    log = EventLog(path)
    check_events(list(log.replay(0, log.seq)))
