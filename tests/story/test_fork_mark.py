"""Where cache marks stand in the requests of forks, and what they are worth."""

from __future__ import annotations

import itertools
import re
from typing import Any

import msgspec
import pytest

from prong.event import CacheMissed
from prong.testing import Record, Script, Step, Worlds, call, calls, forks, report, say, think

pytestmark = pytest.mark.anyio

LONG = "A line that says something about the project.\n" * 400
ECHO = call("Bash", {"command": "echo x"})


def _thirty() -> list[Step]:
    """Give thirty calls, no two of them alike."""
    return [call("Bash", {"command": f"echo {number}"}) for number in range(30)]


def marks(record: Record) -> list[dict[str, Any]]:
    """Give the marks of a request in order, less the one at the end of the head."""
    found: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if "cache_control" in value:
                found.append(value["cache_control"])
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(record.json)
    return found


def mark_before_directive(record: Record) -> bool:
    """Whether the last block before the directive carries a mark."""
    body = record.json
    blocks = [block for message in body["messages"] for block in message["content"]]
    at = next(i for i, b in enumerate(blocks) if "forked worker" in str(b.get("text", "")))
    return "cache_control" in blocks[at - 1]


@pytest.mark.spec("F7")
@pytest.mark.parametrize("dispatch", ["keep", "drop"])
async def test_the_base_mark_lives_as_long_as_the_child(world: Worlds, dispatch: str) -> None:
    """Through 30 turns each request has at most four marks, one of them on the base."""
    script = Script(
        [call("Read", {"file_path": "a.txt"}), forks("Part 1.", "Part 2."), say("x"), say("done")],
        {name: [*_thirty(), report()] for name in ("Part 1.", "Part 2.")},
    )
    settings = msgspec.json.encode({"fork": {"dispatch": dispatch}}).decode()
    options = {"mode": "bypassPermissions", "settings": settings}
    async with world(script, files={"a.txt": LONG}, **options) as w:
        assert (await w.session.run("Go")).text == "done"
        lineages = w.server.lineages()
        for receipt in w.session.receipts():
            requests = lineages[receipt.agent]
            assert len(requests) == 31
            for request in requests:
                assert 2 <= len(marks(request)) <= 4
                assert mark_before_directive(request)
            # Each request reads all that the one before it had in the cache.
            for before, after in itertools.pairwise(requests):
                assert after.usage.read == before.usage.read + before.usage.written
        assert not w.told(CacheMissed)


@pytest.mark.spec("F7", "F23")
@pytest.mark.parametrize("dispatch", ["keep", "drop"])
async def test_a_wide_fan_out_is_no_problem_for_the_parent(world: Worlds, dispatch: str) -> None:
    """After 64 calls with texts between them the parent still reads its whole cache."""
    parts = [f"Part {n}." for n in range(64)]
    wide = forks(*parts)
    # Texts between the calls keep them from counting as one position.
    mixed = Step(tuple(p for c in wide.parts for p in (*say("Next.").parts, c)))
    script = Script(
        [call("Read", {"file_path": "a.txt"}), mixed, say("x"), say("done")],
        {part: [report()] for part in parts},
    )
    settings = msgspec.json.encode({"fork": {"dispatch": dispatch}}).decode()
    options = {"mode": "bypassPermissions", "settings": settings}
    async with world(script, files={"a.txt": LONG}, **options) as w:
        assert (await w.session.run("Go")).text == "done"
        mine = w.server.lineages()["main"]
        for before, after in itertools.pairwise(mine):
            assert after.usage.read >= before.usage.read + before.usage.written
        assert {c.status for c in w.parts.supervisor.children} == {"completed"}
        assert not w.told(CacheMissed)


@pytest.mark.spec("F7")
async def test_forks_keep_the_parents_ttl(world: Worlds) -> None:
    """With an hour's time to live every mark of every request says an hour."""
    script = Script([forks("Part 1."), say("x"), say("done")], {"Part 1.": [ECHO, report()]})
    async with world(script, cache_ttl="1h", mode="bypassPermissions") as w:
        await w.session.run(f"Go {LONG}")
        found = {msgspec.json.encode(m) for r in w.server.records for m in marks(r)}
        assert found == {b'{"type":"ephemeral","ttl":"1h"}'}
        assert all(r.usage.written_5m == 0 for r in w.server.records)
        assert w.session.receipts()[0].read > 0


@pytest.mark.spec("F7", "F17")
async def test_a_prefix_that_is_too_short_says_so(world: Worlds) -> None:
    """Below the model's minimum nothing is cached, and the event says that this is why."""
    script = Script([forks("Part 1."), say("x"), say("done")], {"Part 1.": [report()]})
    options = {"tools": ("Agent",), "system": "Hi.", "model": "claude-haiku-4-5"}
    async with world(script, mode="bypassPermissions", **options) as w:
        await w.session.run("Go")
        (missed, *_) = w.told(CacheMissed)
        assert "shorter than the 4,096 tokens this model caches" in missed.why
        assert w.session.receipts()[0].read == 0
        assert w.session.receipts()[0].miss == missed.why


