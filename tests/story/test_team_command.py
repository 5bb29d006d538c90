"""Teams in a person's hands: `/team`, the commands behind it, and `prong team`."""

from __future__ import annotations

import anyio
import pytest

from prong.command import Accepted, LeadTeam, Refused
from prong.errors import BadInput
from prong.event import AgentFinished
from prong.face.cli import main
from prong.face.draw.transcript import Transcript, rows_of
from prong.face.slash import Show, read_slash
from prong.face.wish import shown
from prong.mail import TeamFolder
from prong.testing import Step, Worlds, call
from prong.testing.script import Call, Text
from prong.view import View
from shared.cast import CREATE, Cast, spawn, to
from shared.team import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M1", "M7", "P5")]

GIVEN = {"team": True, "mode": "bypassPermissions"}
PROPOSE = Step((Text("One step."), Call("ExitPlanMode", {})))


async def test_a_person_leads_as_the_main_agent_does(world: Worlds) -> None:
    """A plan is rejected and approved, a message sent, a member asked to end, by commands alone."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice", plan=True))],
        alice=[
            ("PART of alice", PROPOSE),
            ("not approved. Too short.", PROPOSE),
            ("Hello alice", to("leader", "Hello yourself.")),
            ("asks you to end", to("leader", "", approve=True)),
        ],
    )
    async with world(script, **GIVEN) as w:
        send = w.session.send
        await w.session.run("Go")
        view = w.session.view().agents["main/alice"]
        assert (view.member, view.state, view.rests) == ("alice", "idle", "plan")
        lines = await shown(w.session, Show("team"))
        assert any("its plan waits; /team approve alice" in line for line in lines)
        assert await send(LeadTeam("reject", "alice", "Too short.")) == Accepted("alice is told")
        await w.session.wait_settled()
        assert await send(LeadTeam("approve", "alice")) == Accepted("alice is told")
        await w.session.wait_settled()
        assert "Your plan is approved" in text_of(w.parts, "main/alice")
        assert isinstance(await send(LeadTeam("approve", "alice")), Refused)
        assert await send(LeadTeam("send", "alice", "Hello alice")) == Accepted("sent to alice")
        await w.session.wait_settled()
        assert "Hello yourself." in text_of(w.parts)
        assert w.session.view().agents["main/alice"].rests == "work"
        assert isinstance(await send(LeadTeam("end", "nobody")), Refused)
        assert await send(LeadTeam("end", "alice")) == Accepted("alice is asked to end")
        await w.session.wait_settled()
        assert [event.status for event in w.told(AgentFinished)] == ["completed"]


async def test_without_a_team_the_commands_say_so(world: Worlds) -> None:
    """In a session that leads none, and in one that may, nothing happens and the remedy is named."""
    for team, why in ((False, "start one with --team"), (True, "there is no team yet")):
        async with world([], opens=False) as w, w.open(team=team) as session:
            outcome = await session.send(LeadTeam("send", "alice", "Hi"))
            assert isinstance(outcome, Refused)
            assert why in outcome.why
        w.root.rmdir()
        w.home.rename(w.folder / f"home-{team}")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("/team", Show("team")),
        ("/team send bob do it now", LeadTeam("send", "bob", "do it now")),
        ("/team send * all of you", LeadTeam("send", "*", "all of you")),
        ("/team stop bob", LeadTeam("end", "bob")),
        ("/team stop bob it is late", LeadTeam("end", "bob", "it is late")),
        ("/team kill bob", LeadTeam("kill", "bob")),
        ("/team delete", LeadTeam("delete")),
        ("/team delete --force", LeadTeam("delete", force=True)),
        ("/team approve bob", LeadTeam("approve", "bob")),
        ("/team reject bob too long", LeadTeam("reject", "bob", "too long")),
    ],
)
def test_each_line_is_a_command(line: str, step: object) -> None:
    """What is typed is one command or one wish, and what is incomplete is refused."""
    assert read_slash(line, View()) == (step,)
    for wrong in ("/team send", "/team send bob", "/team kill", "/team dance bob"):
        with pytest.raises(BadInput):
            read_slash(wrong, View())


async def test_prong_team_looks_writes_and_kills(
    world: Worlds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a shell: teams are listed and shown, a message arrives as from outside, a kill ends."""
    new = call("TeamTaskCreate", {"title": "Mend it"})
    claim = call("TeamTaskUpdate", {"id": "1", "status": "in_progress"})
    script = Cast(
        [("Go", CREATE), ("You lead", new), ("on the list", spawn("alice", "bob"))],
        alice=[("is free", claim), ("PART of alice", claim)],
    )
    async with world(script, **GIVEN) as w:
        monkeypatch.setenv("PRONG_HOME", str(w.store))
        await w.session.run("Go")

        async def prong(*words: str) -> str:
            assert await anyio.to_thread.run_sync(main, ["team", *words]) == 0
            return capsys.readouterr().out

        assert "crew  alice idle, bob idle" in await prong("list")
        assert "1. [in_progress, alice] Mend it" in await prong("show", "crew")
        assert "Mend it" in await prong("tasks", "crew")
        assert "sent to leader of crew" in await prong("send", "crew", "leader", "From a shell.")
        with anyio.fail_after(50):
            while "From a shell." not in text_of(w.parts):
                await anyio.sleep(0.02)
        assert 'from="outside"' in text_of(w.parts)
        assert "alice is out of crew, and ends" in await prong("kill", "crew", "alice")
        with anyio.fail_after(50):
            while not w.told(AgentFinished):
                await anyio.sleep(0.02)
        assert [event.status for event in w.told(AgentFinished)] == ["killed"]
        folder = TeamFolder.open(w.store, "crew")
        assert [member.name for member in folder.team.members] == ["bob"]
        assert not folder.tasks.get("1").owner
        assert await anyio.to_thread.run_sync(main, ["team", "kill", "crew", "alice"]) == 2
        assert "there is no member 'alice' in crew" in capsys.readouterr().err
        assert await anyio.to_thread.run_sync(main, ["team", "show", "a/b"]) == 2


