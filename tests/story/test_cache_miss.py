"""The first agent's replies, held against what its last request left in the cache."""

from __future__ import annotations

import base64
import re

import pytest
from msgspec.structs import replace

from prong.agent import Sent
from prong.agent.observer import Payment
from prong.command import Clear, Compact
from prong.cost.receipt import describe, line
from prong.entry import Image, Text, Usage
from prong.event import CacheMissed
from prong.team.account import ChildAccount
from prong.testing import Options, Script, Worlds, forks, report, say
from shared.picture import PNG

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F17")]

LONG = "Here is all that is known: " + "fact " * 3_000
TALK = Script([say("Yes. " * 50)], forever=say("Still yes. " * 20))


async def test_an_entry_that_ended_is_named(world: Worlds) -> None:
    """A message after the entry's end costs a rewrite; the next one reads again."""
    async with world(TALK) as w:
        await w.session.run(LONG)
        w.advance(400)
        await w.session.run("And now?")
        await w.session.run("And now?")

        (missed,) = w.told(CacheMissed)
        assert (missed.predicted, missed.read) == (w.server.records[0].usage.written, 0)
        idle = re.search(r"lives 300 s and was last used (\d+) s before", missed.why)
        assert idle is not None
        # What the test itself takes is time, too.
        assert 400 <= int(idle[1]) < 500
        assert {e.agent for e in w.envelopes if isinstance(e.event, CacheMissed)} == {"main"}


async def test_an_entry_that_is_gone_too_early(world: Worlds) -> None:
    """If the entry should still live, the provider lost it."""
    async with world(TALK) as w:
        await w.session.run(LONG)
        w.server.clock.advance(400)
        await w.session.run("And now?")

        (missed,) = w.told(CacheMissed)
        assert "did not find the entry" in missed.why


async def test_the_first_picture_is_named(world: Worlds) -> None:
    """A conversation's first picture makes another prompt of it, and the next one does not."""
    picture = Image("image/png", base64.b64encode(PNG).decode())
    async with world(TALK) as w:
        await w.session.run(LONG)
        await w.session.run([Text("See"), picture])
        await w.session.run([Text("See this too"), picture])

        (missed,) = w.told(CacheMissed)
        assert "prompts with pictures are cached apart" in missed.why


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_no_alarm_while_all_is_well(world: Worlds, api: str) -> None:
    """Messages, questions beside, a summary and a fresh start raise nothing on any API."""
    async with world(TALK, api=api) as w:
        await w.session.run(LONG)
        await w.session.run("And now?")
        await w.session.aside("A title?")
        await w.session.run("And now?")
        w.server.moves_prefix = "the conversation is replaced"
        await w.session.send(Compact())
        await w.session.run("And now?")
        await w.session.send(Clear())
        await w.session.run(f"Once more. {LONG}")
        await w.session.run("And now?")

        assert not w.told(CacheMissed)


@pytest.mark.parametrize("late", [False, True])
async def test_a_resumed_session_is_held_to_its_last_request(world: Worlds, late: bool) -> None:
    """What was sent before the resume should be read after it, if its time is not over."""
    async with world(TALK, opens=False) as w:
        async with w.open() as session:
            await session.run(LONG)
        if late:
            w.advance(400)
        async with w.open(continue_last=True) as session:
            await session.run("And now?")

            assert ["lives 300 s" in e.why for e in w.told(CacheMissed)] == [True] * late


async def test_a_server_that_reports_no_cache_is_not_accused(world: Worlds) -> None:
    """Where nothing is told of the cache no miss is claimed, and receipts say what is not known."""
    script = Script(
        [say("Ready."), forks("Part 1."), say("Waiting.")],
        {"Part 1.": [report()]},
        forever=say("Ok."),
    )
    silent = Options(tells_cache=False)
    async with world(script, api="chat", serving=silent, mode="bypassPermissions") as w:
        await w.session.run(LONG)
        await w.session.run("Go")

        (receipt,) = w.session.receipts()
        assert receipt.predicted_read > 1_000
        assert not w.told(CacheMissed)
        assert not receipt.miss
        assert "cache not reported" in line(receipt)
        assert "saved" not in line(receipt)
        assert "the server reports nothing of its cache (predicted: read " in describe(receipt)


async def test_a_child_of_another_process_is_held_to_nothing_it_cannot_know(world: Worlds) -> None:
    """A server that counts no writes may be another one after a resume: a child's first reply then
    is not held to what its last request in the process before has read; its second one is.
    """
    async with world(Script([forks("A")], {"A": [report()]}, say("Done."))) as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        (child,) = w.parts.supervisor.children
        conversation, client = child.agent.conversation, child.agent.client
        rule = replace(client.rule(conversation.prompt.head), lasting=True)
        resumed = ChildAccount(child.account.receipt, rule.ttl, rows=child.account.rows)
        left = Sent(usage=Usage(uncached=50_000), at=1.0)
        row = replace(child.account.rows[0], usage=Usage(uncached=50_100))
        cold = Payment(row=row, rule=rule, at=2.0, diagnostics=b"")

        conversation.answered(replace(left, recalled=True))
        resumed.paid(conversation, cold)
        assert not w.told(CacheMissed)
        conversation.answered(left)
        resumed.paid(conversation, cold)
        assert [missed.predicted for missed in w.told(CacheMissed)] == [50_000]
