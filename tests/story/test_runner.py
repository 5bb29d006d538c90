"""Children are the same wherever they run: in the session's process, or in one of their own."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.command import SetMode, Stop
from prong.cost import total
from prong.event import (
    CacheMissed,
    PermissionAsked,
    PromptMoved,
    QuestionAsked,
    ReceiptIssued,
    TaskFinished,
    TaskStarted,
    ToolFinished,
)
from prong.question import Answer
from prong.team.worker_line import Waits
from prong.testing import Script, World, Worlds, call, forks, report, say
from shared.typed import agent

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("backend", ["inline", "process"])]

WAIT = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})


def settings(backend: str, **more: Any) -> str:
    given = {"agents": {"backend": backend}, "retry": {"tries": 1}, **more}
    return msgspec.json.encode(given).decode()


def workers() -> list[int]:
    """Give the workers that this process has started and that still run."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid() and b"\0worker\0" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


async def until_requests(w: World, path: str, number: int) -> None:
    with anyio.fail_after(50):
        while len(w.server.lineages().get(path, ())) < number:
            await anyio.sleep(0.01)


@pytest.mark.spec("F4", "F6", "F20")
async def test_forks_share_their_parents_bytes(world: Worlds, backend: str) -> None:
    """Each request of a fork begins with its parent's bytes, reads them, and it reports once."""
    read = call("Read", {"file_path": "a.txt"})
    script = Script(
        [read, forks("ONE.", "TWO."), say("waiting"), say("done")],
        routes={"ONE.": [read, report("one")], "TWO.": [report("two")]},
    )
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, files={"a.txt": "text\n" * 2000}, **options) as w:
        turn = await w.session.run("Go")

        assert turn.text == "done"
        children = w.parts.supervisor.children
        assert [child.status for child in children] == ["completed", "completed"]
        assert [child.report.result for child in children] == ["one", "two"]
        assert [len(child.account.rows) for child in children] == [2, 1]
        assert all(row.usage.read > 5_000 for child in children for row in child.account.rows)
        assert not w.told(CacheMissed)
        assert len(w.told(ReceiptIssued)) == 2
        assert [one.status for one in w.told(TaskFinished)] == ["completed"] * 2
        assert total(w.parts.agent.client.billing.ledger.rows).cost == w.session.cost


