"""Mistakes by which tools that fork have lost the cache, each shown not to happen here.

The number in a test's id is the row of the list of such mistakes. All tests look at what the server
saw in one and the same story: a parent that works, forks twice, is asked on, and forks again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.testing import (
    Record,
    Script,
    World,
    call,
    calls,
    delay,
    forks,
    report,
    say,
    think,
    world,
)

LONG = "A line that says something about the project.\n" * 400
ECHO = call("Bash", {"command": "echo x"})
READ = call("Read", {"file_path": "a.txt"})
LEAD = "Do what follows with care, as one part of several, and report: "
PARTS = [f"Part {n}." for n in range(1, 9)]


def forked(w: World) -> list[list[Record]]:
    """Give the requests of each fork."""
    return [records for name, records in w.server.lineages().items() if name != "main"]


def everyone(w: World) -> list[Record]:
    return w.server.records


async def tell() -> World:
    """Play the story to its end; what the server saw can be looked at afterwards."""
    script = Script(
        [
            think("Hm.", then=READ),
            forks(*PARTS[:3]),
            say("waiting"),
            say("one done"),
            READ,
            calls(
                ("Bash", {"command": "echo here"}),
                ("Agent", {"description": "d", "prompt": PARTS[3]}),
            ),
            say("waiting"),
            say("two done"),
        ],
        {
            **{part: [think("So.", then=ECHO), READ, report()] for part in PARTS[:4]},
            PARTS[4]: [ECHO, report(), ECHO, report("more")],
        },
        forever=say("ok"),
    )
    async with world(
        script,
        files={"a.txt": LONG},
        thinking=True,
        effort="high",
        cache_ttl="1h",
        mode="bypassPermissions",
    ) as w:
        assert (await w.session.run("Go")).text == "one done"
        # Another day, another folder content: nothing of that may reach what was sent before.
        w.advance(1800)
        w.write("new.txt", "new")
        w.write("AGENTS.md", "Changed instructions.")
        assert (await w.session.run("Go on")).text == "two done"
        (task,) = await w.session.start_forks([LEAD + PARTS[4]])
        await w.session.wait_settled()
        await w.session.say("Once more.", to=task)
        await w.session.wait_settled()
        assert not w.parts.busy
    return w


@pytest.fixture(scope="module")
def w() -> World:
    return anyio.run(tell)


def no_session_in_the_prefix(w: World) -> None:
    for record in everyone(w):
        head = msgspec.json.encode([record.json["tools"], record.json["system"]]).decode()
        assert w.session.id not in head
        assert str(w.store) not in head


def waking_changes_nothing(w: World) -> None:
    (woken,) = [r for r in forked(w) if len(r) == 4]
    for before, after in pairwise(woken):
        assert after.usage.read >= before.usage.read + before.usage.written


def one_time_to_live(w: World) -> None:
    for record in everyone(w):
        assert set(re.findall(rb'"ephemeral"(,"ttl":"[^"]*")?', record.body)) == {b',"ttl":"1h"'}


def the_mark_is_at_the_very_end_of_what_is_shared(w: World) -> None:
    for records in forked(w):
        blocks = [b for m in records[0].json["messages"] for b in m["content"]]
        at = next(i for i, b in enumerate(blocks) if "forked worker" in str(b.get("text")))
        assert "cache_control" in blocks[at - 1]


def one_system_and_one_set_of_tools(w: World) -> None:
    for field in ("system", "tools", "tool_choice"):
        found = {
            re.sub(rb',"cache_control":\{[^}]*\}', b"", msgspec.json.encode(r.json.get(field)))
            for r in everyone(w)
        }
        assert len(found) == 1


def one_effort_and_thinking(w: World) -> None:
    for field in ("thinking", "output_config", "model", "temperature"):
        assert len({msgspec.json.encode(r.json.get(field)) for r in everyone(w)}) == 1
    assert len({r.headers.get("anthropic-beta") for r in everyone(w)}) == 1


def the_system_is_not_rendered_again(w: World) -> None:
    heads = {id(c.agent.conversation.prompt.head) for c in w.parts.supervisor.children}
    assert heads == {id(w.parts.agent.conversation.prompt.head)}
    assert not any(b"Changed instructions" in r.body for r in everyone(w))


def every_sub_agent_hits(w: World) -> None:
    assert all(records[0].usage.read > 4000 for records in forked(w))


def every_request_has_marks(w: World) -> None:
    assert all(b"cache_control" in r.body for r in everyone(w))


def no_clock_in_what_is_shared(w: World) -> None:
    for record in everyone(w):
        text = msgspec.json.encode([record.json["system"], record.json["tools"]]).decode()
        assert not re.search(r"\d\d:\d\d", text)
        assert not re.search(r"\b1[6-9]\d{8}\b", text)


def nothing_is_counted_per_request(w: World) -> None:
    heads = {r.body[: r.body.index(b'"messages":')] for r in everyone(w)}
    marked = {re.sub(rb',"cache_control":\{[^}]*\}', b"", head) for head in heads}
    assert len(marked) == 1


def a_new_file_changes_nothing(w: World) -> None:
    mine = w.server.lineages()["main"]
    assert all(b"new.txt" not in r.body for r in mine)
    for before, after in pairwise(mine):
        assert after.usage.read >= before.usage.read + before.usage.written


def content_is_always_an_array(w: World) -> None:
    for record in everyone(w):
        assert all(isinstance(m["content"], list) for m in record.json["messages"])
        assert isinstance(record.json["system"], list)


def every_mark_arrives(w: World) -> None:
    sent = {row.response_id: row.marks for row in w.parts.ledger.rows}
    for record in everyone(w):
        assert record.body.count(b'"cache_control"') == sent[record.message_id]


def never_five_marks(w: World) -> None:
    assert max(r.body.count(b'"cache_control"') for r in everyone(w)) <= 4


def no_mark_on_thinking(w: World) -> None:
    for record in everyone(w):
        for message in record.json["messages"]:
            for block in message["content"]:
                assert "cache_control" not in block or block["type"] != "thinking"


def history_is_never_rewritten(w: World) -> None:
    w.server.check_prefixes()


def tails_are_read_again(w: World) -> None:
    written = sum(r.usage.written for r in everyone(w))
    read = sum(r.usage.read for r in everyone(w))
    assert read > 10 * written / 2


MISTAKES: dict[str, Callable[[World], None]] = {
    "1 paths of the session in the prefix": no_session_in_the_prefix,
    "2 waking changes earlier messages": waking_changes_nothing,
    "3 forks cached for a shorter time": one_time_to_live,
    "4 the mark lies before the end": the_mark_is_at_the_very_end_of_what_is_shared,
    "6 a system prompt or tools of its own": one_system_and_one_set_of_tools,
    "7 another effort": one_effort_and_thinking,
    "8 the system prompt is rendered again": the_system_is_not_rendered_again,
    "9 an extra tool": one_system_and_one_set_of_tools,
    "10 every sub-agent starts at nothing": every_sub_agent_hits,
    "12 no marks at all": every_request_has_marks,
    "13 dated instructions": the_system_is_not_rendered_again,
    "15 a nonce in the first block": nothing_is_counted_per_request,
    "16 a header per turn in the system": nothing_is_counted_per_request,
    "17 the date changes in mid-session": nothing_is_counted_per_request,
    "18 a live listing of files": a_new_file_changes_nothing,
    "19 times to the second": no_clock_in_what_is_shared,
    "20 facts before the tools": nothing_is_counted_per_request,
    "21 tools removed for a step": one_system_and_one_set_of_tools,
    "22 another subset of tools": one_system_and_one_set_of_tools,
    "23 content flips between text and array": content_is_always_an_array,
    "24 marks dropped": every_mark_arrives,
    "25 marks lost in a rewrite": every_mark_arrives,
    "26 five marks": never_five_marks,
    "27 a mark on thinking": no_mark_on_thinking,
    "29 a changed first message": history_is_never_rewritten,
    "30 a tail that is written and never read": tails_are_read_again,
    "31 memory injected into the system": one_system_and_one_set_of_tools,
    "32 history trimmed": history_is_never_rewritten,
}


@pytest.mark.spec("F5", "F6", "F7")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_does_not_happen_here(w: World, mistake: str) -> None:
    """The story's requests are free of this mistake."""
    MISTAKES[mistake](w)


