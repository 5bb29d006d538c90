"""The stream of events: complete, recorded, joined late, read slowly; and commands as the way in."""

from __future__ import annotations

import base64

import msgspec
import pytest

from prong.command import (
    Accepted,
    Answer,
    Aside,
    Background,
    Clear,
    Command,
    Compact,
    Fork,
    Interrupt,
    Leave,
    Outcome,
    Refused,
    Rename,
    Say,
    SetMode,
    SetModel,
    Stop,
    Suggest,
    TakeUp,
    Tell,
    UseSkill,
)
from prong.entry import Image, Text
from prong.errors import BadInput
from prong.event import (
    AgentFinished,
    AgentStarted,
    Delta,
    Envelope,
    EventsSkipped,
    InputTaken,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    SessionFinished,
    SessionStarted,
    TitleChanged,
    TurnStarted,
    Warned,
)
from prong.journal.eventlog import EventLog
from prong.journal.store import location
from prong.testing import Script, World, Worlds, call, fail, report, say
from prong.testing.span import check_events
from prong.view import Accounted, Called, Replied, Said, fold_all, settled
from shared.picture import PNG

pytestmark = pytest.mark.anyio


def record(w: World) -> EventLog:
    """Open the recorded events of the session that was opened last."""
    return EventLog(w.parts.journal.path.with_suffix("") / "events.jsonl")


def recorded(w: World) -> list[Envelope]:
    log = record(w)
    return list(log.replay(0, log.seq))


@pytest.mark.spec("X1")
async def test_the_stream_begins_with_the_session(world: Worlds) -> None:
    """session_started is the first event, the main agent's the second, warnings of the start follow."""
    async with world(
        [say("Hello.")], files={"~/.prong/settings.json": '{"effort": 3}'}, name="lines"
    ) as w:
        await w.session.run("Hi")
        first, second, *rest = w.events
        assert isinstance(first, SessionStarted)
        assert second == AgentStarted(kind="main", model=first.model)
        warned = next(event for event in rest if isinstance(event, Warned))
        assert "settings.json" in warned.text
        assert w.told(TitleChanged) == [TitleChanged(title="lines")]
        assert all(envelope.at > 1e9 for envelope in w.envelopes)
    assert isinstance(w.events[-1], SessionFinished)


@pytest.mark.spec("X1")
async def test_a_request_has_one_end_and_one_id(world: Worlds) -> None:
    """A retry is the same request; its end is a reply. One that fails for good ends as failed."""
    busy = fail(529, "overloaded_error", "busy", 0.0)
    wrong = fail(400, "invalid_request_error", "wrong")
    script = [busy, say("Hello."), say("An answer."), wrong]
    async with world(script) as w:
        await w.session.run("Hi")
        await w.session.aside("What?")
        await w.session.run("More")
        sent = w.told(RequestSent)
        ends = [*w.told(ReplyFinished), *w.told(RequestFailed)]
        assert [one.sidecar for one in sent] == ["", "aside", ""]
        assert [one.request_id for one in sent] == [one.request_id for one in ends]
        assert w.told(ReplyDiscarded)[0].request_id == sent[0].request_id
        assert w.told(RequestFailed)[0].error == "BadRequest"


