"""Forks that go on: woken by a message, or with a resumed session."""

from __future__ import annotations

import shutil

import anyio
import pytest

from prong.command import Refused, Stop
from prong.event import CacheMissed, ToolStarted
from prong.team.fork import PLACEHOLDER
from prong.testing import Script, World, Worlds, call, fail, forks, inside, report, say

pytestmark = pytest.mark.anyio

LONG = "A line that says something about the project.\n" * 400
ECHO = call("Bash", {"command": "echo x"})
WAITING = "while [ ! -e go ]; do sleep 0.02; done"
WAIT = call("Bash", {"command": WAITING})
LEAD = "Do what follows with care, as one part of several, and report: "
PART = f"{LEAD}Part 1."


async def wait_waiting(w: World, count: int = 1) -> None:
    """Wait until so many forks have run the command that waits: what they were told is stored."""
    with anyio.fail_after(40):
        while [e.title for e in w.told(ToolStarted)].count(WAITING) < count:
            await anyio.sleep(0.01)


@pytest.mark.spec("F22", "T7")
@pytest.mark.parametrize("api", ["anthropic", "responses"])
@pytest.mark.parametrize("how", ["completed", "failed", "killed"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_woken_fork_reads_its_very_prompt(
    world: Worlds, api: str, how: str, *, restarted: bool
) -> None:
    """However it ended, and after a restart too, a message continues its prompt from the cache."""
    first = {
        "completed": [ECHO, report("one")],
        "failed": [ECHO, fail(400, "invalid_request_error", "no")],
        "killed": [ECHO, WAIT],
    }[how]
    script = Script([say("Hello.")], {"Part 1.": [*first, ECHO, report("two")]}, forever=say("ok"))
    options = {"api": api, "mode": "bypassPermissions"}
    if api == "responses":
        options |= {"model": "gpt-6.1-sol", "settings": '{"cacheMarks": true}'}
    async with world(script, opens=False, **options) as w:
        async with w.open() as session:
            await session.run(f"Hi {LONG}")
            (task,) = await session.start_forks([PART])
            if how == "killed":
                await wait_waiting(w)
                await session.send(Stop(task))
            await session.wait_settled()
            assert [c.status for c in inside(session).supervisor.children] == [how]
            if not restarted:
                await session.say("Go on.", to=task)
                await session.wait_settled()
        if restarted:
            async with w.open(resume=session.id) as session:
                await session.say("Go on.", to=task)
                await session.wait_settled()
        requests = [r for r in w.server.lineages()[f"main/{task}"] if r.status == 200]
        before = len(requests) - 3
        had = requests[before].usage
        assert requests[before + 1].usage.read >= 0.99 * (had.read + had.written)
        (child,) = inside(session).supervisor.children
        assert (child.status, child.report.result, child.run.number) == ("completed", "two", 2)
        assert not w.told(CacheMissed)


@pytest.mark.spec("F22", "T7")
async def test_a_running_fork_reads_a_message_at_its_next_step(world: Worlds) -> None:
    """A message to a working fork joins its conversation and starts nothing anew."""
    script = Script([say("Hello.")], {"Part 1.": [WAIT, report()]}, forever=say("ok"))
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        (task,) = await w.session.start_forks([PART])
        with anyio.fail_after(40):
            while len(w.server.records) < 2:
                await anyio.sleep(0.01)
        told = str(await w.session.say("Mind the gap.", to=task))
        assert "before its next step" in told
        w.write("go", "")
        await w.session.wait_settled()
        (_, second) = w.server.lineages()[f"main/{task}"]
        assert "Mind the gap." in second.body.decode()
        assert w.parts.supervisor.children[0].run.number == 1


@pytest.mark.spec("F22")
async def test_a_message_to_nobody(world: Worlds) -> None:
    """A message to an agent that does not exist is refused with those that do."""
    async with world([say("Hello.")], mode="bypassPermissions") as w:
        outcome = await w.session.say("Hi", to="nobody")
        assert isinstance(outcome, Refused)
        assert "there is no agent 'nobody'" in outcome.why


@pytest.mark.spec("L8", "T4")
@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_a_session_comes_back_with_its_running_forks(world: Worlds, api: str) -> None:
    """Closed over running forks and resumed: same bytes, same cache, every result once."""
    names = ["Part 1.", "Part 2.", "Part 3."]
    script = Script(
        [call("Read", {"file_path": "a.txt"}), forks(*names), say("waiting")],
        {"Part 1.": [ECHO, report("one")], **{n: [ECHO, WAIT, report(n[-2])] for n in names[1:]}},
        forever=say("all done"),
    )
    options = {"api": api, "mode": "bypassPermissions", "files": {"a.txt": LONG}}
    async with world(script, opens=False, **options) as w:
        async with w.open() as session:
            await session.say("Go")
            with anyio.fail_after(40):
                while (
                    len(w.server.records) < 3 + 6
                    or inside(session).busy
                    or inside(session).tasks.running() > 2
                ):
                    await anyio.sleep(0.01)
            await wait_waiting(w, 2)
            sent = {
                c.spec.task_id: c.agent.conversation.prompt.open()
                for c in inside(session).supervisor.children
            }
            second = inside(session).supervisor.children[1].spec.task_id
            await session.say("Mind the gap.", to=second)
            # What is on disk now is what a kill would leave.
            left = shutil.copytree(w.store, w.folder / "left")
        w.write("go", "")
        async with w.open(resume=session.id, store=str(left)) as session:
            await session.wait_settled()
            children = inside(session).supervisor.children
            assert {c.status for c in children} == {"completed"}
            for child in children:
                assert child.agent.conversation.prompt.open().startswith(sent[child.spec.task_id])
                assert child.agent.conversation.base is not None
            final = w.server.lineages()["main"][-1].body.decode()
            for child in children:
                assert final.count(f"<task-id>{child.spec.task_id}</task-id>") == 1
            told = w.server.lineages()[children[1].spec.path][-1].body.decode()
            assert told.count("Mind the gap.") == 1, "what was acknowledged is not lost by a kill"
            for receipt in session.receipts():
                assert receipt.bytes_shared > 0
                assert receipt.predicted_read > 0
                assert receipt.predicted_read <= receipt.tokens_shared
            if api == "anthropic":
                for child in children[1:]:
                    last = w.server.lineages()[child.spec.path][-1]
                    before = w.server.lineages()[child.spec.path][-2]
                    assert last.usage.read >= 0.99 * (before.usage.read + before.usage.written)
                    assert "interrupted: the call was stopped" in last.body.decode()


@pytest.mark.spec("L8")
@pytest.mark.moves_prefix("two sessions are both called main")
async def test_a_copy_of_a_session_leaves_running_forks_to_the_original(world: Worlds) -> None:
    """In a copy, forks that run elsewhere count as stopped, and the copy's agent is told so."""
    script = Script(
        [forks("Part 1."), say("waiting")], {"Part 1.": [WAIT, report()]}, forever=say("ok")
    )
    async with world(script, mode="bypassPermissions") as w:
        original = w.session
        await original.say("Go")
        with anyio.fail_after(40):
            while inside(original).busy or len(w.server.records) < 3:
                await anyio.sleep(0.01)
        async with w.open(resume=original.id, fork_session=True) as copy:
            await copy.wait_settled()
            assert [c.status for c in inside(copy).supervisor.children] == ["killed"]
            assert (
                "it goes on in the session it began in"
                in inside(copy).supervisor.children[0].run.detail
            )
            assert inside(copy).tasks.running() == 0
        assert inside(original).tasks.running() == 1
        w.write("go", "")
        await original.wait_settled()
        assert [c.status for c in inside(original).supervisor.children] == ["completed"]


@pytest.mark.spec("L1", "F12", "T4")
@pytest.mark.parametrize("expected", [True, False])
async def test_calls_whose_forks_had_started_are_not_interrupted(
    world: Worlds, *, expected: bool
) -> None:
    """Died between start and result, the parent finds the placeholder, and its fork goes on."""
    script = Script(
        [forks("Part 1."), say("waiting")],
        {"Part 1.": [WAIT, report(), report()]},
        forever=say("ok"),
    )
    async with world(script, opens=False, mode="bypassPermissions", moves_prefix="cut off") as w:
        async with w.open() as session:
            await session.say("Go")
            with anyio.fail_after(40):
                while inside(session).busy or len(w.server.records) < 3:
                    await anyio.sleep(0.01)
            left = shutil.copytree(w.store, w.folder / "left")
        (journal,) = left.rglob(f"{session.id}.jsonl")
        lines = journal.read_bytes().splitlines(keepends=True)
        started = next(i for i, line in enumerate(lines) if b'"name":"child"' in line)
        journal.write_bytes(b"".join(lines[: started + 1]))
        if not expected:
            (journal.with_suffix("") / "outbox.jsonl").write_bytes(b"")
        w.write("go", "")
        async with w.open(resume=session.id, store=str(left)) as session:
            await session.wait_settled()
            (child,) = inside(session).supervisor.children
            assert child.status == "completed"
            body = w.server.lineages()["main"][-1].body.decode()
            assert PLACEHOLDER in body
            assert "interrupted" not in body
            assert body.count(f"<task-id>{child.spec.task_id}</task-id>") == 1


@pytest.mark.spec("T4")
@pytest.mark.parametrize("cut", ['"name":"ended"', '"kind":"reply"'])
async def test_an_end_that_was_stored_without_its_notice(world: Worlds, cut: str) -> None:
    """Died between a fork's last reply and its notice: the report still arrives, once."""
    script = Script(
        [forks("Part 1."), say("waiting")],
        {"Part 1.": [ECHO, report("found it")]},
        forever=say("ok"),
    )
    async with world(script, opens=False, mode="bypassPermissions", moves_prefix="cut off") as w:
        async with w.open() as session:
            await session.run("Go")
        (journal,) = w.store.rglob(f"{session.id}.jsonl")
        lines = journal.read_bytes().splitlines(keepends=True)
        path = inside(session).supervisor.children[0].spec.path
        last = max(
            i
            for i, line in enumerate(lines)
            if cut.encode() in line and f'"agent":"{path}"'.encode() in line
        )
        journal.write_bytes(b"".join(lines[: last + 1]))
        outbox = journal.with_suffix("") / "outbox.jsonl"
        outbox.write_bytes(outbox.read_bytes().splitlines(keepends=True)[0])
        before = len(w.server.lineages()[path])
        async with w.open(resume=session.id) as session:
            await session.wait_settled()
            body = w.server.lineages()["main"][-1].body.decode()
            assert body.count(f"<task-id>{path[5:]}</task-id>") == 1
            assert "Result: found it" in body
            assert "<status>completed</status>" in body
        assert len(w.server.lineages()[path]) == before