@pytest.mark.spec("F7", "F17")
@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("dispatch", ["keep", "drop"])
async def test_explicit_breakpoints(world: Worlds, api: str, dispatch: str) -> None:
    """OpenAI: a message of its own for the directive, a breakpoint before it, one key for all."""
    script = Script(
        [call("Read", {"file_path": "a.txt"}), forks("Part 1.", "Part 2."), say("x"), say("done")],
        {name: [ECHO, report()] for name in ("Part 1.", "Part 2.")},
    )
    settings = msgspec.json.encode({"fork": {"dispatch": dispatch}, "cacheMarks": True}).decode()
    options = {"api": api, "model": "gpt-6.1-sol", "settings": settings}
    async with world(script, files={"a.txt": LONG}, mode="bypassPermissions", **options) as w:
        assert (await w.session.run("Go")).text == "done"
        assert len({r.json["prompt_cache_key"] for r in w.server.records}) == 1
        lineages = w.server.lineages()
        for receipt in w.session.receipts():
            for request in lineages[receipt.agent]:
                items = request.json["input" if api == "responses" else "messages"]
                at = next(i for i, item in enumerate(items) if "forked worker" in str(item))
                assert items[at]["role"] == "user"
                assert len(items[at]["content"]) == 1
                shared = str(items[at - 1]) + str(items[at - 2])
                assert "prompt_cache_breakpoint" in shared
                assert str(request.json).count("prompt_cache_breakpoint") <= 4
            first = lineages[receipt.agent][0].body
            assert b"breakpoint" not in first[first.index(b"forked worker") :]
            assert receipt.read >= receipt.predicted_read > 4000
        assert not w.told(CacheMissed)
        if api == "responses":
            assert {r.diagnosis for r in w.session.receipts()} == {"cache hit"}


@pytest.mark.spec("F8")
async def test_a_directive_that_must_not_be_plain_text(world: Worlds) -> None:
    """On a model that would drop its thinking, the directive comes in a result and all is read."""
    script = Script(
        [
            think("Let me see.", then=call("Read", {"file_path": "a.txt"})),
            think("I split this.", then=forks("Part 1.", "Part 2.", "Part 3.")),
            think("Hm.", then=say("x")),
            say("done"),
        ],
        {name: [ECHO, ECHO, report()] for name in ("Part 1.", "Part 2.", "Part 3.")},
    )
    options = {"model": "claude-haiku-4-5", "thinking": 2000, "mode": "bypassPermissions"}
    async with world(script, files={"a.txt": LONG}, **options) as w:
        assert (await w.session.run("Go")).text == "done"
        receipts = w.session.receipts()
        assert len(receipts) == 3
        parent = w.server.lineages()["main"][1]
        for receipt in receipts:
            assert receipt.read >= parent.usage.input
            assert "in a result" in receipt.reason
            first = w.server.lineages()[receipt.agent][0].json
            last = first["messages"][-1]["content"]
            assert {block["type"] for block in last} == {"tool_result"}
            assert "forked worker" in str(last[-1])
            assert len(marks(w.server.lineages()[receipt.agent][1])) <= 4
        children = w.parts.supervisor.children
        assert len({id(c.account.fan.base) for c in children if c.account.fan}) == 1
        for child in children:
            assert child.account.fan is not None
            assert child.agent.conversation.prompt.extends(child.account.fan.base)
        assert not w.told(CacheMissed)


@pytest.mark.spec("F8", "F21")
async def test_a_hand_fork_that_must_miss_says_so(world: Worlds) -> None:
    """By hand there is no result to carry the directive: priced as a miss, and it says so."""
    script = Script(
        [think("Let me see.", then=call("Read", {"file_path": "a.txt"})), say("There.")],
        {"Part 1.": [report()], "Part 2.": [report()]},
    )
    options = {"model": "claude-haiku-4-5", "thinking": 2000, "mode": "bypassPermissions"}
    async with world(script, files={"a.txt": LONG}, **options) as w:
        await w.session.run("Go")
        results = await w.session.fork(["Part 1.", "Part 2."])
        leader, follower = (r.receipt for r in results)
        assert "drops earlier thinking" in leader.reason
        assert leader.predicted_read == 0
        assert leader.schedule == "leader"
        assert follower.read > leader.read
        assert not w.told(CacheMissed)


@pytest.mark.spec("F7")
async def test_marks_never_stand_on_thinking(world: Worlds) -> None:
    """Thinking at the end of what is shared leaves the mark on the block before it."""
    script = Script(
        [think("I split this.", then=forks("Part 1.")), think("Hm.", then=say("x")), say("done")],
        {"Part 1.": [think("Well.", then=ECHO), think("So.", then=report())]},
    )
    async with world(script, thinking=True, mode="bypassPermissions") as w:
        assert (await w.session.run(f"Go {LONG}")).text == "done"
        for record in w.server.records:
            assert record.status == 200
            assert not re.search(rb'"thinking"[^{}]*cache_control', record.body)


@pytest.mark.spec("F4")
async def test_mixed_calls_have_the_placeholder_in_every_child(world: Worlds) -> None:
    """Beside forks a reply may call other tools: children see a constant for each of them."""
    step = calls(
        ("Bash", {"command": "echo $((6 * 7077))"}),
        ("Agent", {"description": "d", "prompt": "Part 1."}),
        ("Agent", {"description": "d", "prompt": "Part 2."}),
    )
    script = Script([step, say("x"), say("done")], {"Part 1.": [report()], "Part 2.": [report()]})
    settings = msgspec.json.encode({"fork": {"dispatch": "keep"}}).decode()
    async with world(script, mode="bypassPermissions", settings=settings) as w:
        assert (await w.session.run(f"Go {LONG}")).text == "done"
        for receipt in w.session.receipts():
            body = w.server.lineages()[receipt.agent][0].body
            assert b"42462" not in body
            assert body.count(b"Dispatched. This stands in") == 3
        assert b"42462" in w.server.lineages()["main"][1].body
