"""Leave to act: asked for, given, refused, remembered."""

from __future__ import annotations

import anyio
import pytest

from prong import Answer, PermissionAsked, QuestionAsked
from prong.command import Interrupt, Leave, Refused, SetMode
from prong.event import RequestSettled, ToolFinished, ToolStarted
from prong.testing import World, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L5")]

TOUCH = {"command": "touch made"}


async def test_allowed_by_a_function(world: Worlds) -> None:
    """`respond` sees the agent's path and the call, and its yes lets the call run."""
    seen: list[tuple[str, str, str]] = []

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        seen.append((path, asked.tool, asked.arguments))
        return Answer(asked.request_id)

    async with world([call("Bash", TOUCH), say("Done.")], respond=respond) as w:
        await w.session.run("Go")
        assert (w.root / "made").exists()
        assert seen == [("main", "Bash", '{"command":"touch made"}')]
        assert [e.outcome for e in w.told(RequestSettled)] == ["allowed"]


async def test_refused_with_a_reason(world: Worlds) -> None:
    """A no keeps the call from running; the reason reaches the model, and what it asks for is open."""

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        return Answer(asked.request_id, allow=False, text="use the Write tool")

    async with world([call("Bash", TOUCH), say("I see.")], respond=respond) as w:
        await w.session.run("Go")
        assert not (w.root / "made").exists()
        assert not w.told(ToolStarted)
        told = w.server.records[1].request.last_text
        assert "refused this call: use the Write tool; go by that, and do not try the same" in told


async def test_who_takes_time_to_answer_makes_no_call_slow(world: Worlds) -> None:
    """A call is said to have lasted since it began to run, and not at all if it was refused."""

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        await anyio.sleep(0.3)
        return Answer(asked.request_id, allow=not w.told(ToolFinished))

    other = {"command": "rmdir made"}
    script = [call("Bash", TOUCH), call("Bash", other), say("Done.")]
    async with world(script, respond=respond) as w:
        await w.session.run("Go")
        ran, refused = w.told(ToolFinished)
        begun, ended = (
            next(e.at for e in w.envelopes if isinstance(e.event, kind))
            for kind in (ToolStarted, ToolFinished)
        )
        assert ran.duration < ended - begun + 0.1
        assert refused.refused
        assert refused.duration == 0.0


async def test_always_is_remembered_for_the_session(world: Worlds) -> None:
    """After `always` the same command is not asked for again, and another still is."""
    asked_for: list[str] = []

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        asked_for.append(asked.arguments)
        return Answer(asked.request_id, always=True)

    other = {"command": "rmdir nothing"}
    script = [call("Bash", TOUCH), call("Bash", TOUCH), call("Bash", other), say("Done.")]
    async with world(script, respond=respond) as w:
        await w.session.run("Go")
        assert asked_for == ['{"command":"touch made"}', '{"command":"rmdir nothing"}']


async def _when_asked(w: World, answer: Answer) -> None:
    while not w.told(PermissionAsked):
        await anyio.sleep(0.01)
    request_id = w.told(PermissionAsked)[-1].request_id
    await w.session.send(Answer(request_id, allow=answer.allow, text=answer.text))
    assert isinstance(await w.session.send(Answer(request_id)), Refused)


@pytest.mark.spec("X1")
@pytest.mark.parametrize("allow", [True, False])
async def test_answered_by_a_face(world: Worlds, allow: bool) -> None:
    """A reader of events answers by a command; a second answer is refused."""
    async with world([call("Bash", TOUCH), say("Done.")], attended=True) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(_when_asked, w, Answer("", allow=allow))
            await w.session.run("Go")
        assert (w.root / "made").exists() == allow


@pytest.mark.spec("L12")
async def test_nobody_to_answer(world: Worlds) -> None:
    """With nobody there the call is refused, and the model is told how it could be allowed."""
    async with world([call("Bash", TOUCH), say("I see.")]) as w:
        await w.session.run("Go")
        assert not (w.root / "made").exists()
        told = w.server.records[1].request.last_text
        assert "nobody is here" in told
        assert "'Bash(touch made" in told or "'Bash(touch" in told


async def test_leaving_refuses_what_waits(world: Worlds) -> None:
    """When the one who could answer goes away, what waits is refused."""
    async with world([call("Bash", TOUCH), say("I see.")], attended=True) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while not w.told(PermissionAsked):
                await anyio.sleep(0.01)
            await w.session.send(Leave())
        assert "nobody is here" in w.server.records[1].request.last_text


async def test_interrupted_while_a_question_waits(world: Worlds) -> None:
    """An interrupt settles the question, and the next turn works."""
    async with world([call("Bash", TOUCH), say("Fine.")], attended=True) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while not w.told(PermissionAsked):
                await anyio.sleep(0.01)
            await w.session.send(Interrupt())
        assert [e.outcome for e in w.told(RequestSettled)] == ["unanswered"]
        assert (await w.session.run("Else?")).text == "Fine."
        assert "interrupted" in w.server.records[1].body.decode()


async def test_rules_and_modes(world: Worlds) -> None:
    """Deny wins over allow; a mode changed in mid-session holds from then on."""
    script = [
        call("Bash", {"command": "touch one; rm one"}),
        call("Bash", {"command": "touch two"}),
        say("Done."),
        call("Bash", {"command": "mkdir three"}),
        say("Done."),
        call("Bash", {"command": "mkdir four"}),
        say("Done."),
    ]
    async with world(script, allow=("Bash(touch:*)",), deny=("Bash(rm:*)",)) as w:
        await w.session.run("Go")
        assert [e.failed for e in w.told(ToolFinished)] == [True, False]
        assert sorted(p.name for p in w.root.iterdir()) == ["two"]
        await w.session.send(SetMode("bypassPermissions"))
        await w.session.run("More")
        assert (w.root / "three").is_dir()
        await w.session.send(SetMode("plan"))
        await w.session.run("More")
        assert not (w.root / "four").exists()
        refused = await w.session.send(SetMode("yolo"))
        assert isinstance(refused, Refused)
        assert "no permission mode" in refused.why


@pytest.mark.spec("L5")
async def test_searches_show_nothing_of_denied_files(world: Worlds) -> None:
    """Grep and Glob leave out what a rule denies or would ask for, in the freest mode."""
    script = [
        call("Grep", {"pattern": "token", "output_mode": "content"}),
        call("Glob", {"pattern": "**/*"}),
        call("Grep", {"pattern": "token", "path": "private", "output_mode": "content"}),
        say("Done."),
    ]

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        return Answer(asked.request_id)

    async with world(
        script,
        respond=respond,
        mode="bypassPermissions",
        deny=("Read(./.env)",),
        ask=("Read(private/**)",),
    ) as w:
        for name in (".env", "sub/.env", "private/a.txt", "open.txt"):
            path = w.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"token of {name}\n")
        await w.session.run("Go")
        searched, listed, asked = [e.text for e in w.told(ToolFinished)]
        assert searched == "open.txt:1:token of open.txt"
        assert listed == "open.txt"
        assert asked == "private/a.txt:1:token of private/a.txt"


async def test_a_question_of_the_model(world: Worlds) -> None:
    """AskUserQuestion reaches the user, and the answer reaches the model."""
    question = {
        "questions": [
            {"question": "Which one?", "options": [{"label": "red"}, {"label": "blue"}]},
        ]
    }

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, QuestionAsked)
        return Answer(asked.request_id, text=asked.questions[0].options[1].label)

    async with world([call("AskUserQuestion", question), say("Blue.")], respond=respond) as w:
        await w.session.run("Go")
        assert "blue" in w.server.records[1].request.last_text