async def test_a_typed_child_uses_what_only_the_session_has(world: Worlds, backend: str) -> None:
    """An agent that it starts is the session's, and it is given what that one reports."""
    script = Script(
        [agent("OUTER", "general-purpose"), say("all done")],
        routes={
            "OUTER": [
                call("Write", {"file_path": "made.txt", "content": "by a child\n"}),
                agent("INNER", "Explore"),
                say("outer is done"),
            ],
            "INNER": [call("Read", {"file_path": "made.txt"}), say("inner is done")],
        },
    )
    given = settings(backend, fork={"enabled": False})
    options = {"settings": given, "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        turn = await w.session.run("Go")

        assert turn.text == "all done"
        assert (w.root / "made.txt").read_text() == "by a child\n"
        assert [child.text for child in w.parts.supervisor.children] == [
            "outer is done",
            "inner is done",
        ]
        assert "inner is done" in str(w.bodies()[-2]["messages"])


@pytest.mark.parametrize("allow", [True, False])
async def test_its_questions_are_the_sessions(world: Worlds, backend: str, *, allow: bool) -> None:
    """What a child may do is asked in its name, once, and an answer for always is for all."""
    asked: list[tuple[str, str]] = []

    async def respond(path: str, request: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(request, PermissionAsked)
        asked.append((path, request.title))
        return Answer(request.request_id, allow=allow, always=allow)

    touch = call("Bash", {"command": "touch made"})
    script = Script(
        [forks("ONE."), say("waiting"), touch, say("done")],
        routes={"ONE.": [touch, report("one")]},
    )
    async with world(script, settings=settings(backend), respond=respond) as w:
        await w.session.run("Go")
        await w.session.run("Do it too")

        (child,) = w.parts.supervisor.children
        assert asked[0] == (child.spec.path, "touch made")
        assert len(asked) == (1 if allow else 2)
        assert (w.root / "made").exists() == allow
        finished = [one for one in w.told(ToolFinished) if one.name == "Bash"]
        assert [one.refused for one in finished] == [not allow] * 2


async def test_the_mode_of_the_tree_holds_at_once(world: Worlds, backend: str) -> None:
    """A call after the change to a stricter mode is decided by that mode."""
    wait = call("Bash", {"command": "touch began; while [ ! -e go ]; do sleep 0.02; done"})
    script = Script(
        [say("hello")],
        routes={"ONE.": [wait, call("Bash", {"command": "touch made"}), report("one")]},
    )
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, attended=True, **options) as w:
        await w.session.run("Hi")
        await w.session.start_forks(["ONE."])
        with anyio.fail_after(50):
            while not (w.root / "began").exists():
                await anyio.sleep(0.01)
        await w.session.send(SetMode("dontAsk"))
        w.write("go", "")
        await w.session.wait_settled()

        assert not (w.root / "made").exists()
        (refused,) = [one for one in w.told(ToolFinished) if one.refused]
        assert "nobody can be asked" in refused.text


async def test_it_is_stopped_and_goes_on(
    world: Worlds, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A child that is stopped leaves nothing running, and a message continues its conversation."""
    # However long a worker takes, its last words are heard.
    monkeypatch.setattr("prong.team.pipe.Waits", partial(Waits, stop=60.0))
    wait = call("Bash", {"command": "touch began; while [ ! -e go ]; do sleep 0.02; done"})
    script = Script([say("hello")], routes={"ONE.": [wait, report("one")]}, forever=say("ok"))
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["ONE."])
        with anyio.fail_after(50):
            while not (w.root / "began").exists():
                await anyio.sleep(0.01)
        assert len(workers()) == (1 if backend == "process" else 0)
        await w.session.send(Stop(task))
        await w.session.wait_settled()
        (child,) = w.parts.supervisor.children
        assert (child.status, workers()) == ("killed", [])

        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()

        assert (child.status, workers()) == ("completed", [])
        assert "The turn was stopped here" in str(w.server.lineages()[child.spec.path][-1].json)


async def test_a_message_reaches_it_while_it_works(world: Worlds, backend: str) -> None:
    """What it is told before its next step stands in its next request, and is stored once."""
    script = Script([say("hello")], routes={"ONE.": [WAIT, report("one")]}, forever=say("ok"))
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["ONE."])
        await until_requests(w, f"main/{task}", 1)
        await w.session.say("And mind the gap.", to=task)
        w.write("go", "")
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert (child.status, child.unread) == ("completed", [])
        last = str(w.server.lineages()[child.spec.path][-1].json)
        assert last.count("mind the gap") == 1


async def test_it_is_woken_by_its_own_commands(world: Worlds, backend: str) -> None:
    """A command that it left running wakes it at its end, before which it does not end."""
    command = "until [ -e go ]; do sleep 0.02; done; echo it is built"
    later = {"command": command, "run_in_background": True}
    script = Script(
        [say("hello")],
        routes={"ONE.": [call("Bash", later), say("I wait."), report("one")]},
        forever=say("ok"),
    )
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["ONE."])
        await until_requests(w, f"main/{task}", 2)
        w.write("go", "")
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert (child.status, child.report.result) == ("completed", "one")
        assert "it is built" in str(w.server.lineages()[child.spec.path][-1].json)
        assert len(w.told(TaskStarted)) == len(w.told(TaskFinished)) == 2


@pytest.mark.spec("C6")
async def test_its_budget_ends_it(world: Worlds, backend: str) -> None:
    """A child stops before the request that its budget does not cover, and its work is kept."""
    step = call("Bash", {"command": "echo x"})
    script = Script([agent("WORK", "general-purpose"), say("I see.")], routes={"WORK": [step] * 9})
    given = settings(backend, taskBudget={"turns": 2})
    async with world(script, settings=given, mode="bypassPermissions") as w:
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "the budget of 2 turns" in child.run.detail
        assert len(child.account.rows) == 2


async def test_the_budget_of_all_ends_it(world: Worlds, backend: str) -> None:
    """What others have spent of the session's budget counts before each of its requests."""
    step = call("Bash", {"command": "echo x"})
    script = Script([agent("WORK", "general-purpose"), say("I see.")], routes={"WORK": [step] * 9})
    given = settings(backend, sessionBudget={"turns": 3}, fork={"enabled": False})
    async with world(script, settings=given, mode="bypassPermissions") as w:
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "the budget of 3 turns of the session is spent" in child.run.detail
        assert len(child.account.rows) == 2


@pytest.mark.moves_prefix("compaction")
async def test_it_compacts_by_itself(world: Worlds, backend: str) -> None:
    """A conversation that has grown too long goes on from its summary, and that is stored."""
    files = {f"{n}.txt": "A line that says something.\n" * 400 for n in range(2)}
    steps = [call("Read", {"file_path": name}) for name in files]
    script = Script(
        [agent("WORK", "general-purpose"), say("I see.")],
        routes={"WORK": [*steps, say("THE SUMMARY")]},
        forever=say("An end."),
    )
    options = {"settings": settings(backend), "mode": "bypassPermissions", "context_tokens": 16_000}
    async with world(script, files=files, compact_at=0.5, **options) as w:
        await w.session.run("Go")

        (child,) = w.parts.supervisor.children
        moved = [e for e in w.envelopes if isinstance(e.event, PromptMoved)]
        assert {one.agent for one in moved} == {child.spec.path}
        assert child.status == "completed"
        kinds = [node.kind for node in child.agent.conversation.prompt.nodes()]
        assert kinds[:2] == ["user", "summary"]
