"""What the loopback server refuses, and what it says about parted prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.testing.cache import Cache
from prong.testing.check import check, check_fit
from prong.testing.diagnosis import anthropic_diagnosis, openai_diagnosis
from prong.testing.model import Model
from prong.testing.parse import parse
from prong.testing.request import Api, Refused, Request
from prong.testing.thought import check_thoughts, prefix_of, sign
from shared.ask import HELLO, RESULT, ask

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}],
}


def ask_openai(api: Api, **fields: Any) -> Request:
    return parse(api, json.dumps({"model": "gpt-6-sol"} | fields).encode(), {})


@pytest.mark.parametrize(
    ("messages", "fields", "message"),
    [
        ([HELLO], {"max_tokens": ...}, "max_tokens: Field required"),
        ([HELLO], {"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        ([HELLO], {"max_tokens": -1}, "greater than or equal to 0"),
        ([HELLO], {"temperature": 1.5}, "temperature: range: 0..1"),
        (
            [HELLO],
            {"temperature": 0.5, "thinking": {"type": "adaptive"}},
            "may only be set to 1 when thinking is enabled",
        ),
        ([HELLO], {"nonsense": 1}, "nonsense: Extra inputs are not permitted"),
        ([HELLO], {"context_management": {}}, "context_management: Extra inputs"),
        ([], {}, "at least one message is required"),
        ([CALL], {}, 'first message must use the "user" role'),
        ([{"role": "robot", "content": "x"}], {}, "messages.0.role: Input should be"),
        ([{"role": "user", "content": ""}], {}, "text content blocks must be non-empty"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], {}, "must be non-empty"),
        ([{"role": "user", "content": []}], {}, "all messages must have non-empty content"),
        ([HELLO, CALL], {}, "without `tool_result` blocks immediately after: t1"),
        ([HELLO, CALL, HELLO], {}, "without `tool_result` blocks immediately after: t1"),
        ([RESULT], {}, "unexpected `tool_use_id` found in `tool_result` blocks: t1"),
        (
            [HELLO, CALL, RESULT, HELLO, {"role": "assistant", "content": "a"}, RESULT],
            {},
            "unexpected `tool_use_id`",
        ),
        ([HELLO, CALL, RESULT, RESULT], {}, "each tool_use must have a single result"),
        ([HELLO, CALL, HELLO, RESULT], {}, "must come first"),
        (
            [HELLO, {"role": "assistant", "content": CALL["content"] * 2}, RESULT],
            {},
            "ids must be unique",
        ),
        ([HELLO], {"tools": [{"name": "A"}, {"name": "A"}]}, "Tool names must be unique"),
        ([HELLO], {"max_tokens": 0, "stream": True}, "max_tokens: 0 is not supported with stream"),
        (
            [HELLO],
            {"max_tokens": 0, "thinking": {"type": "enabled", "budget_tokens": 1}},
            "not supported with thinking",
        ),
        (
            [HELLO],
            {"max_tokens": 0, "tool_choice": {"type": "any"}},
            "not supported with tool_choice",
        ),
        (
            [HELLO],
            {"max_tokens": 0, "output_config": {"format": {}}},
            "not supported with output_config",
        ),
    ],
)
def test_anthropic_refuses(messages: list[Any], fields: dict[str, Any], message: str) -> None:
    """Each rule of the real API is an error 400 that names what is wrong."""
    with pytest.raises(Refused) as refused:
        check(ask(*messages, **fields))

    assert (refused.value.status, refused.value.kind) == (400, "invalid_request_error")
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([HELLO, CALL, RESULT], {}),
        ([HELLO, CALL, RESULT, HELLO], {}),
        ([HELLO, HELLO], {}),
        ([HELLO], {"max_tokens": 0, "thinking": {"type": "adaptive"}}),
        (
            [HELLO],
            {"context_management": {}, "headers": {"anthropic-beta": "context-management-1"}},
        ),
        ([HELLO, {"role": "system", "content": "new rule"}], {}),
    ],
)
def test_anthropic_accepts(messages: list[Any], fields: dict[str, Any]) -> None:
    """What the real API takes is not refused."""
    check(ask(*messages, **fields))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model":1}',
        b'{"model":"m"}',
        b'{"model":"m","messages":[1]}',
        b'{"model":"m","messages":[{"role":"user","content":[7]}]}',
        b'{"model":"m","messages":{}}',
    ],
)
def test_nonsense_is_refused(body: bytes) -> None:
    """A body of the wrong shape is an error 400, whatever is wrong with it."""
    for api in ("anthropic", "responses", "chat"):
        with pytest.raises(Refused) as refused:
            check(parse(api, body, {}))
        assert refused.value.status == 400


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "x", "text", "user", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "role",
                    "content",
                    "id",
                    "cache_control",
                    "ttl",
                    "output",
                    "tool_calls",
                    "call_id",
                    "prompt_cache_breakpoint",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)

names = ("system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "diagnostics", "instructions", "reasoning", "text", "prompt_cache_options", "stream_options", "include", "max_tokens", "response_format")  # fmt: skip

almost = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "developer"])},
    optional={
        "type": st.sampled_from(["message", "function_call", "function_call_output", 3, None]),
        "content": junk
        | st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(
                        ["text", "thinking", "tool_use", "tool_result", "image", 7]
                    )
                },
                optional={
                    "text": junk,
                    "id": junk,
                    "tool_use_id": junk,
                    "content": junk,
                    "signature": junk,
                    "cache_control": junk,
                },
            ),
            max_size=3,
        ),
        "tool_calls": junk,
        "tool_call_id": junk,
        "call_id": junk,
        "output": junk,
    },
)


@given(
    st.sampled_from(["anthropic", "responses", "chat"]),
    st.lists(almost | junk, max_size=3) | st.lists(almost, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(names), junk, max_size=2),
)
@settings(max_examples=400, deadline=None)
def test_junk_is_refused_and_never_a_crash(
    api: Api, items: list[Any], fields: dict[str, Any]
) -> None:
    """Whatever JSON arrives, it is answered or refused; nothing else can happen."""
    body = {"model": "m", "max_tokens": 1, "messages": items, "input": items} | fields
    if api == "anthropic":
        del body["input"]
    try:
        request = parse(api, json.dumps(body).encode(), {})
        check(request)
        plan = Cache().look(request, Model(minimum=0), 0)
        check_thoughts(request, bound=True)
    except Refused:
        return
    assert plan.usage.input == request.tokens
    assert isinstance(request.last_text, str)


FUNCTION: dict[str, Any] = {
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
}

OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "x"}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([OUTPUT], "No tool call found for function call output with call_id c1"),
        ([FUNCTION], "No tool output found for function call c1"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ],
)
def test_responses_refuses(items: list[Any], message: str) -> None:
    """Calls and their outputs must match."""
    check(ask_openai("responses", input=[FUNCTION, OUTPUT]))
    with pytest.raises(Refused, match=message):
        check(ask_openai("responses", input=items))


TOOL_CALL: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {}}],
}

TOOL: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "empty array"),
        ([TOOL], "must be a response to a preceding message with 'tool_calls'"),
        ([TOOL_CALL], "did not have response messages: c1"),
        ([TOOL_CALL, {"role": "user", "content": "x"}], "did not have response messages: c1"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ],
)
def test_chat_refuses(messages: list[Any], message: str) -> None:
    """Tool messages must follow the calls they answer."""
    check(ask_openai("chat", messages=[TOOL_CALL, TOOL]))
    with pytest.raises(Refused, match=message):
        check(ask_openai("chat", messages=messages))


@pytest.mark.parametrize(
    ("api", "fields", "message"),
    [
        ("responses", {"input": "x", "foo": 1}, "Unknown parameter: 'foo'"),
        ("responses", {"input": "x", "temperature": 3}, "Invalid 'temperature': 3"),
        ("responses", {"input": "x", "previous_response_id": "r"}, "Previous response not found"),
        (
            "responses",
            {"input": "x", "tools": [{"prompt_cache_breakpoint": {}}]},
            "tools.0.prompt_cache_breakpoint",
        ),
        (
            "chat",
            {"messages": [TOOL_CALL, TOOL], "foo": 1},
            "Unrecognized request argument supplied: foo",
        ),
    ],
)
def test_openai_refuses_strange_fields(api: Api, fields: dict[str, Any], message: str) -> None:
    """OpenAI's own models take no unknown fields; those of others do."""
    with pytest.raises(Refused, match=message):
        check(ask_openai(api, **fields))
    if "foo" in fields:
        check(ask_openai(api, **fields | {"model": "qwen"}))