@pytest.mark.spec("X1", "F1")
async def test_the_tree_of_agents_is_in_the_stream(world: Worlds) -> None:
    """Who began, under whom, on what and how it ended can be told from events alone."""
    script = Script(
        [say("Hello.")], {"Part 1.": [report("one"), report("two")]}, forever=report("two")
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        outcome = await w.session.send(Fork(("Part 1.",)))
        assert outcome == Accepted(ids=("fork-1",))
        await w.session.wait_settled()
        view = w.session.view()
        [fork] = view.children("main")
        assert (fork.path, fork.kind, fork.task_id) == ("main/fork-1", "fork", "fork-1")
        assert (fork.state, fork.result) == ("completed", "one")
        said = fork.transcript[0]
        assert isinstance(said, Said)
        assert said.kind == "directive"
        assert said.text.endswith("Part 1.")
        assert fork.cached
        assert fork.cached > 0.5
        assert view.receipts["fork-1"].text
        accounts = [item for item in view.main.transcript if isinstance(item, Accounted)]
        assert [one.paid.task_id for one in accounts[0].receipts] == ["fork-1"]
        assert accounts[0].receipts[0].paid.bytes_shared > 0
        assert view.saved
        assert view.saved > 0
        warm = view.warm_until("main")
        assert warm is not None
        assert warm >= fork.sent_at + 300

        await w.session.send(Tell("fork-1", "And now?"))
        await w.session.wait_settled()
        fork = w.session.view().agents["main/fork-1"]
        assert (fork.run, fork.result, fork.requests) == (2, "two", 2)
        again = [item for item in w.session.view().main.transcript if isinstance(item, Accounted)]
        assert [len(item.receipts) for item in again] == [1]
    runs = [e.run for e in w.told(AgentStarted) if e.kind == "fork"]
    assert runs == [1, 2]


@pytest.mark.spec("X1")
async def test_a_reader_that_comes_late_misses_nothing(world: Worlds) -> None:
    """Recorded events come first and live ones after, without a gap or a double, for each reader."""
    script = [call("Read", {"file_path": "a"}), say("One."), say("Two.")]
    async with world(script, files={"a": "b"}) as w:
        await w.session.run("Hi")
        late, later = w.session.events(), w.session.events(since=5)
        fresh = w.session.events(since=None)
        await w.session.run("More")
        numbers = [one.seq for one in late.drain() if one.seq]
        assert numbers == list(range(1, len(numbers) + 1))
        assert [one.seq for one in later.drain() if one.seq] == numbers[5:]
        assert isinstance(fresh.drain()[0].event, InputTaken | TurnStarted)
        items = [type(item) for item in w.session.view().main.transcript]
        assert items == [Said, Replied, Called, Replied, Said, Replied]


@pytest.mark.spec("X1")
async def test_a_slow_reader_skips_and_folds_on(world: Worlds) -> None:
    """Who does not read is told up to where events are gone, and goes on from a fresh view."""
    async with world([say("One."), say("Two.")]) as w:
        slow = w.session.events(limit=4)
        slow.drain()
        await w.session.run("Hi")
        first, *rest = slow.drain()
        assert isinstance(first.event, EventsSkipped)
        assert len(rest) <= 4
        numbered = [one.seq for one in rest if one.seq]
        assert numbered[0] == first.event.until + 1
        view = w.session.view()
        await w.session.run("More")
        now = w.session.view()
        again = w.session.events(since=view.seq).drain()
        assert settled(fold_all(again, view)) == settled(now)


@pytest.mark.spec("X1", "L7")
async def test_a_resumed_session_goes_on_in_the_same_stream(world: Worlds) -> None:
    """Numbers go on, the view has the whole past, and each process begins and ends in the record."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        async with w.open(continue_last=True) as session:
            await session.run("More")
            texts = [item.text for item in session.view().main.transcript if isinstance(item, Said)]
            assert texts == ["Hi", "More"]
            assert session.view().main.requests == 2
        told = recorded(w)
        check_events(told)
        assert [one.event.resumed for one in told if isinstance(one.event, SessionStarted)] == [
            False,
            True,
        ]
        assert not any(isinstance(one.event, Delta) for one in told)


@pytest.mark.spec("X1", "L7")
@pytest.mark.parametrize("copied", [True, False])
async def test_a_past_without_a_record_is_recalled(world: Worlds, copied: bool) -> None:
    """A copy, or a session older than records are, tells what stood in it and whom it had."""
    script = Script(
        [call("Read", {"file_path": "a"}), say("One.")],
        {"Part 1.": [report("one")]},
        forever=say("Two."),
    )
    async with world(script, files={"a": "b"}, opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Hi")
            await session.fork(["Part 1."])
        if not copied:
            record(w).path.unlink()
        async with w.open(resume=session.id, fork_session=copied) as session:
            view = session.view()
            kinds = [item.kind for item in view.main.transcript if isinstance(item, Said)]
            assert kinds == ["user", "reply", "reply"]
            called = view.main.transcript[2]
            assert isinstance(called, Called)
            assert (called.title, called.state) == ("Read a", "done")
            assert called.text.endswith("b")
            [fork] = view.children("main")
            assert (fork.ended, fork.result) == ("completed", "one")
            await session.run("More")
            assert len(session.view().main.transcript) == 6


@pytest.mark.spec("X1", "L7")
@pytest.mark.parametrize("copied", [True, False])
async def test_a_list_of_things_to_do_without_a_record_is_told(
    world: Worlds, *, copied: bool
) -> None:
    """What is on the list in the journal is shown in a copy, too; a list that was cleared is not."""
    todos = [{"content": "Test it", "status": "in_progress", "activeForm": "Testing it"}]
    script = [call("TodoWrite", {"todos": todos}), say("One."), say("Two.")]
    async with world(script, opens=False, moves_prefix="a clear") as w:
        async with w.open() as session:
            await session.run("Hi")
        if not copied:
            record(w).path.unlink()
        async with w.open(resume=session.id, fork_session=copied) as session:
            assert [todo.content for todo in session.view().main.todos] == ["Test it"]
            await session.send(Clear())
            await session.run("More")
        async with w.open(resume=session.id, fork_session=True) as session:
            assert not session.view().main.todos


@pytest.mark.spec("X1", "L7")
@pytest.mark.parametrize("keep", [3, 6, 8, 10, 14])
async def test_what_a_killed_process_left_open_is_ended(world: Worlds, keep: int) -> None:
    """Wherever the record breaks off, the next process ends what is open before it begins."""
    script = Script(
        [call("Read", {"file_path": "a"}), say("One."), say("Two.")],
        {"Part 1.": [report("one")]},
    )
    async with world(script, files={"a": "b"}, opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.send(Say("Hi"))
            await session.wait_settled()
            await session.fork(["Part 1."])
        path = record(w).path
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:keep]) + lines[keep][:20])
        async with w.open(continue_last=True) as session:
            assert not session.view().running
        told = recorded(w)
        check_events(told)
        ends = [
            one.event.status
            for one in told
            if isinstance(one.event, AgentFinished) and one.agent == "main"
        ]
        assert ends == ["killed", "completed"]
        # The journal knows of its end what the record has lost.
        assert fold_all(told).agents["main/fork-1"].result == "one"


@pytest.mark.spec("X1")
async def test_a_record_that_cannot_be_written_stops_nothing(world: Worlds) -> None:
    """What is in the way is told once; the session works on, and nothing of it is touched."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        path = location(w.root, "mine", w.store).with_suffix("") / "events.jsonl"
        path.mkdir(parents=True)
        async with w.open(session_id="mine") as session:
            assert session.view().holes == 0
            assert (await session.run("Hi")).text == "One."
            assert (await session.run("More")).text == "Two."
            assert session.view().main.requests == 2
        assert len([text for text in w.warnings if "not recorded" in text]) == 1
        assert path.is_dir()


@pytest.mark.spec("X1")
async def test_a_message_of_several_parts(world: Worlds) -> None:
    """A picture can be said like a text."""
    async with world([say("A dot.")]) as w:
        picture = Image("image/png", base64.b64encode(PNG).decode())
        turn = await w.session.run([Text("What is this?"), picture])
        assert turn.text == "A dot."
        [message] = w.bodies()[0]["messages"]
        assert [block["type"] for block in message["content"]][:2] == ["text", "image"]
        assert isinstance(await w.session.send(Say()), Refused)


@pytest.mark.spec("X1")
@pytest.mark.parametrize("data", ["aGk=", "no base64!", ""])
async def test_a_broken_picture_is_not_said(world: Worlds, data: str) -> None:
    """What would be refused with every request from then on is refused once, with the reason."""
    async with world([say("Hello.")]) as w:
        message = [Text("What is this?"), Image("image/png", data)]
        outcome = await w.session.send(Say(parts=tuple(message)))
        assert isinstance(outcome, Refused)
        assert "a picture of the message cannot be shown to the model: it is" in outcome.why
        with pytest.raises(BadInput, match="cannot be shown to the model"):
            await w.session.run(message)
        assert (await w.session.run("Hi")).text == "Hello."


@pytest.mark.spec("X1")
@pytest.mark.moves_prefix("some commands start a new prompt")
async def test_every_command_has_an_outcome(world: Worlds) -> None:
    """Whatever a person gets wrong is refused with a reason, and nothing raises."""
    wrong: list[Command] = [
        Answer("nobody"),
        Interrupt(),
        SetMode("yolo"),
        Fork(()),
        Fork(("",)),
        Tell("nobody", "Hi"),
        Stop("nothing"),
        Background(),
        Compact(),
        Clear(),
        UseSkill("nothing"),
        Say(""),
        TakeUp(),
    ]
    right: list[Command] = [
        Say("Hi " * 500),
        SetMode("acceptEdits"),
        Aside("What?"),
        Suggest(),
        Rename("a name"),
        Rename(),
        Compact("all"),
        Clear(),
        SetModel("claude-opus-5"),
        Leave(),
    ]
    async with world(Script([], forever=say("ok")), respond=None) as w:
        for command in wrong:
            outcome = await w.session.send(_over_a_pipe(command))
            assert isinstance(outcome, Refused), command
            assert outcome.why
        for command in right:
            outcome = await w.session.send(_over_a_pipe(command))
            assert isinstance(outcome, Accepted), (command, outcome)
            assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome
            await w.session.wait_settled()
        view = w.session.view()
        assert (view.mode, view.model, view.title) == ("acceptEdits", "claude-opus-5", "a name")


def _over_a_pipe(command: Command) -> Command:
    """Write a command as JSON and read it again."""
    return msgspec.json.decode(msgspec.json.encode(command), type=Command)
