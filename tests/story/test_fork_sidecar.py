"""Requests beside the conversation: they read its cache and leave no trace in it."""

from __future__ import annotations

import anyio
import pytest

from prong.command import Accepted, Clear, Compact, Rename, Suggest
from prong.event import PromptMoved
from prong.journal import store
from prong.testing import Script, Worlds, call, forks, inside, report, say

pytestmark = pytest.mark.anyio

APIS = ["anthropic", "responses", "chat", "gemini"]
LONG = "A line that says something about the project.\n" * 400


@pytest.mark.spec("F20")
@pytest.mark.parametrize("api", APIS)
async def test_an_aside_reads_the_cache_and_touches_nothing(world: Worlds, api: str) -> None:
    """A question beside the conversation is answered from the cache and then forgotten."""
    script = Script([say("Hello."), say("Still here.")], {"what was it": [say("A greeting.")]})
    async with world(script, api=api, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        before = w.parts.agent.conversation.prompt
        assert await w.session.aside("So what was it?", purpose="memory") == "A greeting."
        assert w.parts.agent.conversation.prompt is before
        assert (await w.session.run("And?")).text == "Still here."
        first, beside, after = w.server.records
        assert beside.headers["x-prong-sidecar"] == "memory"
        # Older models count in steps of 128 tokens.
        assert beside.usage.read >= first.usage.input - 128
        assert after.usage.read >= first.usage.input - 128
        assert "what was it" not in after.body.decode()
        (row,) = [row for row in w.parts.ledger.rows if row.sidecar]
        assert (row.sidecar, row.usage) == ("memory", beside.usage)


@pytest.mark.spec("F20")
async def test_a_suggestion_and_a_title(world: Worlds) -> None:
    """Both are asked for on the snapshot; a title is kept, a suggestion is not."""
    script = Script([say("Hello.")], {"will most likely say next": [say("Now the tests.")]})
    async with world(script, opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run(f"Hi {LONG}")
            assert session.records.wants_title
            assert await session.send(Suggest()) == Accepted("Now the tests.")
            assert await session.send(Rename()) == Accepted("A title")
            assert not session.records.wants_title
            assert await session.send(Rename()) == Accepted("A title")
            kinds = [r.headers.get("x-prong-sidecar", "") for r in w.server.records]
            assert kinds == ["", "suggestion", "title"]
            assert all(r.usage.read > 4000 for r in w.server.records[1:])
            assert inside(session).agent.conversation.prompt.depth == 2
        assert [info.title for info in store.sessions(w.root, w.store)] == ["A title"]


@pytest.mark.spec("F20")
async def test_a_session_with_a_name_keeps_it(world: Worlds) -> None:
    """No title is asked for where the user gave one, or where settings forbid it."""
    async with world([say("Hello.")], name="mine") as w:
        await w.session.run("Hi")
        assert not w.session.records.wants_title
        assert await w.session.send(Rename()) == Accepted("mine")
    async with w.open(name=None, settings='{"titles": false}') as session:
        assert not session.records.wants_title


@pytest.mark.spec("F20")
@pytest.mark.moves_prefix("the snapshot is older than the turn that runs")
async def test_an_aside_while_a_turn_runs(world: Worlds) -> None:
    """In the middle of a turn the snapshot is the conversation after the last one."""
    wait = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    script = Script([say("Hello."), wait, say("done")], {"what was it": [say("A greeting.")]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        snapshot = w.parts.agent.conversation.prompt
        await w.session.say("Go")
        with anyio.fail_after(40):
            while w.parts.agent.conversation.prompt.depth < 4:
                await anyio.sleep(0.01)
        assert w.session.records.snapshot is snapshot
        assert await w.session.aside("what was it") == "A greeting."
        w.write("go", "")
        await w.session.wait_settled()


@pytest.mark.spec("F20")
async def test_an_aside_in_the_very_first_turn(world: Worlds) -> None:
    """Without a snapshot, a reply whose calls still run is left out of the question."""
    wait = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    script = Script([wait, say("done")], {"what was it": [say("Nothing yet.")]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        with anyio.fail_after(40):
            while w.parts.agent.conversation.prompt.depth < 2:
                await anyio.sleep(0.01)
        assert await w.session.aside("what was it") == "Nothing yet."
        w.write("go", "")
        await w.session.wait_settled()


@pytest.mark.spec("F20")
@pytest.mark.moves_prefix("the conversation is cleared")
async def test_nothing_of_a_cleared_conversation_is_asked(world: Worlds) -> None:
    """After a clear, a question beside it knows nothing of what was said before."""
    script = Script([say("Hello.")], {"what was it": [say("Nothing.")]})
    async with world(script) as w:
        await w.session.run("I am Ishmael")
        await w.session.send(Clear())
        await w.session.aside("what was it")
        assert "Ishmael" not in w.server.records[-1].body.decode()


@pytest.mark.spec("F20", "L7")
@pytest.mark.moves_prefix("the conversation is compacted")
async def test_the_summary_rides_on_the_cache(world: Worlds) -> None:
    """The request for a summary reads everything the conversation had cached."""
    async with world([say("Hello."), say("THE SUMMARY")]) as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.send(Compact())
        first, summary = w.server.records
        assert summary.headers["x-prong-sidecar"] == "compaction"
        assert summary.usage.read == first.usage.input
        assert [e.reason for e in w.told(PromptMoved)] == ["compaction"]


@pytest.mark.spec("F20", "F7")
async def test_asides_beside_forks_change_nothing_for_them(world: Worlds) -> None:
    """Forks of a conversation that was asked about in between read the same base."""
    script = Script(
        [say("Hello."), forks("Part 1."), say("x"), say("done")],
        {"Part 1.": [report()], "what was it": [say("A greeting.")]},
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        await w.session.aside("what was it")
        await w.session.run("Go")
        (receipt,) = w.session.receipts()
        assert receipt.read >= receipt.predicted_read
        assert not receipt.miss
