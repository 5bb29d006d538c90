"""The rules of the loopback server's prompt cache for OpenAI's models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Usage
from prong.testing.cache import Cache
from prong.testing.model import Model, known
from prong.testing.parse import parse
from prong.testing.request import Request
from shared.cache import Bench

GPT = "gpt-6-sol"


def ask_openai(*items: dict[str, Any], **fields: Any) -> Request:
    body = {"model": GPT, "input": list(items), **fields}
    return parse("responses", json.dumps(body).encode(), {})


def message(value: str, role: str = "user", **mark: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "input_text", "text": value}
    if mark:
        part["prompt_cache_breakpoint"] = {"mode": "explicit", **mark}
    return {"type": "message", "role": role, "content": [part]}


def test_openai_implicit_entries_stand_at_the_end_of_messages() -> None:
    """The latest eligible message is written; a new message reads it, a longer one does not."""
    bench = Bench(Model(minimum=0))
    first = bench.send(ask_openai(message("a" * 80)))
    longer = message("a" * 80)
    longer["content"].append({"type": "input_text", "text": "b"})

    assert first.written_30m == first.input
    assert bench.look(ask_openai(longer)).usage.read == 0
    assert bench.look(ask_openai(message("a" * 80), message("b"))).usage.read == first.input


def test_openai_siblings_share_only_an_explicit_mark() -> None:
    """Implicit mode writes at each directive's end; an explicit mark on the shared block helps."""
    for mark, shared in (({}, False), ({"ttl": "30m"}, True)):
        bench = Bench(Model(minimum=0))
        prefix = {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "input_text",
                    "text": "p" * 80,
                    **({"prompt_cache_breakpoint": mark} if mark else {}),
                }
            ],
        }
        bench.send(ask_openai(prefix, message("one")))

        assert (bench.send(ask_openai(prefix, message("two"))).read > 0) is shared


def test_openai_explicit_mode_without_a_mark_caches_nothing() -> None:
    """Explicit mode turns the implicit breakpoint off."""
    bench = Bench(Model(minimum=0))
    request = ask_openai(message("a" * 80), prompt_cache_options={"mode": "explicit"})
    bench.send(request)

    assert bench.send(request) == Usage(uncached=request.tokens)


def test_openai_drops_the_earliest_of_too_many_marks() -> None:
    """Four writes at most: the fifth explicit mark from the end is not written."""
    bench = Bench(Model(minimum=0))
    items = [message(f"m{i}", ttl="30m") for i in range(5)]
    explicit = {"prompt_cache_options": {"mode": "explicit"}}
    bench.send(ask_openai(*items, **explicit))

    assert bench.look(ask_openai(items[0], **explicit)).usage.read == 0
    assert bench.look(ask_openai(*items[:2], **explicit)).usage.read > 0


def test_openai_implicit_mode_writes_three_marks_and_its_own() -> None:
    """The latest three explicit marks are written beside the end of the latest message."""
    bench = Bench(Model(minimum=0))
    items = [message(f"m{i}", "assistant", ttl="30m") for i in range(4)]
    bench.send(ask_openai(*items, message("question")))
    explicit = {"prompt_cache_options": {"mode": "explicit"}}

    found = [bench.look(ask_openai(*items[: n + 1], **explicit)).hit for n in range(4)]
    assert found == [0, 2, 3, 4]
    assert bench.look(ask_openai(*items, message("question"), message("more"))).hit == 5


def test_openai_message_boundaries_are_part_of_the_key() -> None:
    """Two messages are not one message with two parts."""
    bench = Bench(Model(minimum=0))
    both = message("a")
    both["content"] += message("b")["content"]
    bench.send(ask_openai(message("a"), message("b")))

    assert bench.look(ask_openai(both)).usage.read == 0


def test_openai_marks_only_the_last_of_a_group_of_outputs() -> None:
    """An output that is followed by another is no end at which an entry is looked for."""
    bench = Bench(Model(minimum=0))
    outputs = [{"type": "function_call_output", "call_id": c, "output": "x"} for c in "ab"]
    bench.send(ask_openai(message("q", "assistant"), outputs[0]))

    assert bench.look(ask_openai(message("q", "assistant"), *outputs)).usage.read == 0
    assert bench.look(ask_openai(message("q", "assistant"), outputs[0], message("q"))).hit == 2


@pytest.mark.parametrize(("ttl", "seconds"), [("30m", 1800), ("12h", 43200)])
def test_openai_lifetimes(ttl: str, seconds: int) -> None:
    """Entries live as long as asked for, and the write is counted under its lifetime."""
    bench = Bench(Model(minimum=0))
    request = ask_openai(message("a" * 80), prompt_cache_options={"ttl": ttl})
    usage = bench.send(request)

    assert {"30m": usage.written_30m, "12h": usage.written_12h}[ttl] == usage.input
    bench.now = seconds - 1
    assert bench.look(request).usage.read > 0
    bench.now = seconds
    assert bench.look(request).usage.read == 0


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_cache_key": "other"},
        {"reasoning": {"effort": "low"}},
        {"text": {"verbosity": "low"}},
        {"parallel_tool_calls": False},
        {"tools": [{"type": "function", "name": "f", "parameters": {}}]},
    ],
)
def test_openai_settings_separate(change: dict[str, Any]) -> None:
    """The key and whatever changes the prompt separate entries; tool_choice does not."""
    bench = Bench(Model(minimum=0))
    bench.send(ask_openai(message("a" * 80), prompt_cache_key="k"))

    assert (
        bench.look(ask_openai(message("a" * 80), **{"prompt_cache_key": "k"} | change)).usage.read
        == 0
    )
    assert (
        bench.look(
            ask_openai(message("a" * 80), prompt_cache_key="k", tool_choice="none")
        ).usage.read
        > 0
    )


def test_openai_minimum_is_1024() -> None:
    """Below 1,024 tokens nothing is written."""
    bench = Bench(known(GPT))

    assert bench.send(ask_openai(message("a" * 3900))).written == 0
    assert bench.send(ask_openai(message("a" * 4100))).written > 1024


def test_older_openai_models_cache_by_themselves_in_steps() -> None:
    """No marks and no write price; what is read is rounded down to 128 tokens."""
    model = "gpt-5.2"
    bench = Bench(known(model))
    first = bench.send(ask_openai(message("a" * 5000), model=model))
    second = bench.send(ask_openai(message("a" * 5000), message("b"), model=model))

    assert (first.written, first.read) == (0, 0)
    assert 1216 < first.input < 1280
    assert second.read == 1152
    bench.now = 601
    assert bench.look(ask_openai(message("a" * 5000), model=model)).usage.read == 0


items = st.lists(
    st.builds(
        message,
        st.sampled_from(["a", "b" * 90]),
        st.sampled_from(["user", "assistant", "developer"]),
    ),
    min_size=1,
    max_size=6,
)


@given(
    st.lists(
        st.tuples(
            items, st.sampled_from([GPT, "gpt-4.1"]), st.sampled_from(["implicit", "explicit"])
        ),
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_every_openai_token_is_paid_once(
    story: list[tuple[list[dict[str, Any]], str, str]],
) -> None:
    """The same law for both generations of OpenAI models."""
    cache, now = Cache(), 0.0
    for given_items, model, mode in story:
        request = ask_openai(*given_items, model=model, prompt_cache_options={"mode": mode})
        plan = cache.look(request, Model(minimum=0, exact=known(model).exact), now)
        cache.begin(plan)
        assert plan.usage.input == request.tokens
        assert min(plan.usage.uncached, plan.usage.read, plan.usage.written) >= 0
