"""Faults of the provider: tried again, told, and nothing done twice."""

from __future__ import annotations

import pytest

from prong.event import ReplyDiscarded, ReplyFinished, ToolFinished, ToolStarted
from prong.testing import Options, Step, Worlds, break_off, call, cut, fail, malformed, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L10")]

APIS = ["anthropic", "responses", "chat", "gemini"]
APPEND = call("Bash", {"command": "echo once >> log"})
FAULTS: dict[str, Step] = {
    "rate": fail(429, "rate_limit_error", "slow down", retry_after=0.01),
    "overloaded": fail(529, "overloaded_error", "busy"),
    "broken": fail(500, "api_error", "oops"),
    "cut": cut(700, then=APPEND),
    "error event": break_off("overloaded_error", "busy", then=APPEND),
    "malformed": malformed(then=APPEND),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_tried_again(world: Worlds, api: str, fault: str) -> None:
    """The reply is stored once and its call runs once, whatever went wrong before it."""
    script = [FAULTS[fault], APPEND, say("Done.")]
    options = {"mode": "bypassPermissions", "settings": {"retry": {"first": 0.02}}}
    async with world(script, api=api, **options) as w:
        turn = await w.session.run("Go")
        assert (turn.text, turn.why) == ("Done.", "done")
        assert (w.root / "log").read_text() == "once\n"
        kinds = [kind for kind, _ in w.parts.agent.conversation.prompt.entries()]
        assert kinds == ["user", "reply", "results", "reply"]
        discarded = w.told(ReplyDiscarded)
        assert len(discarded) == 1
        assert discarded[0].retry_in is not None
        assert len(w.told(ReplyFinished)) == 2
        assert len(w.told(ToolStarted)) == 1
        assert w.server.records[0].body == w.server.records[1].body


@pytest.mark.parametrize("api", APIS)
async def test_an_error_that_lasts_is_told_and_nothing_is_lost(world: Worlds, api: str) -> None:
    """A request that is refused ends the turn with the reason; the next turn goes on from there."""
    script = [fail(400, "invalid_request_error", "no such thing"), say("Better.")]
    async with world(script, api=api) as w:
        turn = await w.session.run("First words")
        assert turn.why == "error"
        assert "no such thing" in turn.detail
        assert (await w.session.run("Second words")).text == "Better."
        assert b"First words" in w.server.records[1].body


async def test_a_wrong_key(world: Worlds) -> None:
    """A refused key is named with its source."""
    async with world([], serving=Options(key="right"), api_key="wrong") as w:
        turn = await w.session.run("Hi")
        assert turn.why == "error"
        assert "the key in the options" in turn.detail


async def test_an_unknown_model(world: Worlds) -> None:
    """A model that the server does not know is named."""
    serving = Options(models=("claude-sonnet-5-5",))
    async with world([], serving=serving, model="claude-nonsense-9") as w:
        turn = await w.session.run("Hi")
        assert turn.why == "error"
        assert "claude-nonsense-9" in turn.detail


async def test_a_failure_of_a_tool_is_seen(world: Worlds) -> None:
    """A tool that meets an error of the system tells the model."""
    script = [call("Write", {"file_path": "d/x", "content": "y"}), say("I see.")]
    async with world(script, files={"d": "a file, not a folder"}, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "I see."
        assert w.told(ToolFinished)[0].failed


@pytest.mark.spec("L9")
@pytest.mark.parametrize("way", ["option", "setting"])
async def test_a_proxy_is_used(world: Worlds, way: str) -> None:
    """Requests go through the proxy that an option or a setting names; errors say so."""
    proxy = "http://127.0.0.1:9"
    flag = proxy if way == "option" else None
    setting = None if way == "option" else f'{{"proxy": "{proxy}"}}'
    nowhere = "http://nowhere.invalid"
    async with world(base_url=nowhere, proxy=flag, settings=setting) as w:
        turn = await w.session.run("Hi")

        assert turn.why == "error"
        assert "127.0.0.1:9" in turn.detail
