"""The rules of the loopback server's prompt cache, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Usage
from prong.testing.model import Model, known
from prong.testing.parse import parse
from prong.testing.request import Refused, Request, count_bytes
from shared.cache import Bench

CLAUDE = "claude-sonnet-5-5"

OLD = "claude-haiku-4-5"


def text(value: str = "t" * 40, ttl: str | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": value}
    return block if ttl is None else block | {"cache_control": {"type": "ephemeral", "ttl": ttl}}


def marked(block: dict[str, Any], ttl: str = "5m") -> dict[str, Any]:
    return block | {"cache_control": {"type": "ephemeral", "ttl": ttl}}


def use(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {}}


def result(number: int) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x"}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def model_says(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def ask(*messages: dict[str, Any], model: str = CLAUDE, beta: str = "", **fields: Any) -> Request:
    body = {"model": model, "max_tokens": 10, "messages": list(messages), **fields}
    headers = {"anthropic-beta": beta} if beta else {}
    return parse("anthropic", json.dumps(body).encode(), headers)


def test_children_of_a_live_parent_read_all_but_their_directive() -> None:
    """A mark on the last shared block is written once; siblings read it and pay their own text."""
    bench = Bench()
    shared = (user(text()), model_says(text(), use(1)))
    bench.send(ask(user(marked(text()))))

    first = bench.send(ask(*shared, user(marked(result(1)), text("child one"))))
    second = bench.send(ask(*shared, user(marked(result(1)), text("child two"))))

    assert first.read > 0
    assert first.written_5m > 0
    assert second.written == 0
    assert second.read == first.read + first.written_5m
    assert second.uncached == first.uncached


def test_a_mark_on_the_directive_shares_nothing() -> None:
    """Entries are written at marks only: stable content before a mark is not cached by itself."""
    bench = Bench()
    bench.send(ask(user(text(), text("child one", "5m"))))

    usage = bench.send(ask(user(text(), text("child two", "5m"))))

    assert usage.read == 0


@pytest.mark.parametrize(("between", "hit"), [(19, True), (20, False)])
def test_look_back_is_twenty_positions(between: int, *, hit: bool) -> None:
    """An entry 19 positions before the mark is the 20th and found; one further is not."""
    bench = Bench()
    bench.send(ask(user(text("base", "5m"))))
    more = [text(f"block {i}") for i in range(between - 1)]

    usage = bench.send(ask(user(text("base"), *more, text("end", "5m"))))

    assert (usage.read > 0) is hit


@pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
def test_a_run_of_calls_or_results_is_one_position(kind: str) -> None:
    """Thirty parallel calls, or results, do not push an entry out of reach."""
    bench = Bench()
    bench.send(ask(user(text("base", "5m"))))
    calls = model_says(*(use(i) for i in range(30)))
    turns = (user(text("base")), calls, user(*(result(i) for i in range(30)), text("go", "5m")))
    if kind == "tool_use":
        turns = (user(text("base")), model_says(*(use(i) for i in range(29)), marked(use(29))))

    assert bench.send(ask(*turns)).read > 0


def test_each_mark_looks_back_by_itself() -> None:
    """A mark kept at the fork base finds its entry however far the tail has moved."""
    bench = Bench()
    bench.send(ask(user(text("base", "5m"))))
    tail = [text(f"block {i}") for i in range(50)]

    usage = bench.send(ask(user(text("base", "5m"), *tail, text("end", "5m"))))

    assert usage.read == count_bytes(json.dumps(text("base")).encode())


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-opus-5-5", 512),
        ("claude-sonnet-5-5", 512),
        ("claude-fable-5-1", 512),
        ("claude-sonnet-4-6", 1024),
        ("claude-sonnet-4-5-20250929", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-5", 4096),
        ("claude-haiku-4-5-20251001", 4096),
        ("someone-else", 1024),
    ],
)
def test_short_prompts_are_not_cached(model: str, minimum: int) -> None:
    """Below the model's minimum nothing is written, silently; at the minimum it is."""
    size = minimum * 4 - len(json.dumps(text("")))
    short = ask(user(text("x" * (size - 4), "5m")), model=model)
    enough = ask(user(text("x" * size, "5m")), model=model)
    bench = Bench(known(model))

    assert bench.send(short).written == 0
    assert bench.send(enough).written_5m == minimum


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_entries_expire(ttl: str, seconds: int) -> None:
    """An entry is read until its time has passed, not after."""
    for waited, hit in ((seconds - 1, True), (seconds, False)):
        bench = Bench()
        bench.send(ask(user(text("base", ttl))))
        bench.now += waited

        assert (bench.send(ask(user(text("base", ttl)))).read > 0) is hit


def test_a_read_renews_from_the_start_of_the_request() -> None:
    """Reading restarts the clock at the reader's start, not at its first byte."""
    bench = Bench()
    request = ask(user(text("base", "5m")))
    bench.send(request)
    bench.now = 200
    reading = bench.look(request)
    bench.now = 400
    bench.cache.begin(reading)

    bench.now = 499
    assert bench.look(request).usage.read > 0
    bench.now = 500
    assert bench.look(request).usage.read == 0


