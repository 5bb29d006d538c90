"""Copies of a session, another effort, what a move would cost, and what slash commands show."""

from __future__ import annotations

import base64
import json
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from prong.agent.spec import AgentType
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
from prong.entry import Image
from prong.errors import UsageError
from prong.event import TextDelta, ToolStarted
from prong.face.carry import Carrier
from prong.face.edit.buffer import Buffer
from prong.face.slash import (
    COMMANDS,
    ELSEWHERE,
    SHOWN,
    Show,
    is_leaving,
    is_slash,
    nearest,
    read_slash,
)
from prong.face.wish import shown
from prong.session import Options, resuming_cost
from prong.testing import Script, Worlds, call, fail, say, stall
from prong.view import View
from shared.picture import PNG

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


@pytest.mark.moves_prefix("the effort is changed")
async def test_an_effort_that_nobody_knows_is_told_of(world: Worlds) -> None:
    """It may be a slip, or a word that only the server knows: it is sent, and the user hears it."""
    kind = AgentType(name="critic", description="d", prompt="p", effort="hihg")
    given = {"effort": "banana", "settings": {"effort": "deep"}, "agents": [kind]}
    known = "there are none, minimal, low, medium, high, xhigh, max. It is sent as it is"
    async with world(Script(forever=say("Aye.")), **given) as w:
        await w.session.run("Hi")
        assert w.server.records[-1].json["output_config"] == {"effort": "banana"}
        told = sorted(text for text in w.warnings if "effort" in text)
        assert [text.partition(f"; {known}")[0] for text in told] == [
            "--effort: the effort 'banana' is not known here",
            "the agent type critic: the effort 'hihg' is not known here (did you mean 'high'?)",
            "the setting effort: the effort 'deep' is not known here",
        ]
        assert await w.session.send(SetEffort("xhigh")) == Accepted()
        assert len([text for text in w.warnings if "effort" in text]) == 3
        assert await w.session.send(SetEffort("mango")) == Accepted()
        assert w.warnings[-1].startswith("the effort 'mango' is not known here; there are none")


async def test_what_a_move_would_cost(world: Worlds) -> None:
    """It is known before anything is done, by short names too; what gives up nothing costs
    nothing, nor does what will be refused.
    """
    settings = {"modelAliases": {"dear": "claude-opus-5"}}
    async with world(Script(forever=say("Aye.")), settings=settings) as w:
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
        by_alias = records.loss(SetModel("dear"))
        assert by_alias == loss
        for nothing in ("claude-sonnet-5-5", "sonnet", "chat:nobody-knows-it"):
            assert records.loss(SetModel(nothing)) is None
        unknown = records.loss(SetModel("nobody-knows-it"))
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
        for what, usual in (("export", "prong-{}.md"), ("trace", "trace-{}.json")):
            first = w.root / usual.format(w.session.id)
            assert await lines(what) == f"written to {first}"
            assert await lines(what) == f"written to {first.with_stem(first.stem + '-2')}"
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


@pytest.mark.parametrize(
    ("line", "command"),
    [
        *(("/help", True), ("/fork a / b", True), ("/export /tmp/x.md", True), ("/", True)),
        *(("/tmp/x.py is broken", False), ("//", False), ("a /help", False), ("", False)),
    ],
)
def test_a_path_is_no_command(line: str, command: bool) -> None:
    """A file that was dropped into the terminal begins a message, though with a slash."""
    assert is_slash(line) == command


def test_who_says_exit_leaves() -> None:
    """The word alone is enough, as in a shell; as an answer or within a sentence it is a word."""
    assert [is_leaving(word) for word in ("/quit", "/exit ", "exit", " quit", ":q")] == [True] * 5
    assert not is_leaving("exit the loop early")
    assert not is_leaving("exit", answers=True)
    assert is_leaving("/exit", answers=True)


def test_names_of_other_programs_lead_to_ours() -> None:
    """Whoever types what another program calls it is told the name; each of them is a command."""
    assert [nearest(name) for name in ("new", "undo", "bashes", "?", "hlep", "qwxyz")] == [
        *("clear", "rewind", "tasks", "help", "help", ""),
    ]
    names = {one.name for one in COMMANDS}
    assert {*ELSEWHERE.values()} <= names
    assert not names & {*ELSEWHERE}


