"""A fork that fails, in whatever way, fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from prong.entry import CallId
from prong.errors import UsageError
from prong.event import AgentFinished, AgentStarted, ReceiptIssued, TaskFinished
from prong.testing import (
    Script,
    Step,
    Worlds,
    break_off,
    call,
    cut,
    fail,
    forks,
    malformed,
    refuse,
    report,
    say,
    truncate,
)
from prong.tools.access import Access
from prong.tools.delegate import AgentArguments
from prong.tools.kit import Kit
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect

pytestmark = pytest.mark.anyio

ECHO = call("Bash", {"command": "echo x"})


def _line(number: int) -> Step:
    """Read another line of a file: no process is started for it."""
    return call("Read", {"file_path": "a.txt", "offset": number + 1, "limit": 1})


QUICK = msgspec.json.encode({"retry": {"tries": 3, "first": 0.001}}).decode()
PARTS = ["Part 1.", "Part 2.", "Part 3."]


class _Nothing(msgspec.Struct):
    """Takes nothing."""


class Crash:
    """A tool with a bug in it."""

    name = "Crash"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = _Nothing
    budget = 100

    def title(self, args: Any) -> str:
        """Say so."""
        del args
        return "crash"

    def access(self, args: Any, context: Context) -> Sequence[Access]:
        """Touch nothing."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: Any, context: Context) -> CallOutcome:
        """Fail as no tool should."""
        del call_id, args, context
        raise ZeroDivisionError("a bug")


FAULTS: dict[str, Step] = {
    "cut": cut(300),
    "malformed": malformed(),
    "529": fail(529, "overloaded_error", "busy"),
    "500": fail(500, "api_error", "broken"),
    "400": fail(400, "invalid_request_error", "no"),
    "mid-stream": break_off("overloaded_error", "busy"),
    "refusal": refuse("No."),
    "length": truncate("Scope: half"),
    "crash": call("Crash", {}),
    "crash beside others": Step((*call("Crash", {}).parts, *call("Crash", {}).parts)),
}


@pytest.mark.spec("L10", "T4", "F12")
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("fault", FAULTS)
async def test_siblings_and_parent_finish_untouched(world: Worlds, fault: str, after: int) -> None:
    """However one fork fails, and whenever: one failed notice, and all else as ever."""
    broken = [*[ECHO] * after, *[FAULTS[fault]] * 3]
    script = Script(
        [forks(*PARTS), say("waiting"), say("done")],
        {PARTS[0]: [ECHO, report()], PARTS[1]: broken, PARTS[2]: [ECHO, report()]},
    )
    async with world(script, settings=QUICK, mode="bypassPermissions") as w:
        agent = w.parts.agent
        agent.kit = Kit([*agent.kit, Crash()])
        turn = await w.session.run("Go")
        assert (turn.text, turn.why) == ("done", "done")
        first, failed, last = w.parts.supervisor.children
        assert (first.status, failed.status, last.status) == ("completed", "failed", "completed")
        assert failed.run.detail
        assert sorted(e.status for e in w.told(TaskFinished)) == ["completed"] * 2 + ["failed"]
        notice = w.bodies()[-1]["messages"][-1]["content"][-1]["text"]
        assert notice.count("<status>failed</status>") == 1
        assert notice.count("<task-notification>") == 3
        assert len(w.told(ReceiptIssued)) == 3
        assert [r.status for r in w.session.receipts()] == ["completed", "failed", "completed"]
        assert not w.parts.tasks.running()


@pytest.mark.spec("L10")
@pytest.mark.parametrize("fault", ["cut", "malformed", "529", "500", "mid-stream"])
async def test_a_fault_that_passes_is_got_over(world: Worlds, fault: str) -> None:
    """A fork gets over a fault as any agent does, and reads its cache in the end."""
    script = Script(
        [forks(*PARTS), say("waiting"), say("done")],
        {part: [FAULTS[fault], ECHO, FAULTS[fault], report()] for part in PARTS},
    )
    async with world(script, settings=QUICK, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "done"
        assert {c.status for c in w.parts.supervisor.children} == {"completed"}
        assert all(r.requests >= 2 for r in w.session.receipts())
        paid = sum(row.usage.input for row in w.parts.ledger.rows)
        parent = sum(row.usage.input for row in w.parts.ledger.rows if row.agent == "main")
        assert sum(r.usage.input for r in w.session.receipts()) == paid - parent
        assert all(r.read > 0 for r in w.session.receipts())


@pytest.mark.spec("F3")
async def test_a_fork_ends_at_its_limit_of_turns(world: Worlds) -> None:
    """A fork that never stops is stopped after 200 requests, and what it said is kept."""
    script = Script(
        [forks("Part 1."), say("waiting"), say("done")],
        {"Part 1.": [say("Still going.", then=_line(n)) for n in range(201)]},
    )
    files = {"a.txt": "line\n" * 300}
    async with world(script, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        (child,) = w.parts.supervisor.children
        assert len(w.server.lineages()[child.spec.path]) == 200
        assert child.status == "failed"
        assert "200 turns" in child.run.detail
        assert "Still going." in w.bodies()[-1]["messages"][-1]["content"][-1]["text"]


@pytest.mark.spec("F1", "L5")
async def test_a_fork_that_cannot_be_started_leaves_nothing_behind(world: Worlds) -> None:
    """Who is refused by a session that closes is told of as ended, and holds no budget or name."""
    budget = '{"taskBudget": {"tokens": 1000}, "sessionBudget": {"tokens": 1000000}}'
    async with world([say("Hi.")], settings=budget, allow=("Read",)) as w:
        await w.session.run("Go")
        left = w.parts.agent.client.billing.budget.left()
        await w.parts.tasks.close()

        with pytest.raises(UsageError, match="closing"):
            await w.session.start_forks(["Part one."])

        assert w.parts.supervisor.children == []
        assert w.parts.agent.client.billing.budget.left() == left
        ends = [event.status for event in w.told(AgentFinished)]
        assert ends == ["failed"] * (len(w.told(AgentStarted)) - 1)
        assert len(ends) == 1


@pytest.mark.spec("F1")
async def test_forks_that_cannot_be_started_are_answered_one_by_one(world: Worlds) -> None:
    """A fork that cannot be started is a failed call, and nobody waits for it: no other is lost."""
    async with world([say("Hi.")], allow=("Read",)) as w:
        await w.session.run("Go")
        supervisor, main = w.parts.supervisor, w.parts.agent.path
        await w.parts.tasks.close()
        given = [AgentArguments(description="d", prompt=part) for part in PARTS]

        found = await supervisor.delegate(main, [(CallId(a.prompt), a) for a in given])

        assert [type(outcome) for outcome in found] == [Failed] * 3
        assert all("closing" in str(outcome) for outcome in found)
        assert supervisor.children == []
