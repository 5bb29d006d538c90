"""Killed at any moment and resumed, a team reads every message exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.testing import Script, ServerProcess, Step, call, calls, say
from prong.testing.script import Call

pytestmark = pytest.mark.hunt

DRIVER = """
import sys, anyio, msgspec
from prong.session import open_session
from prong.testing import inside
from prong.entry import User, plain

async def tell_begun(session):
    while len(inside(session).supervisor.children) < 3:
        await anyio.sleep(0.001)
    print("begun", flush=True)

async def main(url, folder, resumed):
    given = {"resume": "it"} if resumed else {"session_id": "it"}
    async with open_session(
        model="claude-sonnet-5-5", base_url=url, cwd=folder + "/project", store=folder + "/store",
        mode="bypassPermissions", env={"HOME": folder, "PATH": "/usr/bin:/bin"}, team=True,
        settings='{"retry": {"first": 0.01}}', **given,
    ) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(tell_begun, session)
            if not resumed:
                await session.run("Go")
            await session.wait_settled()
        agents = inside(session).supervisor.registry.agents
        texts = {
            path: [plain(e.parts) for k, e in agent.conversation.prompt.entries() if isinstance(e, User)]
            for path, agent in agents.items()
        }
        print(msgspec.json.encode(texts).decode(), flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3] == "resumed")
"""

NAMES = ["ann", "bob", "cat"]
KILLS = 5
ROUNDS = KILLS + 1
"""Each kill may cost a member the reply that it waits for, or works on: one is left to each."""


def _start(url: str, folder: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, url, str(folder), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _script() -> Script:
    """Everybody sends to everybody, round by round."""
    spawn = calls(
        *(
            ("TeamSpawn", {"name": one, "description": "x", "prompt": f"PART of {one}."})
            for one in NAMES
        )
    )

    def chat(name: str, turn: int) -> Step:
        others = [one for one in (*NAMES, "leader") if one != name]
        parts = (
            Call("SendMessage", {"to": other, "message": f"{name} in round {turn} to {other}."})
            for other in others
        )
        return Step(tuple(parts))

    create = call("TeamCreate", {"name": "crew"})
    routes = {f"PART of {one}.": [chat(one, turn) for turn in range(ROUNDS)] for one in NAMES}
    return Script([create, spawn], routes, forever=say("Ok."))


@pytest.mark.timeout(240)
@pytest.mark.spec("M5", "M7", "L8")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_message_is_read_once(tmp_path: Path, seed: int) -> None:
    """Three members, up to five kills at random moments: nothing sent is lost or read twice."""
    chance = random.Random(seed)
    (tmp_path / "project").mkdir()
    with ServerProcess(_script()) as server:
        how = "new"
        for _ in range(KILLS):
            process = _start(server.url, tmp_path, how)
            assert process.stdout is not None
            if process.stdout.readline():
                how = "resumed"
                time.sleep(chance.uniform(0.0, 0.3))
            process.kill()
            process.communicate()
        process = _start(server.url, tmp_path, how)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        server.check_prefixes()
    found: dict[str, Any] = msgspec.json.decode(output.splitlines()[-1])
    _check(tmp_path, found)


def _check(folder: Path, found: dict[str, Any]) -> None:
    """Hold what stands in the conversations against what stands in the boxes."""
    boxes = folder / "store" / "teams" / "crew" / "inbox"
    sent = 0
    for name in (*NAMES, "leader"):
        told = "\n".join(found["main" if name == "leader" else f"main/{name}"])
        for line in (boxes / f"{name}.jsonl").read_bytes().splitlines()[1:]:
            mail = msgspec.json.decode(line)
            assert told.count(f'id="{mail["id"]}-{name}">') == 1, (name, mail)
            sent += 1
        assert not (boxes / f"{name}.aside.jsonl").exists()
    assert sent >= len(NAMES) * len(NAMES), "a whole round, from each to two others and the leader"