@pytest.mark.spec("M1", "M7")
@pytest.mark.parametrize("how", ["shell", "session"])
async def test_a_team_is_deleted_with_its_members_only_by_force(
    world: Worlds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """While members run it is refused, with their names; forced, they end, and it is said what went.

    The leader goes on, and may begin another team of that name.
    """
    script = Cast([("Go", CREATE), ("You lead", spawn("alice", "bob")), ("Again", CREATE)])
    async with world(script, **GIVEN) as w:
        monkeypatch.setenv("PRONG_HOME", str(w.store))
        await w.session.run("Go")

        async def delete(*words: str) -> str:
            if how == "session":
                outcome = await w.session.send(LeadTeam("delete", force=bool(words)))
                return outcome.text if isinstance(outcome, Accepted) else outcome.why
            await anyio.to_thread.run_sync(main, ["team", "delete", "crew", *words])
            return "".join(capsys.readouterr())

        assert "alice, bob of crew still run" in await delete()
        assert "2 members, 2 mails, 0 tasks" in (told := await delete("--force")), told
        with anyio.fail_after(50):
            while len(w.told(AgentFinished)) < 2:
                await anyio.sleep(0.02)
        assert [event.status for event in w.told(AgentFinished)] == ["killed", "killed"]
        assert not list((w.store / "teams").iterdir())
        await w.session.wait_settled()
        await w.session.run("Again")
        assert text_of(w.parts).count("You lead the team crew") == 2


@pytest.mark.spec("M5", "X2")
async def test_a_folded_notice_says_who_wrote_what(world: Worlds) -> None:
    """Of messages that the leader has read a row tells the senders and how each begins."""
    script = Cast(
        [("Go", CREATE), ("You lead", spawn("alice"))],
        alice=[("PART of alice", to("leader", "All is green.\nSee the log."))],
    )
    async with world(script, **GIVEN) as w:
        await w.session.run("Go")
        made = Transcript("main")
        made.show(w.session.view(), 80, now=0.0, unfolded=frozenset())
        rows = [row.text for row in rows_of(made)]
        assert "▸ notice: alice: All is green." in rows
