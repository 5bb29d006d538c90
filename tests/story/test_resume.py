"""Going on with a session: the very same bytes, in this process or another."""

from __future__ import annotations

import anyio
import pytest

from prong.command import (
    Accepted,
    Clear,
    Compact,
    Interrupt,
    Refused,
    SetMode,
    SetModel,
    TakeUp,
)
from prong.config.option import OptionKeywords
from prong.errors import JournalBusy, NoSuchSession, UsageError
from prong.event import PromptMoved, ToolFinished, TurnStarted
from prong.testing import Worlds, call, fail, inside, say, stall, think

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L8")]

APIS = ["anthropic", "responses", "chat", "gemini"]
STORY = "It was a dark and stormy night; the rain fell in torrents. " * 60


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_resumed_bytes_are_the_same(world: Worlds, api: str, fork: bool) -> None:
    """The first request after a resume extends the last one before it and reads its cache."""
    script = [
        think("Hm.", then=call("Read", {"file_path": "a.py"})),
        say(f"It is 1. {STORY}"),
        say("Still 1."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, api=api, opens=False) as w:
        async with w.open() as session:
            await session.run(f"What is x? {STORY}")
            opened, first = inside(session).agent.conversation.prompt.open(), session.id
        async with w.open(continue_last=True, fork_session=fork) as session:
            assert w.started.resumed
            assert (session.id == first) != fork
            assert inside(session).agent.conversation.prompt.open() == opened
            assert (await session.run("And now?")).text == "Still 1."
        before, after = w.server.records[1:]
        assert [b.raw for b in after.request.blocks[: len(before.request.blocks)]] == [
            b.raw for b in before.request.blocks
        ]
        assert after.usage.read >= 0.9 * before.usage.input > 1000
        assert not w.told(PromptMoved)
        if not fork:
            assert len(w.parts.ledger.rows) == 3


async def test_found_by_id_name_and_place(world: Worlds) -> None:
    """A session is found by id, by a part of its id and by name; another is named as missing."""
    script = [say("One."), say("Two."), say("Three."), say("Four.")]
    async with world(script, opens=False) as w:
        async with w.open(name="my work", session_id="abc-def-1") as session:
            await session.run("Hi")
        for wanted in ("abc-def-1", "abc-d", "my work"):
            async with w.open(resume=wanted) as session:
                assert session.id == "abc-def-1"
                await session.run("More")
        with pytest.raises(NoSuchSession):
            async with w.open(resume="nonsense"):
                pass
        (w.root / "sub").mkdir()
        with pytest.raises(NoSuchSession):
            async with w.open(continue_last=True, cwd=str(w.root / "sub")):
                pass


async def test_a_session_is_open_once(world: Worlds) -> None:
    """Whoever comes second is told that the session is open, and that a copy is possible."""
    async with world([say("One."), say("Two.")]) as w:
        session = w.session
        await session.run("Hi")
        with pytest.raises(JournalBusy):
            async with w.open(resume=session.id):
                pass
        async with w.open(resume=session.id, fork_session=True) as copy:
            assert (await copy.run("More")).text == "Two."


@pytest.mark.spec("L3")
async def test_what_was_read_is_remembered(world: Worlds) -> None:
    """A file read before the resume may be edited after it; mode and todos come back too."""
    edit = {"file_path": "a.py", "old_string": "1", "new_string": "2"}
    todos = {"todos": [{"content": "Edit", "status": "pending", "activeForm": "Editing"}]}
    script = [
        call("Read", {"file_path": "a.py"}),
        call("TodoWrite", todos),
        say("1."),
        call("Edit", edit),
        say("2."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, opens=False) as w:
        async with w.open() as session:
            await session.send(SetMode("acceptEdits"))
            await session.run("Read")
        async with w.open(continue_last=True) as session:
            assert session.mode == "acceptEdits"
            assert [t.content for t in inside(session).agent.context.todos] == ["Edit"]
            await session.run("Edit")
        assert not any(e.failed for e in w.told(ToolFinished))
        assert (w.root / "a.py").read_text() == "x = 2\n"


OTHERS = [("claude-opus-5", "anthropic"), ("gpt-6.1-sol", "responses"), ("gpt-4.1", "chat")]


@pytest.mark.spec("L7", "L9")
@pytest.mark.moves_prefix("another model starts a new prompt")
@pytest.mark.parametrize(("model", "api"), OTHERS)
@pytest.mark.parametrize("first", APIS)
async def test_resumed_with_another_model(world: Worlds, first: str, model: str, api: str) -> None:
    """The conversation goes on, valid, on another model and another API; the move is told."""
    script = [
        think("Hm.", then=call("Read", {"file_path": "a.py"})),
        say("It is 1."),
        say("Still 1."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, api=first, opens=False) as w:
        async with w.open() as session:
            await session.run("What is x?")
            same = session.model == model
        async with w.open(continue_last=True, model=model, api=api) as session:
            assert session.model == model
            assert (await session.run("And now?")).text == "Still 1."
        body = w.server.records[2].body.decode()
        assert "x = 1" in body
        assert "It is 1." in body
        if not same:
            async with w.open(continue_last=True, model=None, api=None, base_url=None) as session:
                assert session.model == model, "the model last used is remembered"


@pytest.mark.spec("L7")
@pytest.mark.moves_prefix("another model starts a new prompt")
async def test_the_model_changed_in_mid_session(world: Worlds) -> None:
    """A change of model is an event with its reason."""
    script = [think("Hm.", then=call("Bash", {"command": "ls"})), say("One."), say("Two.")]
    async with world(script) as w:
        await w.session.run("Hi")
        await w.session.send(SetModel("claude-opus-5"))
        assert (await w.session.run("More")).text == "Two."
        moved = w.told(PromptMoved)
        assert [(m.reason, m.detail) for m in moved] == [
            ("model", "from claude-sonnet-5-5 to claude-opus-5")
        ]
        assert w.server.records[2].request.model == "claude-opus-5"


async def test_nothing_changes_while_a_turn_runs(world: Worlds) -> None:
    """Clear, compact and a change of model are refused while a turn runs."""
    async with world([call("Bash", {"command": "sleep 600"})], mode="bypassPermissions") as w:
        await w.session.say("Go")
        for command in (Clear(), SetModel("claude-opus-5"), Compact()):
            refused = await w.session.send(command)
            assert isinstance(refused, Refused)
            assert "while a turn runs" in refused.why


@pytest.mark.spec("L11")
async def test_changed_tools_are_told(world: Worlds) -> None:
    """A session keeps the tools it began with, and says that there are others now."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open(tools=("Read", "Grep")) as session:
            await session.run("Hi")
        async with w.open(continue_last=True, tools=("Read", "Glob")) as session:
            await session.run("More")
            assert any("+Glob, -Grep" in text for text in w.warnings)
        tools = [[t["name"] for t in body["tools"]] for body in w.bodies()]
        assert tools == [["Read", "Grep"]] * 2
        assert len(w.warnings) == 1


@pytest.mark.spec("L7")
async def test_options_that_a_resumed_session_cannot_take_are_told(world: Worlds) -> None:
    """The head is rendered once; what would change it is left out with a warning."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open(append_system="Be brief.") as session:
            await session.run("Hi")
        async with w.open(continue_last=True, append_system="Be brief.") as session:
            assert w.warnings == []
        async with w.open(continue_last=True, append_system="Be long.", effort="low") as session:
            await session.run("More")
            warned = "\n".join(w.warnings)
            assert "--append-system-prompt is left out" in warned
            assert "--effort is left out" in warned


@pytest.mark.moves_prefix("a new schema is a new tool set")
@pytest.mark.spec("L7", "L12")
async def test_a_schema_for_a_resumed_session(world: Worlds) -> None:
    """A schema that the session did not have starts a new prompt, and the answer is checked."""
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    script = [say("One."), call("StructuredOutput", {"n": 1}), say("Done.")]
    async with world(script, opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        async with w.open(continue_last=True, json_schema=schema) as session:
            turn = await session.run("How many?")
            assert turn.structured == b'{"n":1}'
            prompt = inside(session).agent.conversation.prompt
        async with w.open(continue_last=True, json_schema=schema) as session:
            assert inside(session).agent.conversation.prompt.open() == prompt.open()


@pytest.mark.parametrize(
    "given",
    [
        {"fork_session": True},
        {"resume": "x", "continue_last": True},
        {"continue_last": True, "session_id": "y"},
    ],
)
async def test_options_that_contradict_each_other(world: Worlds, given: OptionKeywords) -> None:
    """What cannot be obeyed is refused, not ignored."""
    async with world([], opens=False) as w:
        with pytest.raises(UsageError):
            async with w.open(**given):
                pass


async def test_damaged_notices_are_spoken_of(world: Worlds) -> None:
    """Lines of the outbox that cannot be read are left out, and the user is told."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        (journal,) = w.store.rglob(f"{session.id}.jsonl")
        outbox = journal.with_suffix("") / "outbox.jsonl"
        outbox.write_bytes(b'{"type":"written"}\nnonsense\n')
        async with w.open(resume=session.id) as session:
            assert (await session.run("Go on")).text == "Two."
        (warned,) = [text for text in w.warnings if "outbox" in text]
        assert warned.startswith(f"{outbox} is damaged (line 1, byte 0: ")
        assert "; line 2, byte 19: " in warned


async def test_a_message_that_failed_is_taken_up(world: Worlds) -> None:
    """What an error left unanswered is answered after a resume; said again, it would stand twice."""
    async with world([fail(400, "bad", "no"), say("Here.")], opens=False) as w:
        async with w.open() as session:
            assert (await session.run("Where?")).why == "error"
        async with w.open(continue_last=True) as session:
            assert isinstance(await session.send(TakeUp()), Accepted)
            await session.wait_settled()
            assert session.last is not None
            assert session.last.text == "Here."
            assert isinstance(await session.send(TakeUp()), Refused)
        assert w.server.records[-1].body.count(b"Where?") == 1
        assert [event.text for event in w.told(TurnStarted)] == ["Where?", "Where?"]


@pytest.mark.parametrize("how", ["answered", "empty", "interrupted", "limit", "structured"])
async def test_what_came_to_an_end_is_not_taken_up(world: Worlds, how: str) -> None:
    """A turn that ended, however that was, does not begin again by itself."""
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    script = {
        "interrupted": [stall(600, then=say("Never."))],
        "limit": [call("Bash", {"command": "ls"})],
        "structured": [call("StructuredOutput", {"n": 1})],
    }.get(how, [say("Hello.")])
    given: OptionKeywords = {"max_turns": 1}
    if how == "structured":
        given["json_schema"] = schema
    async with world(script, opens=False) as w:
        async with w.open(**given) as session, anyio.create_task_group() as group:
            if how != "empty":
                group.start_soon(session.run, "Hi")
                while not session.last and not (how == "interrupted" and w.server.records):
                    await anyio.sleep(0.01)
                await session.send(Interrupt())
        async with w.open(**{**given, "resume": session.id}) as session:
            assert isinstance(await session.send(TakeUp()), Refused)
            assert not inside(session).busy