class Outlet:
    """What is said to the user."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, lines: list[tuple[str, str]]) -> None:
        self.told += [text for text, _ in lines]

    def tell_forks(self, ids: tuple[str, ...]) -> None:
        self.told += ids

    def tell_wait(self, text: str) -> AbstractContextManager[None]:
        self.told.append(text)
        return nullcontext()

    async def agree(self, question: str) -> bool:
        return bool(question)


async def test_a_question_beside_the_conversation(world: Worlds) -> None:
    """`/btw` is answered from what was said, and is no part of the conversation afterwards."""
    script = Script([say("One."), say("It is 42."), say("Two.")])
    async with world(script) as w:
        await w.session.run("First")
        outlet = Outlet()
        await Carrier(w.session, outlet).obey("/btw What is it?")
        assert outlet.told[-1] == "It is 42."
        assert "What is it?" in w.server.records[-1].request.last_text
        await w.session.run("Second")
        assert "What is it?" not in str(w.bodies()[-1])
        await Carrier(w.session, outlet).obey("/btw")
        assert outlet.told[-1] == "say what you want to know: /btw QUESTION"


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat", "gemini"])
@pytest.mark.moves_prefix("the copy goes on from before the first message")
async def test_going_back_brings_pictures(world: Worlds, api: str) -> None:
    """A message with a picture stands in the line with it; one of a picture alone is listed."""
    picture = Image("image/png", base64.b64encode(PNG).decode())
    sent = Buffer().insert("What is ").attach("dot.png", picture).message()
    async with world(Script(forever=say("A dot.")), api=api, opens=False) as w:
        async with w.open() as session:
            await session.send(sent)
            await session.wait_settled()
            await session.run([picture])
            listed = await shown(session, Show("rewind"))
            assert listed[:2] == ["  1  What is [image dot.png #1]", "  2  (a picture)"]
            drafts: list[Buffer] = []
            carrier = Carrier(session, Outlet())
            for line in ("/rewind 1", "/rewind 2"):
                await carrier.obey(line)
                assert carrier.following is not None
                drafts.append(carrier.following.draft)
            assert drafts[0].message() == sent
            assert drafts[1].message() == Say("[image picture #1]", (picture,))
            copy = carrier.following.id
        async with w.open(resume=copy) as again:
            await again.send(drafts[0].message())
            await again.wait_settled()
        last = w.server.records[-1].body.decode()
        assert last.count(picture.data) == 2


async def test_nothing_to_account_for_is_no_mistake(world: Worlds) -> None:
    """`/receipt` in a session without forks says that there are none."""
    async with world([say("One.")]) as w:
        await w.session.run("First")
        assert await shown(w.session, Show("receipt")) == [
            "no fork has ended yet: there are no receipts"
        ]
        with pytest.raises(UsageError, match="no such receipt"):
            await shown(w.session, Show("receipt", "fork-7"))


async def test_a_session_gets_another_name(world: Worlds) -> None:
    """`/rename NAME` names the session, and alone says what it is called."""
    async with world([say("One.")]) as w:
        await w.session.run("First")
        outlet = Outlet()
        await Carrier(w.session, outlet).obey("/rename the odd one")
        await Carrier(w.session, outlet).obey("/rename")
        assert w.session.view().title == "the odd one"
        assert outlet.told == ["the odd one", "the odd one"]


def test_one_table_of_commands() -> None:
    """Everything that help names can be read, and everything that is shown is in help."""
    names = {one.name for one in COMMANDS}
    assert set(SHOWN) <= names
    for one in COMMANDS:
        rest = "" if one.takes.startswith("[") else one.takes.replace("ID TEXT", "fork-1 x")
        rest = re.sub(r"^\w+\|| \[--\w+\]|\[(:\w+)\]", lambda found: found[1] or "", rest)
        if one.name != "quit":
            assert read_slash(f"/{one.name} {rest}", View())
    with pytest.raises(UsageError):
        read_slash("/rewind soon", View())
