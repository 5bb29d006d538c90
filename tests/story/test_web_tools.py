"""WebFetch in a session: what is asked, what rules say, who has it."""

from __future__ import annotations

import pytest

from prong.event import PermissionAsked, QuestionAsked, ToolFinished, Warned
from prong.question import Answer
from prong.testing import Script, Worlds, call, forks, report, say
from prong.testing.http import Exchange, listen
from prong.testing.server import Record

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L2")]

PAGE = {"url": "http://127.0.0.1:9/page"}
"""Where nothing listens, and where nobody gets without the user's word."""


def tools_of(record: Record) -> list[str]:
    return [tool["name"] for tool in record.json["tools"]]


async def test_a_host_is_asked_for_and_the_rule_is_offered(world: Worlds) -> None:
    """Whoever is asked sees the host, and the rule that would allow it for good."""
    asked: list[PermissionAsked] = []

    async def respond(_: str, question: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(question, PermissionAsked)
        asked.append(question)
        return Answer("", allow=False)

    async with world(
        [call("WebFetch", {"url": "https://docs.example/x"}), say("ok")], respond=respond
    ) as w:
        await w.session.run("Go")

    assert "domain:docs.example" in asked[0].why
    assert asked[0].suggestion == ("WebFetch(domain:docs.example)",)


@pytest.mark.parametrize("mode", ["default", "plan", "bypassPermissions"])
async def test_a_deny_rule_holds_for_subdomains_in_every_mode(world: Worlds, mode: str) -> None:
    """`WebFetch(domain:example)` denied stops every host below it, whatever the mode."""
    script = [call("WebFetch", {"url": "https://www.EXAMPLE.org./x"}), say("ok")]
    async with world(script, deny=["WebFetch(domain:example.org)"], mode=mode) as w:
        await w.session.run("Go")

        (ended,) = w.told(ToolFinished)
        assert ended.refused
        assert "forbidden by `WebFetch(domain:example.org)`" in ended.text


async def test_an_allowed_host_is_still_not_private(world: Worlds) -> None:
    """A rule lets the call run; that the address is private is another matter, and is said."""
    script = [call("WebFetch", PAGE), say("ok")]
    async with world(script, allow=["WebFetch(domain:127.0.0.1)"]) as w:
        await w.session.run("Go")

        (ended,) = w.told(ToolFinished)
        assert ended.failed
        assert not ended.refused
        assert "web.privateHosts" in ended.text


async def test_a_private_host_is_reached_where_the_setting_names_it(world: Worlds) -> None:
    """With the setting the connection is tried."""
    settings = '{"web": {"privateHosts": ["127.0.0.1"]}}'
    script = [call("WebFetch", PAGE), say("ok")]
    async with world(script, mode="bypassPermissions", settings=settings) as w:
        await w.session.run("Go")

        (ended,) = w.told(ToolFinished)
        assert "nothing answers at 127.0.0.1:9" in ended.text


async def test_the_web_can_be_switched_off(world: Worlds) -> None:
    """With `web.fetch` false there is no such tool."""
    async with world([say("Hi.")], settings='{"web": {"fetch": false}}') as w:
        await w.session.run("Hi")

        assert "WebFetch" not in tools_of(w.server.records[0])


async def test_a_folder_that_is_not_trusted_opens_no_private_hosts(world: Worlds) -> None:
    """What a clone's settings say of the web counts only with trust."""
    async with world(
        [call("WebFetch", PAGE), say("ok")],
        files={".prong/settings.json": '{"web": {"privateHosts": ["*"]}}'},
        mode="bypassPermissions",
    ) as w:
        await w.session.run("Go")

        (ended,) = w.told(ToolFinished)
        assert "no public address" in ended.text
        assert any("web" in told.text and "trust" in told.text for told in w.told(Warned))


async def test_agents_in_the_background_have_it(world: Worlds) -> None:
    """A type of agent whose list names WebFetch gets it, in the background too."""
    agents = (
        '{"reader": {"description": "reads", "prompt": "Read.", "tools": ["WebFetch", "Read"]}}'
    )
    brief = {"description": "a page", "prompt": "Look.", "subagent_type": "reader"}
    script = [call("Agent", brief | {"run_in_background": True}), say("waiting"), say("done")]
    async with world(script, agents=agents) as w:
        await w.session.run("Go")

        child = next(r for r in w.server.records if b'"Read."' in r.body or b"Look." in r.body)
        assert "WebFetch" in str(child.json["tools"])


@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_a_fork_reads_pages_wherever_it_runs(world: Worlds, backend: str) -> None:
    """The session fetches for an agent in a process of its own; heads are shared to the byte."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(200, b"<h1>Notes</h1>", {"content-type": "text/html"})

    async with listen(answer) as port:
        settings = {"web": {"privateHosts": ["127.0.0.1"]}, "agents": {"backend": backend}}
        page = call("WebFetch", {"url": f"http://127.0.0.1:{port}/"})
        script = Script(
            [forks("Read the notes."), say("waiting"), say("done")],
            routes={"Read the notes.": [page, report("read")]},
        )
        async with world(script, settings=settings, mode="bypassPermissions") as w:
            await w.session.run("Go")

            told = [r for r in w.server.records if "# Notes" in r.request.last_text]
            assert len(told) == 1
            assert "<web-page url=" in told[0].request.last_text
            assert {str(r.json["tools"]) for r in w.server.records} == {
                str(w.server.records[0].json["tools"])
            }
