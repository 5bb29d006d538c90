"""A member in plan mode: it only reads until its leader has approved its plan."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.command import Accepted, LeadTeam
from prong.errors import NotPossibleNow
from prong.event import AgentRested
from prong.mail import LEADER, PlanResponse, TeamFolder
from prong.team.team_mail import TeamMail
from prong.testing import Step, Worlds, call, inside
from prong.testing.script import Call, Text
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P5", "S7")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
WRITE = call("Write", {"file_path": "made.txt", "content": "x"})
PROPOSE = Step((Text("Step one: write made.txt."), Call("ExitPlanMode", {})))
KINDS = pytest.mark.parametrize("kind", ["fork", "general-purpose"])


def cast(kind: str, *leader: tuple[str, Step]) -> Cast:
    more = {} if kind == "fork" else {"subagent_type": kind}
    return Cast(
        [("Go", CREATE), ("You lead", spawn("alice", plan=True, **more)), *leader],
        alice=[
            ("PART of alice", WRITE),
            ("into the plan", PROPOSE),
            ("not approved", PROPOSE),
            ("is approved", WRITE),
        ],
    )


@KINDS
async def test_a_plan_waits_for_the_leader_who_may_want_it_better(world: Worlds, kind: str) -> None:
    """It cannot write before; a no brings its feedback, a yes lets it work; nothing else does."""
    script = cast(
        kind,
        ("asks you to approve", to("alice", "Name the test.", approve=False)),
        ("asks you to approve", to("alice", "", approve=True)),
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")

        leader, alice = text_of(w.parts), text_of(w.parts, "main/alice")
        assert leader.count("Step one: write made.txt.") == 2
        assert alice.count("Your plan is not approved. Name the test.") == 1
        assert alice.count("Your plan is approved") == 1
        assert (w.root / "made.txt").read_text() == "x"
        assert alice.count("failed=True") == 1, alice
        # Not idle while its plan is with the leader.
        assert leader.count("alice has nothing to do") == 1


async def test_an_open_plan_stays_open_over_a_kill(world: Worlds, tmp_path: Path) -> None:
    """A session that is taken up again finds the plan open, asks nothing twice, and answers it."""
    script = cast("fork")
    async with world(script, opens=False, moves_prefix="a copy goes on", **GIVEN) as w:
        async with w.open(session_id="it") as session:
            await session.run("Go")
            assert [event.waits for event in w.told(AgentRested)] == ["plan"]
            left = shutil.copytree(w.store, tmp_path / "left")
        async with w.open(resume="it", store=str(left)) as session:
            await session.wait_settled()
            assert text_of(inside(session)).count("asks you to approve its plan") == 1
            assert not (w.root / "made.txt").exists()
            script.add("leader", ("Answer", to("alice", "", approve=True)))
            await session.run("Answer")
            assert (w.root / "made.txt").exists()
            script.add("leader", ("Once more", to("alice", "", approve=True)))
            await session.run("Once more")
            assert "no plan '' of alice waits for an answer" in text_of(inside(session))


async def test_only_the_leader_approves_and_only_once(world: Worlds) -> None:
    """No member can sign an answer; one to another request, or a second one, counts for nothing."""
    script = cast("fork")
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        folder = TeamFolder.open(w.store, "crew")
        leader = w.parts.leader
        assert leader is not None
        assert leader.led is not None
        request_id = leader.led.kept.plans["alice"]
        with pytest.raises(NotPossibleNow, match="only the leader decides"):
            folder.post("alice", "*", PlanResponse(request_id=request_id, approve=True))
        folder.post(LEADER, "alice", PlanResponse(request_id="plan-other", approve=True))
        folder.post(LEADER, "alice", PlanResponse(request_id=request_id, approve=False))
        folder.post(LEADER, "alice", PlanResponse(request_id=request_id, approve=True))
        with anyio.fail_after(50):
            while sum("which is not open" in text for text in w.warnings) < 2:
                await anyio.sleep(0.02)
        await w.session.wait_settled()
        assert not (w.root / "made.txt").exists()
        assert sum("which is not open" in text for text in w.warnings) == 2


async def test_a_plan_that_comes_before_the_last_was_answered_stays_open(
    world: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer closes the plan that it answers, and not the better one that its member has sent
    while the answer was still on its way.
    """
    post = TeamMail.post
    async with world(cast("fork"), **GIVEN) as w:
        await w.session.run("Go")
        assert w.parts.leader is not None
        led = w.parts.leader.led
        assert led is not None
        first = led.kept.plans["alice"]

        async def slow(*given: Any, **more: Any) -> str:
            sent = await post(*given, **more)
            if isinstance(given[3], PlanResponse):
                await until(lambda: led.kept.plans["alice"] != first)
            return sent

        monkeypatch.setattr(TeamMail, "post", slow)
        told = await w.session.send(LeadTeam("reject", "alice", "Name the test."))
        assert told == Accepted("alice is told")
        assert led.kept.plans["alice"] != first
        assert await w.session.send(LeadTeam("approve", "alice")) == Accepted("alice is told")


@KINDS
async def test_a_plan_must_be_said(world: Worlds, kind: str) -> None:
    """ExitPlanMode without a text is refused, and so is one of a member that does not plan."""
    more = {} if kind == "fork" else {"subagent_type": kind}
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", plan=True, **more))],
        alice=[("PART of alice", call("ExitPlanMode"))],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        assert "write the whole plan as text" in text_of(w.parts, "main/alice")
        script.add("leader", ("Bob", spawn("bob", **more)))
        script.add("bob", ("PART of bob", PROPOSE))
        await w.session.run("Bob")
        bob = text_of(w.parts, "main/bob")
        expected = "you are not planning" if kind == "fork" else "there is no tool 'ExitPlanMode'"
        assert expected in bob