def test_a_prompt_that_is_too_long_is_refused() -> None:
    """The message has the count and the limit."""
    with pytest.raises(Refused, match="prompt is too long: 11 tokens > 10 maximum"):
        check_fit(ask(HELLO), 11, 10)
    check_fit(ask(HELLO), 10, 10)


def test_changed_or_moved_thinking_is_refused() -> None:
    """A thought must come back as it was signed, and on binding models in its place."""

    def conversation(first: str, thinking: str, signature: str) -> Request:
        thought = {"type": "thinking", "thinking": thinking, "signature": signature}
        return ask({"role": "user", "content": first}, {"role": "assistant", "content": [thought]})

    signature = sign("thought", prefix_of(ask({"role": "user", "content": "q"})))

    check_thoughts(conversation("q", "thought", signature), bound=True)
    check_thoughts(conversation("other", "thought", signature), bound=False)
    check_thoughts(conversation("other", "thought", "foreign"), bound=True)
    with pytest.raises(Refused, match="Invalid `signature`"):
        check_thoughts(conversation("q", "thinking", signature), bound=False)
    with pytest.raises(Refused, match="prefix_binding_mismatch"):
        check_thoughts(conversation("other", "thought", signature), bound=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"model": "other"}, "model_changed"),
        ({"speed": "fast"}, "model_changed"),
        ({"tools": [{"name": "A"}, {"name": "B"}]}, "tools_changed"),
        ({"system": "other"}, "system_changed"),
        ({"tool_choice": {"type": "none"}}, "unavailable"),
        ({"messages": [RESULT]}, "messages_changed"),
        ({"messages": []}, "messages_changed"),
    ],
)
def test_anthropic_diagnosis(change: dict[str, Any], reason: str | None) -> None:
    """The first difference in structure is named, with the tokens that it costs."""
    base: dict[str, Any] = {"tools": [{"name": "A"}], "system": "system"}
    previous = ask(HELLO, **base)
    found = anthropic_diagnosis(
        previous, ask(HELLO, {"role": "assistant", "content": "a"}, **base | change)
    )

    assert (found and found["cache_miss_reason"]["type"]) == reason
    if reason and reason != "unavailable":
        assert found
        assert found["cache_miss_reason"]["cache_missed_input_tokens"] >= 0