@pytest.mark.anyio
@pytest.mark.spec("F7")
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_5_one_cache_key_for_the_whole_family(api: str) -> None:
    """Forks, woken forks and their parent share the key of the session."""
    script = Script(
        [READ, forks(*PARTS[:3]), say("x"), say("done")], {p: [ECHO, report()] for p in PARTS}
    )
    options: dict[str, Any] = {"api": api, "model": "gpt-6.1-sol", "mode": "bypassPermissions"}
    options["settings"] = '{"cacheMarks": true}'
    async with world(script, files={"a.txt": LONG}, **options) as w:
        await w.session.run("Go")
        assert {r.json["prompt_cache_key"] for r in w.server.records} == {w.session.id}


@pytest.mark.anyio
@pytest.mark.spec("F15")
async def test_11_a_cold_fan_out_is_led() -> None:
    """Eight forks on a cold base write it once."""
    script = Script([say("Hello.")], {p: [delay(0.1, then=report())] for p in PARTS})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        w.advance(301)
        await w.session.fork(PARTS)
        firsts = [records[0].usage for records in forked(w)]
        assert sum(usage.written > 4000 for usage in firsts) == 1


@pytest.mark.anyio
@pytest.mark.spec("F7")
async def test_14_a_picture_does_not_drop_the_hits(tmp_path: Path) -> None:
    """A picture read by the parent is in every fork as well, so all of them still share."""
    from base64 import b64decode

    dot = b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    script = Script(
        [
            READ,
            call("Read", {"file_path": "dot.png"}),
            forks(*PARTS[:2]),
            say("x"),
            say("done"),
        ],
        {p: [ECHO, report()] for p in PARTS},
    )
    files = {"a.txt": LONG, "dot.png": dot}
    async with world(script, files=files, folder=tmp_path, mode="bypassPermissions") as w:
        await w.session.run("Go")
        parent = w.server.lineages()["main"][2]
        assert all(records[0].usage.read >= parent.usage.input for records in forked(w))


@pytest.mark.anyio
@pytest.mark.spec("F7")
async def test_28_a_turn_wider_than_the_look_back() -> None:
    """A reply with more positions than the look-back leaves the next request its cache."""
    from prong.testing import Step

    many = [p for n in range(30) for p in (*say(f"Now {n}.").parts, *ECHO.parts)]
    script = Script([READ, Step(tuple(many)), say("done")])
    async with world(script, files={"a.txt": LONG}, mode="bypassPermissions") as w:
        await w.session.run("Go")
        for before, after in pairwise(w.server.records):
            assert after.usage.read >= before.usage.read + before.usage.written
