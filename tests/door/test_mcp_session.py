"""Servers in a session: what the model is told of them, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.command import Accepted, Clear, Compact, Refused, Say, SetModel, UseSkill
from prong.event import MAIN, PermissionAsked, PromptMoved, QuestionAsked, ToolFinished, ToolOutput
from prong.face.slash import Show
from prong.face.status import find_sources
from prong.face.wish import shown
from prong.journal.writer import Journal
from prong.question import Answer
from prong.session import records
from prong.session.server_news import NewsQueue, ServerNews
from prong.testing import World, call, say, world
from shared.fullscreen import opened
from shared.served import old_config, patient, server_config
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L2")]


def told(w: World, *, at: int = -1) -> list[str]:
    return [tool["name"] for tool in w.bodies()[at]["tools"]]


def last(w: World) -> str:
    return str(w.bodies()[-1]["messages"][-1])


async def test_instructions_are_the_servers_words_and_nobody_elses() -> None:
    """A server's instructions stand in the prompt, quoted, and cannot end their quotation."""
    async with world([say("Hi.")], mcp_config=server_config(), settings=patient()) as w:
        await w.session.run("Go")

        text = str(w.bodies()[0]["system"])
        assert '<server name="many">' in text
        assert "Say please." in text
        assert "Written by the servers" in text
        assert text.count("</server>") == 1


async def test_a_late_server_holds_up_nobody(tmp_path: Path) -> None:
    """A session starts without a late server; then its tools are found, and called, by search."""
    ready = tmp_path / "ready"
    script = [
        say("First."),
        call("McpSearch", {"query": "look a word up"}),
        call("McpCall", {"tool": "mcp__many__lookup", "arguments": {"word": "w"}}),
        say("Second."),
        say("Third."),
    ]
    async with world(
        script,
        mcp_config=server_config("late", str(ready)),
        settings={"mcp": {"wait": 0}},
        allow=["mcp__many"],
        moves_prefix="the session is cleared",
    ) as w:
        await w.session.run("One")
        assert told(w)[-2:] == ["McpSearch", "McpCall"]
        assert any("still starting: MCP server many" in one for one in w.warnings)
        ready.touch()
        await w.session.run("Two")
        first = w.bodies()[0]["tools"]
        assert all(one["tools"] == first for one in w.bodies())
        assert "found w" in last(w)
        assert [one.name for one in w.told(ToolFinished)] == ["McpSearch", "mcp__many__lookup"]
        await until(lambda: any("McpSearch finds its tools now" in one for one in w.warnings))
        await w.session.send(Clear())
        await w.session.run("Three")
        assert "mcp__many__lookup" in told(w)
        assert "McpSearch" not in told(w)
        assert "Say please." in str(w.bodies()[-1]["system"])


async def test_before_the_first_message_a_late_server_costs_nothing(tmp_path: Path) -> None:
    """While nothing was sent, the prompt is begun anew with the tools of a late server."""
    ready = tmp_path / "ready"
    config = server_config("late", str(ready))
    async with world([say("Hi.")], mcp_config=config, settings={"mcp": {"wait": 0}}) as w:
        ready.touch()
        await until(lambda: w.told(PromptMoved))
        await w.session.run("Go")
        assert "mcp__many__lookup" in told(w)
        assert "McpSearch" not in told(w)