def test_an_entry_read_without_a_mark_on_it_is_renewed_too() -> None:
    """What a look-up finds on its way back lives on, whether or not a mark stands there."""
    bench = Bench()
    base = text("base")
    bench.send(ask(user(marked(base))))
    bench.now = 200
    bench.send(ask(user(base, text("one", "5m"))))
    bench.now = 400

    assert bench.look(ask(user(base, text("two", "5m")))).hit == 1


def test_what_a_message_says_besides_its_content_counts() -> None:
    """Two messages that differ in another member are different prompts."""
    bench = Bench()
    low = {"role": "system", "content": [text("s", "5m")], "output_config": {"effort": "low"}}
    bench.send(ask(user(text("q")), low))

    assert bench.look(ask(user(text("q")), low | {"output_config": {"effort": "max"}})).hit == 0
    assert bench.look(ask(user(text("q")), low)).hit == 2


def test_an_entry_in_flight_cannot_be_read() -> None:
    """Siblings sent before the first response begins each pay for the write."""
    bench = Bench()
    request = ask(user(text("base", "5m")))
    first = bench.look(request)
    second = bench.look(request)
    bench.cache.begin(first)

    assert second.usage.written_5m > 0
    assert bench.look(request).usage.read == first.usage.written_5m


def test_mixed_times_to_live_are_billed_apart() -> None:
    """Read up to the hit, long write to the last long mark, short write from there on."""
    bench = Bench()
    a, b, c, d = "a" * 40, "b" * 400, "c" * 4000, "d" * 80
    bench.send(ask(user(text(a, "1h"))))

    usage = bench.send(ask(user(text(a), text(b, "1h"), text(c, "5m"), text(d))))

    sizes = [count_bytes(json.dumps(text(x)).encode()) for x in (a, b, c, d)]
    assert [usage.read, usage.written_1h, usage.written_5m, usage.uncached] == sizes


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ask(user(*(text(str(i), "5m") for i in range(5)))), "A maximum of 4 blocks"),
        (ask(user(text("a", "5m"), text("b", "1h"))), "must not come after a ttl='5m'"),
        (ask(user(text("a", "2h"))), "Input should be '5m' or '1h'"),
        (ask(user(text("", "5m"))), "cannot be set for empty text"),
        (
            ask(
                user(text()),
                model_says(marked({"type": "thinking", "thinking": "x", "signature": "y"})),
            ),
            "thinking.cache_control: Extra inputs",
        ),
        (
            ask(
                user(*(text(str(i), "5m") for i in range(4)), text("z")),
                cache_control={"type": "ephemeral"},
            ),
            "A maximum of 4 blocks",
        ),
        (ask(user(text("a", "1h")), cache_control={"type": "ephemeral"}), "differs"),
    ],
)
def test_wrong_marks_are_refused(request_: Request, message: str) -> None:
    """Too many marks, the wrong order and marks in the wrong place are errors 400."""
    with pytest.raises(Refused, match=message) as refused:
        Bench().look(request_)

    assert refused.value.status == 400


def test_the_automatic_mark_stands_on_the_last_block_that_may_have_one() -> None:
    """A top-level `cache_control` writes at the end, past thinking, and is no second mark there."""
    bench = Bench()
    thought = {"type": "thinking", "thinking": "x", "signature": "y"}
    automatic = {"type": "ephemeral"}

    written = bench.send(
        ask(user(text("q")), model_says(text("a"), thought), cache_control=automatic)
    )
    same = Bench().send(ask(user(text("q", "5m")), cache_control=automatic))

    assert written.uncached == count_bytes(json.dumps(thought).encode())
    assert written.written_5m > 0
    assert same.uncached == 0


@pytest.mark.parametrize(
    ("change", "tools", "system"),
    [
        ({"model": "claude-opus-5-5"}, False, False),
        ({"tools": [marked({"name": "B", "input_schema": {}})]}, False, False),
        ({"beta": "x-1"}, False, False),
        ({"system": [text("other", "5m")]}, True, False),
        ({"speed": "fast"}, True, False),
        ({"tool_choice": {"type": "none"}}, True, True),
        ({"thinking": {"type": "adaptive"}}, True, True),
        ({"output_config": {"effort": "low"}}, True, True),
    ],
)
def test_settings_are_part_of_the_key_from_their_section_on(
    change: dict[str, Any], *, tools: bool, system: bool
) -> None:
    """What renders into the prompt invalidates from its own place on, and nothing before."""
    bench = Bench()
    base: dict[str, Any] = {
        "tools": [marked({"name": "A", "input_schema": {}})],
        "system": [text("system", "5m")],
    }
    bench.send(ask(user(text("hello", "5m")), **base))

    plan = bench.look(ask(user(text("hello", "5m")), **base | change))

    assert plan.hit == int(tools) + int(system)