def test_diagnosis_of_an_unknown_message() -> None:
    """An id that was never given out is said to be unknown."""
    assert anthropic_diagnosis(None, ask(HELLO)) == {
        "cache_miss_reason": {"type": "previous_message_not_found"}
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"model": "gpt-6-luna"}, "model_changed"),
        ({"prompt_cache_key": "b"}, "prompt_cache_key_changed"),
        ({"tools": []}, "tools_changed"),
        ({"reasoning": {"effort": "low"}}, "reasoning_effort_changed"),
        ({"text": {"verbosity": "low"}}, "verbosity_changed"),
        ({"text": {"format": {"type": "json_object"}}}, "text_format_changed"),
        ({"service_tier": "flex"}, "service_tier_changed"),
        ({"input": [FUNCTION, OUTPUT]}, "input_changed"),
    ],
)
def test_openai_diagnosis(change: dict[str, Any], reason: str | None) -> None:
    """The reason of a miss is one of the API's own words."""
    base: dict[str, Any] = {
        "prompt_cache_key": "a",
        "tools": [{"type": "function", "name": "f"}],
        "input": [{"role": "user", "content": "q"}],
    }
    previous = ask_openai("responses", **base)
    found = openai_diagnosis(previous, ask_openai("responses", **base | change), exact=True)

    assert found is not None
    assert found.get("reason") == reason
    assert found["type"] == ("cache_miss" if reason else "cache_hit")
