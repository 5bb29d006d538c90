"""What a session and a fork cost before any work: both counted by the scripted server."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest

from prong.team.fork import PLACEHOLDER
from prong.testing import Script, Step, Worlds, call, calls, forks, report, say
from prong.testing.request import Request
from prong.testing.server import Record

pytestmark = pytest.mark.anyio

APIS = ["anthropic", "responses", "chat"]
HEAD = 4_000
"""Tokens that system text and tools of an ordinary session may take, without those for the web."""
WEB = 120
"""Tokens that each tool for the web may take."""
FRAME = 200
"""Tokens that a fork may write of its own beside its directive."""
PARTS = ["Part one, in some words.", "Part two, in some other words."]


def split(*steps: Step) -> Script:
    return Script(
        [*steps, say("waiting"), say("done")], routes={part: [report("fine")] for part in PARTS}
    )


def first_request(records: list[Record], part: str) -> Request:
    """The first request of the fork that was given that part."""
    requests = [record.request for record in records]
    return next(r for r in requests if r.last_text.endswith(f"Directive:\n{part}"))


@pytest.mark.spec("L2")
@pytest.mark.parametrize("api", APIS)
async def test_the_head_of_an_ordinary_session_is_small(world: Worlds, api: str) -> None:
    """System text and tools of an ordinary session are 4,000 tokens at most."""
    async with world([say("Hello.")], api=api) as w:
        await w.session.run("Hi")

        (record,) = w.server.records
        assert len(record.json["tools"]) >= 16
        head = [block for block in record.request.blocks if block.role != "user"]
        assert len(head) >= 17
        web = [block for block in head if re.search(rb'"name":"Web(?:Fetch|Search)"', block.raw)]
        assert len(web) == 1
        assert sum(block.tokens for block in web) <= WEB
        head = [block for block in head if block not in web]
        assert sum(block.tokens for block in head) <= HEAD


@pytest.mark.spec("F9")
@pytest.mark.parametrize("dispatch", ["keep", "drop"])
@pytest.mark.parametrize("api", APIS)
async def test_a_fork_writes_little_beside_its_directive(
    world: Worlds, api: str, dispatch: str
) -> None:
    """What a fork's first request has of its own is its directive and 200 tokens at most."""
    settings = f'{{"fork": {{"dispatch": "{dispatch}"}}}}'
    async with world(
        split(forks(*PARTS)), api=api, settings=settings, mode="bypassPermissions"
    ) as w:
        await w.session.run("Go")

        one, two = (first_request(w.server.records, part) for part in PARTS)
        pairs = zip(one.blocks, two.blocks, strict=False)
        shared = len(list(takewhile(lambda pair: pair[0].raw == pair[1].raw, pairs)))
        for request, part in ((one, PARTS[0]), (two, PARTS[1])):
            own = sum(block.tokens for block in request.blocks[shared:])
            assert own - (len(part) + 3) // 4 <= FRAME


@pytest.mark.spec("F4", "F9")
async def test_the_placeholder_is_true_of_calls_that_are_no_forks(world: Worlds) -> None:
    """A fork reads the same constant of a write in the dispatching reply as of the fork itself.

    It says that it stands in for an outcome, not that anything was started in the background, and
    the protocol says so too.
    """
    agent = ("Agent", {"description": "a part", "prompt": PARTS[0]})
    script = split(calls(("Write", {"file_path": "made.txt", "content": "x"}), agent))
    options = {"settings": '{"fork": {"dispatch": "keep"}}', "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run("Go")

        child = next(r for r in w.server.records if b"Directive:" in r.body)
        results = [
            block["content"][0]["text"]
            for message in child.json["messages"]
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        assert results == [PLACEHOLDER] * 2
        assert "stands in" in PLACEHOLDER
        assert not PLACEHOLDER.startswith("Started")
        # The protocol names what the placeholder begins with.
        said = child.request.last_text
        assert '"Dispatched" are stand-ins' in said
        assert PLACEHOLDER.startswith("Dispatched")


async def test_a_call_beside_a_fork_has_its_own_result_for_the_parent(world: Worlds) -> None:
    """The parent reads what the write gave; only forks see the stand-in for it."""
    agent = ("Agent", {"description": "a part", "prompt": PARTS[0]})
    script = split(
        calls(("Write", {"file_path": "made.txt", "content": "x"}), agent),
        call("Read", {"file_path": "made.txt"}),
    )
    options = {"settings": '{"fork": {"dispatch": "keep"}}', "mode": "bypassPermissions"}
    async with world(script, **options) as w:
        await w.session.run("Go")

        parent = next(r for r in w.server.records[1:] if b"Directive:" not in r.body)
        (told,) = [
            block["content"][0]["text"]
            for message in parent.json["messages"]
            for block in message["content"]
            if block["type"] == "tool_result" and block["content"][0]["text"] != PLACEHOLDER
        ]
        assert "made.txt" in told
