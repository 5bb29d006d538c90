"""Many tasks in one session: nothing is lost, nothing is told twice, nothing is left behind."""

from __future__ import annotations

import gc
import random
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import anyio
import pytest

from prong.agent import Agent
from prong.entry import CallId, User, plain
from prong.session import open_session
from prong.session.replay import read_journal
from prong.team.child import ChildSpec
from prong.team.shelf import KEPT
from prong.testing import Script, ServerProcess, calls, say
from prong.tool.delegate import PlainAgentArguments

pytestmark = pytest.mark.door

TASKS = 500
_ONE_RUN = """
import sys, anyio
from prong.session import open_session

async def main(url, folder, first):
    given = {"session_id": "stress"} if first == "yes" else {"resume": "stress"}
    async with open_session(
        model="claude-sonnet-5-5", api="anthropic", base_url=url, cwd=folder + "/project",
        store=folder + "/store", env={"HOME": folder, "PATH": ""}, compact_at=0.0, **given
    ) as session:
        if first == "yes":
            await session.run("Go")
        await session.wait_settled()
    print("settled", flush=True)

anyio.run(main, *sys.argv[1:])
"""


def _records(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


@pytest.mark.timeout(180)
@pytest.mark.spec("T4")
def test_every_notice_arrives_once_whenever_the_process_dies(tmp_path: Path):
    """500 tasks end together while the process is killed again and again: one notice for each."""
    (tmp_path / "project").mkdir()
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    each = [
        (
            "Agent",
            {
                "description": "a part",
                "prompt": "Be ready.",
                "subagent_type": "worker",
                "run_in_background": True,
                "name": f"w{number}",
            },
        )
        for number in range(TASKS)
    ]
    script = Script([], {"Go": [calls(*each)]}, forever=say("Ready."))
    kills, outbox = 0, None
    with ServerProcess(script) as server:
        for turn in range(40):
            first = "yes" if turn == 0 else "no"
            process = subprocess.Popen(
                [sys.executable, "-c", _ONE_RUN, server.url, str(tmp_path), first],
                stdout=subprocess.PIPE,
            )
            # The first death comes when nearly all have started and many are ending.
            behind = _records(outbox) if outbox else TASKS
            target = behind + chance.randint(1, TASKS)
            while process.poll() is None:
                outbox = outbox or next(tmp_path.glob("store/**/outbox.jsonl"), None)
                if kills < 5 and outbox is not None and _records(outbox) >= target:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.002)
            out, _ = process.communicate(timeout=120)
            if b"settled" in out:
                break
    (journal,) = tmp_path.glob("store/**/stress.jsonl")
    replay = read_journal(journal)
    told = [
        name
        for kind, entry in replay.agents["main"].entries()
        if kind == "notice" and isinstance(entry, User)
        for name in re.findall(r"<task-id>(\S+)</task-id>", plain(entry.parts))
    ]
    specs = [replay.note(path, "child", ChildSpec) for path in replay.agents]
    begun = [spec.task_id for spec in specs if spec is not None]

    print(f"{len(begun)} tasks, {kills} kills, {len(told)} notices (seed {seed})")
    assert kills, f"the process was never killed (seed {seed})"
    assert begun
    assert sorted(told) == sorted(begun), f"seed {seed}"


@pytest.mark.timeout(180)
@pytest.mark.anyio
@pytest.mark.spec("T11")
async def test_a_thousand_tasks_leave_nothing_behind(tmp_path: Path):
    """After 1,000 tasks open files are as before, and what memory keeps of a task is small."""
    (tmp_path / "project").mkdir()
    with ServerProcess(Script([], forever=say("Ready."))) as server:
        async with open_session(
            model="claude-sonnet-5-5",
            api="anthropic",
            base_url=server.url,
            cwd=str(tmp_path / "project"),
            store=str(tmp_path / "store"),
            env={"HOME": str(tmp_path), "PATH": ""},
        ) as session:

            async def batch(start: int, count: int) -> None:
                async with anyio.create_task_group() as group:
                    for number in range(start, start + count):
                        args = PlainAgentArguments(
                            description="a part",
                            prompt="Be ready.",
                            subagent_type="worker",
                            name=f"w{number}",
                        )
                        supervisor, main = session.supervisor, session.agent
                        group.start_soon(supervisor.delegate, main, CallId(f"c{number}"), args)

            for start in range(0, 200, 20):
                await batch(start, 20)
            gc.collect()
            tracemalloc.start()
            files, before = (
                len(list(Path("/proc/self/fd").iterdir())),
                tracemalloc.get_traced_memory()[0],
            )
            for start in range(200, 1000, 20):
                await batch(start, 20)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            agents = sum(isinstance(one, Agent) for one in gc.get_objects())

            assert session.tasks.running() == 0
            assert len(list(Path("/proc/self/fd").iterdir())) <= files
            assert agents <= KEPT + 25
            assert len(session.receipts()) == 1000
            # Receipt, row of the ledger and digests: a few kilobytes, and no prompt.
            print(f"{(after - before) / 800:.0f} bytes a task")
            assert (after - before) / 800 < 8_000
