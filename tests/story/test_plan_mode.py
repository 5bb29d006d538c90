"""Plan mode: entered, kept by the whole tree, left by approval."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from prong import Answer, PermissionAsked, QuestionAsked
from prong.command import Clear, Refused, SetMode
from prong.event import ModeChanged, ToolFinished, Warned
from prong.session import Session
from prong.session.planning import slug
from prong.testing import Script, Worlds, call, calls, inside, say

pytestmark = pytest.mark.anyio

Asked = PermissionAsked | QuestionAsked
REPORT = "Scope: a\nResult: done\nKey files: none\nFiles changed: none\nIssues: none"


class User:
    """Answers plans one after the other, and says yes to everything else."""

    def __init__(self, *answers: Answer | None) -> None:
        self.answers = list(answers)
        self.plans: list[str] = []

    async def __call__(self, path: str, asked: Asked) -> Answer | None:
        if isinstance(asked, PermissionAsked) and asked.plan:
            self.plans.append(asked.plan)
            answer = self.answers.pop(0)
            return answer and Answer(asked.request_id, allow=answer.allow, text=answer.text)
        return Answer(asked.request_id)


def plan_of(root: Path, name: str) -> str:
    return str(root / ".prong" / "plans" / f"{name}.md")


def write(root: Path, name: str, content: str = "1. Do it.\n"):
    return call("Write", {"file_path": plan_of(root, name), "content": content})


@pytest.mark.spec("P1", "P2", "P3", "P4")
@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_a_plan_is_written_and_approved(world: Worlds, tmp_path: Path, api: str) -> None:
    """In plan mode only the plan file is written; approval brings back the mode and the plan."""
    user, root = User(Answer("")), tmp_path / "project"
    script = [
        call("Write", {"file_path": "made.py", "content": "x"}),
        write(root, "add-a-cache"),
        call("ExitPlanMode"),
        call("Write", {"file_path": "made.py", "content": "x"}),
        say("Done."),
    ]
    async with world(script, api=api, mode="acceptEdits", respond=user) as w:
        await w.session.send(SetMode("plan"))
        turn = await w.session.run("Add a cache!")
        assert turn.text == "Done."
        assert [e.failed for e in w.told(ToolFinished)] == [True, False, False, False]
        assert (w.root / "made.py").exists()
        assert user.plans == ["1. Do it."]
        assert w.session.mode == "acceptEdits"
        assert [e.mode for e in w.told(ModeChanged)] == ["plan", "acceptEdits"]
        told = w.server.records[0].body.decode()
        assert "five phases" in told
        assert plan_of(root, "add-a-cache") in told
        approved = w.server.records[3].request.last_text
        assert "approved the plan" in approved
        assert "1. Do it." in approved


@pytest.mark.spec("P4", "X2")
@pytest.mark.parametrize("text", ["", "1. My way."])
async def test_approved_into_another_mode(world: Worlds, tmp_path: Path, text: str) -> None:
    """One answer approves a plan, edited or not, and says in which mode work goes on."""
    root = tmp_path / "project"
    made = call("Write", {"file_path": "made.py", "content": "x"})
    script = [write(root, "go"), call("ExitPlanMode"), made, say("Done.")]
    async with world(script, mode="plan", attended=True) as w:
        await w.session.say("Go")
        with anyio.fail_after(50):
            while not (waiting := list(w.session.view().questions)):
                await anyio.sleep(0.01)
        wrong = Answer(waiting[0], mode="plan")  # pyright: ignore[reportArgumentType] # on purpose
        assert isinstance(await w.session.send(wrong), Refused)
        refusal = Answer(waiting[0], allow=False, mode="acceptEdits")
        assert isinstance(await w.session.send(refusal), Refused)
        await w.session.send(Answer(waiting[0], text=text, mode="acceptEdits"))
        await w.session.wait_settled()
        assert [e.mode for e in w.told(ModeChanged)] == ["plan", "acceptEdits"]
        assert "permission mode is acceptEdits" in w.server.records[2].request.last_text
        assert (w.root / "made.py").exists()
        assert len(w.told(PermissionAsked)) == 1


@pytest.mark.spec("P4")
async def test_rejected_edited_approved(world: Worlds, tmp_path: Path) -> None:
    """A rejection keeps the mode and passes the feedback on; an edited plan is what counts."""
    user = User(Answer("", allow=False, text="tests first"), Answer("", text="1. My way."))
    root = tmp_path / "project"
    edit = {
        "file_path": plan_of(root, "go"),
        "old_string": "1. Do it.",
        "new_string": "1. Test.",
    }
    script = [
        call("EnterPlanMode"),
        call("ExitPlanMode"),
        write(root, "go"),
        call("ExitPlanMode"),
        call("Bash", {"command": "touch made"}),
        call("Edit", edit),
        call("ExitPlanMode"),
        say("Done."),
    ]
    async with world(script, respond=user, mode="bypassPermissions") as w:
        await w.session.run("Go")
        records = [record.request.last_text for record in w.server.records]
        assert "five phases" in records[1]
        assert "there is no plan yet" in records[2]
        assert "tests first" in records[4]
        assert "plan mode only reads" in records[5]
        assert not (w.root / "made").exists()
        assert "1. My way." in records[7]
        assert "1. Test." not in records[7]
        assert user.plans == ["1. Do it.", "1. Test."]
        assert Path(plan_of(root, "go")).read_text() == "1. My way.\n"
        assert w.session.mode == "bypassPermissions"


@pytest.mark.spec("P4")
async def test_a_plan_that_changes_while_it_is_read_is_shown_again(
    world: Worlds, tmp_path: Path
) -> None:
    """Nobody approves what they have not seen."""
    root, plans = tmp_path / "project", list[str]()

    async def respond(path: str, asked: Asked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        plans.append(asked.plan)
        Path(plan_of(root, "go")).write_text("2. Something else.\n")
        return Answer(asked.request_id)

    script = [write(root, "go"), call("ExitPlanMode"), say("Done.")]
    async with world(script, respond=respond, mode="plan") as w:
        await w.session.run("Go")
        assert plans == ["1. Do it.", "2. Something else."]
        assert "2. Something else." in w.server.records[2].request.last_text
        assert w.session.mode == "default"


@pytest.mark.spec("P4", "L12")
async def test_with_nobody_to_approve_the_plan_is_the_answer(world: Worlds, tmp_path: Path) -> None:
    """Headless, the turn ends with the plan; a later run in another mode goes on with it."""
    root = tmp_path / "project"
    touch = call("Bash", {"command": "touch made"})
    script = [write(root, "go"), call("ExitPlanMode"), touch, say("Done.")]
    async with world(script, opens=False) as w:
        async with w.open(mode="plan") as session:
            turn = await session.run("Go")
            assert (turn.text, turn.why) == ("1. Do it.", "done")
            assert session.mode == "plan"
        async with w.open(continue_last=True, mode="bypassPermissions") as session:
            assert (await session.run("Good, do that")).text == "Done."
        assert (w.root / "made").exists()
        assert "Plan mode is off" in w.server.records[2].body.decode()


@pytest.mark.spec("P1")
async def test_the_model_hears_only_of_a_change_from_what_it_knows(world: Worlds) -> None:
    """Plan mode that was on and off before a message is not told; what was told is taken back."""
    told = "Plan mode is off: the user changed the permission mode to acceptEdits"

    def heard(words: str) -> int:
        return str(w.server.records[-1].json["messages"]).count(words)

    async with world(Script(forever=say("Aye."))) as w:
        for mode in ("plan", "acceptEdits"):
            await w.session.send(SetMode(mode))
        await w.session.run("One")
        assert not heard("Plan mode is o")

        await w.session.send(SetMode("plan"))
        await w.session.run("Two")
        for mode in ("default", "plan", "default", "acceptEdits"):
            await w.session.send(SetMode(mode))
        await w.session.run("Three")
        assert heard(told) == 1
        await w.session.run("Four")
        assert heard(told) == 1


@pytest.mark.spec("P1")
@pytest.mark.moves_prefix("the conversation is cleared")
async def test_a_conversation_that_begins_anew_has_heard_of_no_plan_mode(world: Worlds) -> None:
    """After /clear nothing is taken back that the new conversation was never told."""
    async with world(Script(forever=say("Aye.")), mode="plan") as w:
        await w.session.run("One")
        await w.session.send(Clear())
        await w.session.send(SetMode("default"))
        await w.session.run("Two")
        assert "Plan mode" not in str(w.server.records[-1].json["messages"])


@pytest.mark.spec("P1")
async def test_the_model_enters_only_if_somebody_can_let_it_out(world: Worlds) -> None:
    """With nobody to approve a plan, EnterPlanMode is refused and the mode stays."""
    async with world([call("EnterPlanMode"), say("I see.")], mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert "nobody is here" in w.server.records[1].request.last_text
        assert w.session.mode == "bypassPermissions"


def rules(session: Session) -> list[str]:
    return [str(rule) for rule in inside(session).agent.policy.policy.rules]


BROAD = ("Bash(npm test:*)", "Bash(python:*)", "Agent(*)", "Bash", "Edit(/src/**)")


@pytest.mark.spec("P1")
async def test_broad_rules_are_put_aside_and_come_back(world: Worlds) -> None:
    """Coming from auto, shell and agent rules are away in plan mode, and there again after it."""
    async with world([], mode="auto", allow=BROAD) as w:
        before = rules(w.session)
        await w.session.send(SetMode("plan"))
        assert rules(w.session) == ["Edit(/src/**)"]
        await w.session.send(SetMode("auto"))
        assert sorted(rules(w.session)) == sorted(before)


@pytest.mark.spec("P1")
async def test_rules_stay_when_not_coming_from_auto(world: Worlds) -> None:
    """From another mode nothing is put aside: plan mode itself is what forbids."""
    async with world([], mode="default", allow=BROAD) as w:
        before = rules(w.session)
        await w.session.send(SetMode("plan"))
        assert rules(w.session) == before


@pytest.mark.spec("P1", "P2")
async def test_a_resumed_session_is_still_in_plan_mode(world: Worlds, tmp_path: Path) -> None:
    """After a resume mode, plan file and what was put aside are as they were, and come back."""
    root = tmp_path / "project"
    user = User(Answer(""))
    script = [
        say("I will."),
        call("Bash", {"command": "touch made"}),
        write(root, "fix-the-parser"),
        call("ExitPlanMode"),
        say("Done."),
    ]
    async with world(script, opens=False, respond=user, allow=BROAD) as w:
        async with w.open(mode="auto") as session:
            before = rules(session)
            inside(session).agent.policy.allow_for_session("Bash(make:*)")
            await session.send(SetMode("plan"))
            await session.run("Fix the parser")
        async with w.open(continue_last=True) as session:
            assert session.mode == w.started.mode == "plan"
            assert rules(session) == ["Edit(/src/**)"]
            await session.run("Go on")
            assert session.mode == "auto"
            assert sorted(rules(session)) == sorted([*before, "Bash(make:*)"])
        assert not (w.root / "made").exists()
        assert w.server.records[1].body.decode().count("five phases") == 1


@pytest.mark.spec("P1")
async def test_what_was_put_aside_comes_back_after_a_crash(world: Worlds) -> None:
    """What stands in the journal of a session that never closed is enough to come back."""
    async with world([], mode="auto", allow=BROAD) as w:
        before, crashed = rules(w.session), w.session
        await crashed.send(SetMode("plan"))
        async with w.open(resume=crashed.id, fork_session=True, mode=None) as session:
            assert session.mode == "plan"
            assert rules(session) == ["Edit(/src/**)"]
            await session.send(SetMode("auto"))
            assert sorted(rules(session)) == sorted(before)


@pytest.mark.spec("P2")
async def test_forks_that_were_there_before_are_bound(world: Worlds, tmp_path: Path) -> None:
    """A fork started before the mode changed can no longer write, and cannot change the mode."""
    go = {"command": "until [ -e go ]; do sleep 0.02; done"}
    routes = {
        "the very end.": [
            call("Bash", go),
            call("Bash", {"command": "touch made"}),
            call("ExitPlanMode"),
            say(REPORT),
        ]
    }
    async with world(Script([say("Hm.")], routes=routes), mode="bypassPermissions") as w:
        await w.session.run("Hello")
        await w.session.start_forks([f"{'Work on it. ' * 9} To the very end."])
        while len(w.server.records) < 2:
            await anyio.sleep(0.01)
        await w.session.send(SetMode("plan"))
        (w.root / "go").touch()
        w.server.push(say("I see."))
        await w.session.wait_settled()
        texts = [record.request.last_text for record in w.server.records]
        assert any("plan mode only reads" in text for text in texts)
        assert any("a fork never uses ExitPlanMode" in text for text in texts)
        assert not (w.root / "made").exists()
        assert w.session.mode == "plan"


@pytest.mark.spec("P2")
async def test_a_call_that_waited_for_leave_is_decided_anew(world: Worlds) -> None:
    """What was asked for before plan mode and allowed in it does not run."""
    async with world([call("Bash", {"command": "touch made"}), say("I see.")], attended=True) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while not w.told(PermissionAsked):
                await anyio.sleep(0.01)
            await w.session.send(SetMode("plan"))
            await w.session.send(Answer(w.told(PermissionAsked)[0].request_id))
        assert not (w.root / "made").exists()
        assert "five phases" in w.server.records[1].body.decode()


@pytest.mark.spec("P2")
async def test_background_shells(world: Worlds) -> None:
    """A command in the background is refused like any other; one that runs already is named."""
    wait = {"command": "until [ -e go ]; do sleep 0.02; done", "run_in_background": True}
    late = {"command": "sleep 0; touch made", "run_in_background": True}
    script = [call("Bash", wait), say("Started."), calls(("Bash", late)), say("I see.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go", wait_tasks=False)
        await w.session.send(SetMode("plan"))
        assert any("go on" in e.text and "until" in e.text for e in w.told(Warned))
        await w.session.run("Now", wait_tasks=False)
        assert not (w.root / "made").exists()


@pytest.mark.spec("P2")
async def test_no_worktree_is_made(world: Worlds) -> None:
    """An agent with a worktree of its own is refused at the gate: it would change the repository."""
    brief = {"description": "look", "prompt": "Look.", "subagent_type": "Explore"}
    script = [call("Agent", {**brief, "isolation": "worktree"}), say("I see.")]
    async with world(script, mode="plan", respond=User()) as w:
        await w.session.run("Go")
        assert "plan mode only reads" in w.server.records[1].request.last_text


@pytest.mark.spec("P2")
@pytest.mark.parametrize("own", [None, "", "*.tmp\n"])
async def test_git_does_not_see_plans(world: Worlds, tmp_path: Path, own: str | None) -> None:
    """The folder of plans ignores itself, unless the project has said what it ignores."""
    root = tmp_path / "project"
    files = {".prong/plans/.gitignore": own} if own is not None else {}
    async with world([write(root, "go"), say("Hm.")], files=files, mode="plan") as w:
        subprocess.run(["git", "init", "-q", w.root], check=True)
        await w.session.run("Go")
        seen = subprocess.run(
            ["git", "-C", w.root, "status", "--porcelain", "-uall"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

        assert (root / ".prong/plans/go.md").exists()
        assert (".prong/plans/go.md" in seen) == (own is not None)
        if own is not None:
            assert (root / ".prong/plans/.gitignore").read_text() == own


@pytest.mark.spec("P2")
async def test_links_do_not_lead_the_plan_out_of_the_project(world: Worlds, tmp_path: Path) -> None:
    """Where the folder of plans is a link to elsewhere, the plan is kept with the session."""
    (tmp_path / "elsewhere").mkdir()
    async with world([say("Hm.")], opens=False) as w:
        (w.root / ".prong").symlink_to(tmp_path / "elsewhere")
        async with w.open(mode="plan") as session:
            await session.run("Go")
            assert session.records.plan_file.startswith(str(w.store.resolve()))
        assert w.told(Warned)


@pytest.mark.spec("P2")
@pytest.mark.moves_prefix("two sessions of one world")
async def test_plan_files_have_readable_names_of_their_own(world: Worlds) -> None:
    """The name comes from the first words; a second plan of one name gets a number."""
    async with world([say("A."), say("B.")], opens=False) as w:
        for number, name in enumerate(["fix-the-cafe-menu", "fix-the-cafe-menu-2"]):
            async with w.open(mode="plan") as session:
                await session.run("Fix the Café menu")
                assert Path(session.records.plan_file).stem == name, number
                w.write(f".prong/plans/{name}.md", "x")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "plan"),
        ("../../etc/passwd", "etc-passwd"),
        ("日本語", "plan"),
        ("one two three four five six seven", "one-two-three-four-five-six"),
        ("x" * 200, "x" * 48),
        ("Fix /src/a.py\nnow", "fix-src-a-py-now"),
    ],
)
def test_slugs(words: str, name: str) -> None:
    """Whatever is said, the name is short and safe."""
    assert slug(words) == name