async def test_a_resumed_session_calls_what_its_head_tells_of(tmp_path: Path) -> None:
    """Tools of a resumed head work though their server is late: the call waits for it."""
    ready = tmp_path / "ready"
    ready.touch()
    config = server_config("late", str(ready))
    script = [say("Hi."), call("mcp__many__lookup", {"word": "w"}), say("Done.")]
    async with world(
        script, settings=patient(), mcp_config=config, allow=["mcp__many"], opens=False
    ) as w:
        async with w.open() as session:
            await session.run("Go")
        ready.unlink()
        async with (
            w.open(resume=session.id, settings={"mcp": {"wait": 0}}) as session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(session.run, "Again")
            await until(lambda: len(w.bodies()) > 1)
            ready.touch()
        assert "found w" in last(w)


@pytest.mark.parametrize("config", [server_config(), old_config()])
async def test_a_changed_list_is_said_and_waits_for_a_new_prompt(config: dict[str, Any]) -> None:
    """A server that gets another tool is told of in one line; the next new prompt has the tool."""
    async with world(
        [call("mcp__many__grow", {}), say("One."), say("Two.")],
        mcp_config=config,
        settings=patient(),
        allow=["mcp__many"],
        moves_prefix="the session is cleared",
    ) as w:
        await w.session.run("Go")
        await until(lambda: any("+mcp__many__grown" in one for one in w.warnings))
        assert "mcp__many__grown" not in told(w)
        await w.session.send(Clear())
        await w.session.run("Go on")
        assert "mcp__many__grown" in told(w)


async def test_a_resumed_session_is_told_of_new_servers_and_can_have_them() -> None:
    """What servers brought since is said; /clear and another model begin a prompt that has it."""
    script = [say("One."), say("Two."), say("Three."), say("Four.")]
    async with world(
        script, settings=patient(), opens=False, moves_prefix="the session is cleared"
    ) as w:
        async with w.open(mcp_config=old_config("old")) as session:
            await session.run("Go")
        both = {"mcpServers": {**server_config()["mcpServers"], **old_config("old")["mcpServers"]}}
        async with w.open(resume=session.id, mcp_config=both) as session:
            await session.run("Again")
            assert told(w) == told(w, at=0)
            assert any("since this session began: +mcp__many__" in one for one in w.warnings)
            await session.send(SetModel("claude-opus-5-5"))
            await session.run("More")
            assert {"mcp__many__lookup", "mcp__old__form"} <= {*told(w)}
        less = old_config("old")
        async with w.open(resume=session.id, mcp_config=less, model="claude-opus-5-5") as session:
            await session.run("Once more")
            assert any("-mcp__many__lookup" in one for one in w.warnings)


async def test_a_compaction_takes_in_what_came() -> None:
    """The prompt after a compaction tells of tools that a server got meanwhile."""
    async with world(
        [
            call("mcp__many__grow", {}),
            say("One. " * 400),
            say("Two."),
            say("A summary."),
            say("On."),
        ],
        mcp_config=old_config(),
        settings=patient(),
        allow=["mcp__many"],
        moves_prefix="the session is compacted",
    ) as w:
        await w.session.run("Go")
        await w.session.run("And " * 2_000)
        await until(lambda: any("+mcp__many__grown" in one for one in w.warnings))
        assert isinstance(await w.session.send(Compact()), Accepted)
        await w.session.run("Go on")
        assert "mcp__many__grown" in told(w)


async def test_progress_is_shown_while_a_call_runs() -> None:
    """What a server says of its progress is shown live, and the result is its own."""
    async with world(
        [call("mcp__many__work", {"steps": 3}), say("Done.")],
        mcp_config=server_config(),
        settings=patient(),
        allow=["mcp__many"],
    ) as w:
        await w.session.run("Go")
        shown = "".join(one.text for one in w.told(ToolOutput))
        assert "3/3 step 3" in shown
        assert "worked" in last(w)


async def test_a_prompt_of_a_server_is_a_command() -> None:
    """`/mcp__server__prompt words` puts what the server writes before the model, as its words."""
    config = server_config()
    async with world([say("One."), say("Two.")], mcp_config=config, settings=patient()) as w:
        assert w.session.records.is_command("mcp__many__review")
        assert w.session.records.skills["mcp__many__review"] == "Review a file."
        await w.session.run(UseSkill("mcp__many__review", "'a b.py' bugs and style"))
        text = last(w)
        assert "Please review a b.py for bugs and style." in text
        assert "of the MCP server many, called by the user" in text
        lacks = await w.session.send(UseSkill("mcp__many__review"))
        assert isinstance(lacks, Refused)
        assert "it lacks file" in lacks.why
        gone = await w.session.send(UseSkill("mcp__many__gone"))
        assert isinstance(gone, Refused)
        assert "/mcp__many__review" in gone.why


async def test_a_message_names_resources() -> None:
    """`@server:uri` puts a resource behind the message; one that is not there is said."""
    config = server_config()
    async with world([say("One."), say("Two.")], mcp_config=config, settings=patient()) as w:
        await w.session.run("Look at @many:memo://today, and at @nobody:x and a@many:memo://b.")
        text = last(w)
        assert "[resource memo://today]" in text
        assert "buy milk" in text
        assert "memo of" not in text
        await w.session.run("And @many:gone://x")
        assert any("@many:gone://x could not be read" in one for one in w.warnings)


async def test_a_resource_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an @ the resources of servers are proposed beside files, by what both faces ask."""
    # However slow the server is: it has none to propose otherwise.
    monkeypatch.setattr(records, "_ASKED", 60.0)
    config = server_config()
    async with (
        world([say("One.")], mcp_config=config, settings=patient(), attended=True) as w,
        opened(w.session) as hands,
    ):
        found = await find_sources(w.session.view(), w.session.records, "see @")
        assert [one.text for one in found.resources] == ["many:memo://today"]
        assert not (await find_sources(w.session.view(), w.session.records, "see")).resources
        await hands.press(*"see @many", "tab")
        await hands.see("see @many:memo://today")


async def test_the_model_lists_and_reads_resources() -> None:
    """The model reads resources by a tool of the server's name, for which its rules hold."""
    read = "mcp__many__ReadResource"
    script = [call(read, {}), call(read, {"uri": "memo://monday"}), say("Done.")]
    async with world(
        script, mcp_config=server_config(), settings=patient(), allow=["mcp__many"]
    ) as w:
        await w.session.run("Go")
        assert "memo://today  today  What is up" in str(w.bodies()[1]["messages"][-1])
        assert "memo of monday" in last(w)


@pytest.mark.parametrize(
    ("answers", "given"),
    [
        (["red", "3"], '"color": "red", "count": 3'),
        (["red", "skip"], '"color": "red"}'),
        (["decline"], "decline None"),
        (["red", "many"], "decline None"),
    ],
)
@pytest.mark.parametrize("config", [server_config(), old_config()])
async def test_a_server_asks_the_user(
    answers: list[str], given: str, config: dict[str, Any]
) -> None:
    """Each field of a server's form is a question, with ways to skip and to decline."""
    left, asked = [*answers], list[str]()

    def respond(path: str, one: PermissionAsked | QuestionAsked) -> Answer:
        assert path == MAIN
        assert isinstance(one, QuestionAsked)
        asked.append(one.questions[0].question)
        return Answer(one.request_id, text=left.pop(0))

    async with world(
        [call("mcp__many__form", {}), say("Done.")],
        mcp_config=config,
        settings=patient(),
        allow=["mcp__many"],
        respond=respond,
    ) as w:
        await w.session.run("Go")
        assert given in last(w).replace("\\", "").replace("'", '"')
        assert asked[0].startswith("MCP server many asks: Which one?")
        assert not left


@pytest.mark.parametrize("config", [server_config(), old_config()])
async def test_with_nobody_there_a_question_is_declined_and_said(config: dict[str, Any]) -> None:
    """Where nobody can answer, as in `prong -p`, the server is refused, and the user told."""
    async with world(
        [call("mcp__many__form", {}), say("Done.")],
        mcp_config=config,
        settings=patient(),
        allow=["mcp__many"],
    ) as w:
        await w.session.run("Go")
        assert "decline None" in last(w)
        assert any("'many' asks: Which one?; nobody is here" in one for one in w.warnings)


async def test_states_are_shown(tmp_path: Path) -> None:
    """/mcp shows how each server stands, with its tools and prompts."""
    ready = tmp_path / "ready"
    config = server_config("late", str(ready))
    async with world([], mcp_config=config, settings={"mcp": {"wait": 0}}) as w:
        assert (await shown(w.session, Show("mcp")))[0].endswith("it is still starting")
        ready.touch()
        await until(lambda: w.session.records.servers[0].state == "ready")
        lines = await shown(w.session, Show("mcp"))
        assert lines[0].startswith("+ many  many")
        assert "lookup" in lines[1]
        assert "/mcp__many__review" in lines[1]


async def test_what_servers_tell_while_a_session_closes_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """News that come when the journal is closed end nothing; no prompt is begun for them."""
    queues: list[NewsQueue] = []
    close = Journal.close

    async def close_with_news(journal: Journal) -> None:
        close(journal)
        (news,) = queues
        news.put(ServerNews("many", "changed", "-mcp__many__lookup"))
        with anyio.move_on_after(10):
            await news.wait_taken()

    monkeypatch.setattr(Journal, "close", close_with_news)
    async with world([], mcp_config=server_config(), settings=patient()) as w:
        servers = w.session._parts.servers
        assert servers is not None
        queues.append(servers.news)

    assert not w.told(PromptMoved)


async def test_a_message_waits_for_no_server_that_it_does_not_name(tmp_path: Path) -> None:
    """A message without a resource is taken at once, while servers start."""
    config = server_config("late", str(tmp_path / "never"))
    async with world([say("Hi.")], mcp_config=config, settings={"mcp": {"wait": 0}}) as w:
        assert isinstance(await w.session.send(Say("Hello")), Accepted)
        await w.session.wait_settled()
