"""Journals that an earlier program wrote: still read, still sound, still taken up byte for byte."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.event import PromptMoved, TaskFinished
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.prompt import Prompt
from prong.testing import World, Worlds, report
from prong.testing.repository import make_repo
from prong.testing.script import Script

pytestmark = [pytest.mark.spec("L8"), pytest.mark.door]

FOLDER = Path(__file__).parents[1] / "fixtures/journals"
NAMES = ["compacted", "forks-running", "typed-worktree"]


class Agent(msgspec.Struct, frozen=True):
    """An agent's prompt as it was recorded."""

    digest: str
    depth: int
    length: int
    sha256: str
    goes_on: bool
    """Whether it has something to do after a resume."""

    def begins(self, data: bytes) -> bool:
        return sha256(data[: self.length]).hexdigest() == self.sha256


class Expected(msgspec.Struct, frozen=True):
    records: int
    entries: int
    requests: int
    prompts: int
    prompts_sha256: str
    agents: dict[str, Agent]


def expected(name: str) -> Expected:
    return msgspec.json.decode((FOLDER / name / "expected.json").read_bytes(), type=Expected)


def journal(name: str) -> Path:
    return FOLDER / name / f"{name}.jsonl"


def unmarked(body: bytes) -> bytes:
    """Take the cache marks out of a request; they are no part of a prompt's bytes."""
    return re.sub(rb',"cache_control":\{[^{}]*\}', b"", body)


@asynccontextmanager
async def resumed(worlds: Worlds, name: str) -> AsyncGenerator[World]:
    """Take up a copy of the journal in another folder, and let it go on until all is done."""
    given: dict[str, Any] = {"api": "responses"} if name == "compacted" else {}
    script = Script([], {}, forever=report())
    async with worlds(script, opens=False, mode="bypassPermissions", **given) as w:
        w.root.rmdir()
        make_repo(w.root)
        shutil.copytree(
            FOLDER / name,
            w.store / "projects/elsewhere",
            ignore=shutil.ignore_patterns("expected.json"),
        )
        async with w.open(resume=name) as session:
            await session.wait_settled()
            await session.run("Is all of it done?")
            await session.wait_settled()
            yield w


@pytest.mark.parametrize("name", NAMES)
def test_each_is_read_to_the_same_prompts(name: str) -> None:
    """Every digest and every byte of every agent's prompt is as it was recorded."""
    replay, wanted = read_journal(journal(name)), expected(name)
    reached = "".join(f"{digest}\n" for digest in replay.known).encode()

    assert list(replay.agents) == list(wanted.agents)
    for path, agent in wanted.agents.items():
        prompt = replay.agents[path]
        assert (prompt.digest, prompt.depth) == (agent.digest, agent.depth)
        assert len(prompt.open()) == agent.length
        assert agent.begins(prompt.open())
    assert (len(replay.known), sha256(reached).hexdigest()) == (
        wanted.prompts,
        wanted.prompts_sha256,
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_is_found_sound(name: str) -> None:
    """All its lines check out, and none is passed over."""
    found, wanted = verify(journal(name)), expected(name)

    assert found.sound
    assert (found.records, found.entries, found.requests, found.torn) == (
        wanted.records,
        wanted.entries,
        wanted.requests,
        0,
    )
    assert [(path, agent.depth, agent.digest) for path, agent in wanted.agents.items()] == list(
        found.agents
    )


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_requests_after_a_resume_begin_with_the_recorded_bytes(
    world: Worlds, name: str
) -> None:
    """Whoever has something to do sends what was recorded, to the byte, and more after it."""
    async with resumed(world, name) as w:
        bodies = [unmarked(record.body) for record in w.server.records]
        going_on = {
            path for path, agent in expected(name).agents.items() if any(map(agent.begins, bodies))
        }

        assert going_on == {path for path, a in expected(name).agents.items() if a.goes_on}
        assert not w.told(PromptMoved)


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_what_is_stored_after_a_resume_extends_what_was(world: Worlds, name: str) -> None:
    """The old lines stay as they are, and each agent's prompt extends the one it had."""
    async with resumed(world, name) as w:
        stored = w.store / f"projects/elsewhere/{name}.jsonl"
        before, after = read_journal(journal(name)).agents, read_journal(stored).agents

        assert stored.read_bytes().startswith(journal(name).read_bytes())
        assert set(before) == set(after)
        for path, prompt in before.items():
            assert_extends(after[path], prompt)
        assert verify(stored).sound


def assert_extends(after: Prompt, before: Prompt) -> None:
    assert after.open().startswith(before.open())
    assert after.depth >= before.depth


@pytest.mark.anyio
@pytest.mark.spec("T4")
@pytest.mark.parametrize("name", ["forks-running", "typed-worktree"])
async def test_each_child_is_told_of_once(world: Worlds, name: str) -> None:
    """Children that ran go on and end; every child's notice stands in the prompt exactly once."""
    async with resumed(world, name) as w:
        last = w.server.records[-1].body.decode()
        children = {path.rpartition("/")[2]: a for path, a in expected(name).agents.items()}
        del children["main"]
        ended = [(event.task_id, event.status) for event in w.told(TaskFinished)]

        assert all(last.count(f"<task-id>{child}</task-id>") == 1 for child in children)
        assert sorted(ended) == [(c, "completed") for c, a in children.items() if a.goes_on]


@pytest.mark.anyio
@pytest.mark.spec("W4")
async def test_a_child_whose_worktree_is_gone_is_given_another(world: Worlds) -> None:
    """In another folder the recorded worktree is not there, and the child is told of a new one."""
    async with resumed(world, "typed-worktree") as w:
        sent = "".join(record.body.decode() for record in w.server.records)

        assert f"Your root is {w.root}/.prong/worktrees/" in sent
