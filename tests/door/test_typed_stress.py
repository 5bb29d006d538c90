"""Many tasks in one session: nothing is lost, nothing is told twice, nothing is left behind."""

from __future__ import annotations

import gc
import random
import re
import signal
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from prong.agent import Agent
from prong.entry import CallId, User, plain
from prong.journal.note import ChildSpec
from prong.journal.replay import read_journal
from prong.session import open_session
from prong.team.archive import KEPT
from prong.testing import Script, Server, ServerProcess, Step, calls, delay, inside, say
from prong.testing.request import Request
from prong.tools.delegate import PlainAgentArguments

pytestmark = [pytest.mark.door, pytest.mark.hunt]

TASKS = 500
NAMES = [f"w{number}" for number in range(TASKS)]
KILLS = 6
AT_ONCE = 20
_ONE_RUN = """
import sys, anyio
from prong.session import open_session

async def main(url, folder, first):
    given = {"session_id": "stress"} if first == "yes" else {"resume": "stress"}
    async with open_session(
        model="claude-sonnet-5-5", api="anthropic", base_url=url, cwd=folder + "/project",
        store=folder + "/store", env={"HOME": folder, "PATH": ""}, compact_at=0.0, **given
    ) as session:
        await session.run("Go")
    print("settled", flush=True)

anyio.run(main, *sys.argv[1:])
"""


def _dispatcher(request: Request) -> Step:
    """Play a model that starts every task once, and again those whose start was interrupted."""
    messages = request.field("messages")
    if "Be ready." in str(messages[0]):
        return say("Ready.")
    blocks = [block for message in messages for block in message["content"]]
    failed = {
        block["tool_use_id"]
        for block in blocks
        if block["type"] == "tool_result" and block.get("is_error")
    }
    begun = {
        block["input"]["name"]
        for block in blocks
        if block["type"] == "tool_use" and block["id"] not in failed
    }
    more = [
        (
            "Agent",
            {
                "description": "a part",
                "prompt": "Be ready.",
                "subagent_type": "worker",
                "run_in_background": True,
                "name": name,
            },
        )
        for name in NAMES
        if name not in begun
    ]
    # The parent is busy while they end.
    return calls(*more) if more else delay(0.3, then=say("I have started all."))


def _records(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("store/**/outbox.jsonl"))


async def _one_run(url: str, folder: Path, *, first: bool, target: int | None) -> bool | None:
    """Run the session; None if it was killed, at so many records of the outbox, else its success."""
    words = [sys.executable, "-c", _ONE_RUN, url, str(folder), "yes" if first else "no"]
    async with await anyio.open_process(words, stderr=None) as process:
        while process.returncode is None:
            if target is not None and _records(folder) >= target:
                process.send_signal(signal.SIGKILL)
                await process.wait()
                return None
            await anyio.sleep(0.003)
        assert process.stdout is not None
        return await process.stdout.receive() == b"settled\n" if not process.returncode else False


@pytest.mark.timeout(300)
@pytest.mark.anyio
@pytest.mark.spec("T4")
async def test_every_notice_arrives_once_whenever_the_process_dies(tmp_path: Path):
    """500 tasks end while their parent is busy and is killed again and again: a notice for each."""
    (tmp_path / "project").mkdir()
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    # Every task has three records: it is expected, it has ended, its parent was told. So deaths
    # fall into the starting of tasks, into their ends and into the telling.
    targets = sorted(chance.sample(range(1, 3 * TASKS - 50), KILLS))
    kills = 0
    why = "a process that dies loses replies that the server has sent"
    async with Server(_dispatcher, moves_prefix=why) as server:
        for turn, target in enumerate([*targets, None]):
            ended = await _one_run(server.url, tmp_path, first=turn == 0, target=target)
            assert ended is not False, f"seed {seed}"
            kills += ended is None
    (journal,) = tmp_path.glob("store/**/stress.jsonl")
    replay = read_journal(journal)
    told = [
        name
        for kind, entry in replay.agents["main"].entries()
        if kind == "notice" and isinstance(entry, User)
        for name in re.findall(r"<task-id>(\S+)</task-id>", plain(entry.parts))
    ]
    specs = [replay.last(path, ChildSpec) for path in replay.agents]
    begun = [spec.task_id for spec in specs if spec is not None]

    print(f"{len(begun)} tasks, {kills} kills, {len(told)} notices (seed {seed})")
    assert kills, f"the process was never killed (seed {seed})"
    assert sorted(begun) == sorted(NAMES), f"seed {seed}"
    assert sorted(told) == sorted(NAMES), f"seed {seed}"


def _open_files() -> tuple[int, int]:
    """Count the files that this process has open, and apart from them its sockets."""
    names: list[str] = []
    for path in Path("/proc/self/fd").iterdir():
        # What it is listed by is gone again.
        with suppress(FileNotFoundError):
            names.append(str(path.readlink()))
    sockets = sum(name.startswith("socket:") for name in names)
    return len(names) - sockets, sockets


@pytest.mark.timeout(300)
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
                        supervisor, main = inside(session).supervisor, inside(session).agent
                        group.start_soon(
                            supervisor.delegate, main.path, [(CallId(f"c{number}"), args)]
                        )

            for start in range(0, 200, AT_ONCE):
                await batch(start, AT_ONCE)
            gc.collect()
            tracemalloc.start()
            files, sockets = _open_files()
            before = tracemalloc.get_traced_memory()[0]
            for start in range(200, 1000, AT_ONCE):
                await batch(start, AT_ONCE)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            agents = sum(isinstance(one, Agent) for one in gc.get_objects())

            assert inside(session).tasks.running() == 0
            left, connected = _open_files()
            assert left <= files
            # A connection is kept for the next who asks, and at most a batch asks at once.
            assert connected <= sockets + AT_ONCE
            assert agents <= KEPT + 25
            assert len(session.receipts()) == 1000
            # Receipt, row of the ledger and digests: a few kilobytes, and no prompt.
            print(f"{(after - before) / 800:.0f} bytes a task")
            assert (after - before) / 800 < 8_000


@pytest.mark.anyio
@pytest.mark.spec("T11")
async def test_forks_of_earlier_fan_outs_are_left_to_the_journal(tmp_path: Path):
    """Siblings are kept until their fan-out is told; after that only the last finished are."""
    (tmp_path / "project").mkdir()
    size = KEPT + 6
    with ServerProcess(Script([], forever=say("Ready."))) as server:
        async with open_session(
            model="claude-sonnet-5-5",
            api="anthropic",
            base_url=server.url,
            cwd=str(tmp_path / "project"),
            store=str(tmp_path / "store"),
            env={"HOME": str(tmp_path), "PATH": ""},
            mode="dontAsk",
        ) as session:
            await session.run("Be ready.")
            roster = inside(session).supervisor.services.registry
            held: list[int] = []
            for fan in range(3):
                await session.fork([f"Part {fan}.{number}" for number in range(size)])
                held.append(len(list(roster)))

            assert max(held) <= KEPT + size
            assert len(session.receipts()) == 3 * size