def test_the_default_effort_is_the_same_said_or_not() -> None:
    """Setting the default explicitly, max_tokens, stream and metadata leave the key alone."""
    bench = Bench()
    bench.send(ask(user(text("hello", "5m"))))

    usage = bench.send(
        ask(
            user(text("hello", "5m")),
            output_config={"effort": "high"},
            max_tokens=77,
            stream=True,
            metadata={"user_id": "u"},
            stop_sequences=["x"],
        )
    )

    assert usage.read > 0


def test_a_first_picture_invalidates_the_messages() -> None:
    """Whether there is any picture is part of the key of the messages."""
    bench = Bench()
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
    }
    bench.send(ask(user(text("hello", "5m")), system=[text("s", "5m")]))

    plan = bench.look(ask(user(text("hello", "5m"), picture), system=[text("s", "5m")]))

    assert plan.hit == 1
    assert plan.usage.input > 1500


def test_string_and_array_content_differ() -> None:
    """The same text as a string and as a block are different bytes, hence a miss."""
    bench = Bench()
    bench.send(ask(user(text("hello")), model_says(text("a", "5m"))))

    usage = bench.send(ask({"role": "user", "content": "hello"}, model_says(text("a", "5m"))))

    assert usage.read == 0


def test_messages_of_one_role_are_one_turn() -> None:
    """Two user messages in a row, or one with both blocks, are the same prompt; roles are not."""
    bench = Bench()
    bench.send(ask(user(text("a")), user(text("b", "5m"))))

    assert bench.send(ask(user(text("a"), text("b", "5m")))).read > 0
    assert bench.send(ask(user(text("a")), model_says(text("b", "5m")))).read == 0


def test_plain_text_strips_earlier_thinking_on_old_models() -> None:
    """On last-turn-only models a directive after results loses the prefix from the thought on."""
    thought = {"type": "thinking", "thinking": "x" * 400, "signature": "y"}
    parent = (user(text("q", "5m")), model_says(thought, use(1)), user(marked(result(1))))
    child = (*parent[:2], user(result(1), text("directive", "5m")))

    plans: dict[str, tuple[Usage, Usage]] = {}
    for name in (OLD, CLAUDE):
        traits = known(name)
        bench = Bench(Model(minimum=0, keeps_thinking=traits.keeps_thinking))
        plans[name] = bench.send(ask(*parent, model=name)), bench.send(ask(*child, model=name))

    before, after = plans[CLAUDE]
    assert after.read == before.input
    before, after = plans[OLD]
    assert after.read == count_bytes(json.dumps(text("q")).encode())
    assert after.input < before.input


def test_marks_are_cut_out_exactly() -> None:
    """A mark anywhere in a block, with any spacing, leaves the bytes of the unmarked block."""
    plain = b'{"type": "text",  "text": "a \\" b" }'
    forms = [
        b'{"type": "text",  "text": "a \\" b", "cache_control": {"type":"ephemeral"} }',
        b'{"type": "text" ,"cache_control": {"type":"ephemeral"},  "text": "a \\" b" }',
        b'{"cache_control": {"type":"ephemeral"}, "type": "text",  "text": "a \\" b" }',
        b'{"type": "text",  "text": "a \\" b","cache_control":null }',
    ]
    body = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[%s]}]}'

    raws = {parse("anthropic", body % form, {}).blocks[0].raw for form in forms}

    assert raws == {plain}


def test_a_prewarm_writes_what_its_children_read() -> None:
    """The placeholder after the mark does not matter."""
    bench = Bench()
    bench.send(ask(user(text("shared", "5m"), text("placeholder")), max_tokens=0))

    usage = bench.send(ask(user(text("shared", "5m"), text("the real directive"))))

    assert usage.written == 0
    assert usage.read > 0


blocks = st.builds(
    text, st.sampled_from(["a", "bb" * 30, "c" * 300]), st.sampled_from([None, None, "5m"])
)

turns = st.lists(st.lists(blocks, min_size=1, max_size=4), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(turns, st.integers(0, 400), st.booleans()), max_size=8), st.integers(0, 60)
)
@settings(max_examples=150, deadline=None)
def test_every_token_is_paid_once(
    story: list[tuple[list[list[dict[str, Any]]], int, bool]], minimum: int
) -> None:
    """Read, written and uncached tokens always add up to the prompt; none is negative."""
    bench = Bench(Model(minimum=minimum))
    for given_turns, wait, begins in story:
        messages = [user(*t) if i % 2 == 0 else model_says(*t) for i, t in enumerate(given_turns)]
        bench.now += wait
        try:
            plan = bench.look(ask(*messages))
        except Refused:
            continue
        if begins:
            bench.cache.begin(plan)
        usage = plan.usage
        assert usage.uncached + usage.read + usage.written == sum(
            b.tokens for b in ask(*messages).blocks
        )
        assert min(usage.uncached, usage.read, usage.written_5m, usage.written_1h) >= 0
