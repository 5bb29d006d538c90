"""Copies of a session, another effort, what a move would cost, and what slash commands show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from prong.command import (
    Accepted,
    Branch,
    Clear,
    Compact,
    Interrupt,
    Refused,
    Say,
    SetEffort,
    SetModel,
    TakeUp,
)
from prong.errors import UsageError
from prong.event import TextDelta, ToolStarted
from prong.face.slash import COMMANDS, SHOWN, Show, read_slash
from prong.face.wish import shown
from prong.session import Options, resuming_cost
from prong.testing import Script, Worlds, call, fail, say, stall
from prong.view import View

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]


@pytest.mark.moves_prefix("the copy goes on from before the last message")
async def test_going_back_keeps_the_cache(world: Worlds) -> None:
    """The copy ends before the message, has the same bytes, and this session stays as it is."""
    script = Script([say("One."), say("Two."), say("Three.")], forever=say("Other."))
    async with world(script, opens=False) as w:
        async with w.open() as session:
            for text in ("first", "second", "third"):
                await session.run(text)
            listed = await session.records.messages()
            assert [(one.number, one.text) for one in listed] == [
                (1, "first"),
                (2, "second"),
                (3, "third"),
            ]
            outcome = await session.send(Branch(3))
            assert isinstance(outcome, Accepted)
            assert outcome.text == "third"
            whole = await session.send(Branch())
            assert isinstance(whole, Accepted)
            assert whole.text == ""
            assert isinstance(await session.send(Branch(4)), Refused)
        async with w.open(resume=outcome.ids[0]) as copy:
            assert copy.id != session.id
            await copy.run("another third")
        before, after = w.server.records[2], w.server.records[3]
        assert "another third" in after.request.last_text
        assert "Two." in str(after.json["messages"])
        assert "Three." not in str(after.json["messages"])
        assert after.usage.read >= before.usage.read > 0
        async with w.open(resume=whole.ids[0]) as copy:
            assert len(await copy.records.messages()) == 3


async def test_a_message_that_steered_is_no_place_to_go_back_to(world: Worlds) -> None:
    """Before it stand results that wait for a reply: only messages that began a turn are listed."""
    script = [call("Bash", {"command": "echo x"}), say("Done."), say("More.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.send(Say("Go"))
        await w.session.send(Say("and mind the tests"))
        await w.session.wait_settled()
        await w.session.run("next")
        texts = [one.text for one in await w.session.records.messages()]
        assert "next" in texts
        assert len(texts) <= 3


async def test_one_can_go_back_to_after_a_turn_that_was_stopped(world: Worlds) -> None:
    """What follows a turn that was interrupted, in a reply or in a call, is listed too."""
    slow = call("Bash", {"command": "sleep 600"})
    script = [stall(600, then=say("Slowly, " * 20)), slow, say("Yes.")]
    async with world(script, mode="bypassPermissions") as w:
        for text, sign in (("one", TextDelta), ("two", ToolStarted)):
            with w.session.events(since=None) as events:
                await w.session.send(Say(text))
                async for envelope in events:
                    if isinstance(envelope.event, sign):
                        break
            await w.session.send(Interrupt())
            await w.session.wait_settled()
        await w.session.run("three")
        listed = await w.session.records.messages()
        assert [one.text for one in listed] == ["one", "two", "three"]


@pytest.mark.moves_prefix("the copy goes on from before the last message")
async def test_one_can_go_back_to_after_a_turn_that_failed(world: Worlds) -> None:
    """What follows a turn that ended with an error is listed, and nothing is sent in the copy
    before the user says something.
    """
    cat = call("Bash", {"command": "cat a.py"})
    broken = fail(400, "invalid_request_error", "no")
    script = Script([broken, cat, broken, say("Yes.")], forever=say("Other."))
    async with world(script, mode="bypassPermissions", opens=False) as w:
        async with w.open() as session:
            for text in ("one", "two", "three"):
                await session.run(text)
            listed = await session.records.messages()
            assert [one.text for one in listed] == ["one", "two", "three"]
            outcomes = [await session.send(Branch(number)) for number in (2, 3)]
        for number, outcome in enumerate(outcomes, 2):
            assert isinstance(outcome, Accepted)
            asked = len(w.server.records)
            async with w.open(resume=outcome.ids[0]) as copy:
                assert isinstance(await copy.send(TakeUp()), Refused)
                assert len(w.server.records) == asked
                assert len(await copy.records.messages()) == number - 1
                await copy.run("again")
            assert "again" in w.server.records[-1].request.last_text


@pytest.mark.moves_prefix("the effort is changed")
async def test_another_effort(world: Worlds) -> None:
    """The next request asks for it, a model that is chosen later keeps it, nonsense is refused."""
    async with world(Script(forever=say("Aye."))) as w:
        await w.session.run("Hi")
        assert w.session.records.effort == ""
        assert await w.session.send(SetEffort("low")) == Accepted()
        assert w.session.records.effort == "low"
        await w.session.run("Again")
        assert w.server.records[-1].json["output_config"] == {"effort": "low"}
        assert isinstance(await w.session.send(SetEffort("low")), Refused)
        assert isinstance(await w.session.send(SetEffort("very hard")), Refused)
        await w.session.send(SetModel("claude-opus-5"))
        assert w.session.records.effort == "low"


async def test_what_a_move_would_cost(world: Worlds) -> None:
    """It is known before anything is done; what gives up nothing costs nothing."""
    async with world(Script(forever=say("Aye."))) as w:
        records = w.session.records
        assert records.loss(SetModel("claude-opus-5")) is None
        await w.session.run("Hi")
        loss = records.loss(SetModel("claude-opus-5"))
        assert loss is not None
        assert loss.extra
        assert loss.tokens > 100
        assert records.loss(Say("x")) is None
        for command in (Compact(), Clear(), SetEffort("low")):
            assert records.loss(command) is not None
        unknown = records.loss(SetModel("chat:nobody-knows-it"))
        assert unknown is not None
        assert unknown.extra is None
        assert records.confirm_above == 0.05


@pytest.mark.moves_prefix("the session goes on with another model")
async def test_what_it_costs_to_resume_with_another_model(world: Worlds) -> None:
    """It is known before anything is opened, and said when it is done; the same model costs
    nothing more, and what is wrong is left for the opening to say.
    """
    async with world(Script(forever=say("Aye.")), opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        given = replace(Options(**w.given), resume=session.id)
        assert resuming_cost(given) is None
        assert resuming_cost(replace(given, resume="nowhere", model="claude-opus-5")) is None
        cost = resuming_cost(replace(given, model="claude-opus-5"))
        assert cost is not None
        assert cost.before == "claude-sonnet-5-5"
        assert cost.loss.extra
        assert cost.asks == (cost.loss.extra > 0.05)
        dear = replace(given, model="claude-opus-5", settings='{"confirmAboveUsd": 0}')
        assert (resuming_cost(dear) or cost).asks
        unknown = resuming_cost(replace(given, model="nobody-knows-it"))
        assert unknown is not None
        assert not unknown.asks
        async with w.open(resume=session.id, model="claude-opus-5"):
            assert cost.loss.text in w.warnings


async def test_what_commands_show(world: Worlds, tmp_path: Path) -> None:
    """Rules, hooks, servers, context and usage are lines; a conversation becomes a file, once."""
    settings = {
        "permissions": {"deny": ["Bash(rm:*)"]},
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
            "PreToolUse": [{"hooks": [{"command": "a", "if": "Bash(rm *)", "async": True}]}],
        },
        "confirmAboveUsd": 2,
    }
    async with world(
        [call("Read", {"file_path": "a.py"}), say("Done ```x```.")],
        files={"a.py": "x"},
        settings=json.dumps(settings),
    ) as w:
        await w.session.run("Look")

        async def lines(what: str, rest: str = "") -> str:
            return "\n".join(await shown(w.session, Show(what, rest)))

        assert "deny   Bash(rm:*)" in await lines("permissions")
        assert "Stop *: true" in await lines("hooks")
        assert "PreToolUse * (if Bash(rm *), async): a" in await lines("hooks")
        assert await lines("mcp") == "no MCP servers are configured"
        assert "head" in await lines("context")
        assert "session: " in await lines("usage")
        assert "  1  Look" in await lines("rewind")
        assert await lines("effort") == "the model's own"
        assert w.session.records.confirm_above == 2
        told = await lines("export", "talk.md")
        text = (w.root / "talk.md").read_text()
        assert told == f"written to {w.root / 'talk.md'}"
        assert "## User\n\nLook" in text
        assert "Done ```x```." in text
        with pytest.raises(UsageError, match="there already"):
            await lines("export", "talk.md")
        assert "written" in await lines("export", "talk.html")
        assert (w.root / "talk.html").read_text().startswith("<!doctype html>")


async def test_init_is_a_message(world: Worlds) -> None:
    """The skill that comes with the program is sent as the user's message, and is no tool."""
    async with world([say("Written.")]) as w:
        (step,) = read_slash("/init briefly", w.session.view())
        assert isinstance(await w.session.send(step), Accepted)  # type: ignore[arg-type] - no Show
        await w.session.wait_settled()
        body = w.server.records[0]
        assert "write AGENTS.md" in body.request.last_text
        assert "briefly" in body.request.last_text
        assert "AGENTS.md, or mend" not in str(body.json["tools"])


def test_one_table_of_commands() -> None:
    """Everything that help names can be read, and everything that is shown is in help."""
    names = {one.name for one in COMMANDS}
    assert set(SHOWN) <= names
    for one in COMMANDS:
        rest = "" if one.takes.startswith("[") else one.takes.replace("ID TEXT", "fork-1 x")
        rest = re.sub(r"^\w+\|| \[--\w+\]", "", rest)
        if one.name != "quit":
            assert read_slash(f"/{one.name} {rest}", View())
    with pytest.raises(UsageError):
        read_slash("/rewind soon", View())
