"""Recorded-style responses of OpenAI's APIs, and of servers that only resemble them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from prong.entry import Call, CallId, Reply, Usage
from prong.wire import (
    Began,
    CallBegan,
    CallPiece,
    Ended,
    TextPiece,
    ThinkingPiece,
    dialect,
)
from shared.stream import decode, ended, fault


@pytest.mark.spec("L9")
def test_responses_stream():
    """Reasoning, a message and a call, each taken as the server finished it."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}], "encrypted_content": "zzz"}  # fmt: skip
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}  # fmt: skip
    call = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "Read", "arguments": '{"a":1}'}  # fmt: skip
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {
            "cached_tokens": 60,
            "cache_write_tokens": 30,
            "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 20},
        },
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 109,
    }
    done = {
        "id": "resp_1",
        "model": "gpt",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": usage,
        "prompt_cache_diagnostics": {"type": "cache_hit"},
    }
    events = decode(
        "responses",
        {"type": "response.created", "response": {"id": "resp_1", "model": "gpt", "status": "in_progress", "usage": None}},
        {"type": "response.in_progress", "response": {"id": "resp_1", "model": "gpt"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "A"},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 1, "delta": "B"},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "Hi"},
        {"type": "response.output_item.added", "output_index": 2, "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": '{"a":1}'},
        {"type": "response.output_item.done", "output_index": 2, "item": call},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.novel", "x": 1},
        {"type": "response.completed", "response": done},
        "[DONE]",
    )  # fmt: skip
    assert events == snapshot(
        [
            Began(id="resp_1", model="gpt"),
            ThinkingPiece(text="A"),
            ThinkingPiece(text="\n\n"),
            ThinkingPiece(text="B"),
            TextPiece(text="Hi"),
            CallBegan(id=CallId("call_1"), name="Read"),
            CallPiece(id=CallId("call_1"), text='{"a":1}'),
            Ended(
                reply=Reply(
                    blocks=(
                        b'{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}], "encrypted_content": "zzz"}',
                        b'{"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}',
                        b'{"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "Read", "arguments": "{\\"a\\":1}"}',
                    ),
                    dialect="responses",
                    text="Hi",
                    thinking="A\n\nB",
                    calls=(Call(id=CallId("call_1"), name="Read", arguments='{"a":1}'),),
                    stop="calls",
                ),
                usage=Usage(
                    uncached=10,
                    read=60,
                    written_5m=0,
                    written_1h=0,
                    written_30m=10,
                    written_12h=20,
                    output=9,
                    reasoning=4,
                ),
                id="resp_1",
                model="gpt",
                diagnostics=b'{"type": "cache_hit"}',
                stop_detail="completed",
            ),
        ]
    )
    assert [json.loads(item) for item in ended(events).reply.blocks] == [reasoning, message, call]


@pytest.mark.parametrize(
    ("kind", "why", "stop"),
    [
        ("incomplete", "max_output_tokens", "length"),
        ("incomplete", "content_filter", "refusal"),
        ("incomplete", "steered", "other"),
        ("completed", None, "end"),
    ],
)
def test_responses_ends(kind: str, why: str | None, stop: str):
    """The end of a response in our words; without finished items its own list is taken."""
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi"}],
    }
    lost = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    last = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"}
    response = {
        "id": "r",
        "model": "m",
        "output": [lost, said, last],
        "incomplete_details": {"reason": why},
    }
    end = ended(decode("responses", {"type": f"response.{kind}", "response": response}))
    assert end.reply.stop == stop
    assert end.reply.text == "Hi"
    # Reasoning that nobody can resolve, or that led to nothing, would be refused.
    assert [json.loads(item) for item in end.reply.blocks] == [said]


def test_responses_refusal_and_whole_call():
    """A refusal is text and a stop; a call that came without deltas is announced all the same."""
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    call = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{"}
    response = {"id": "r", "model": "m", "status": "completed", "output": [refusal]}
    whole = dialect("responses").decoder().whole(json.dumps(response).encode())
    assert ended(whole).reply.stop == "refusal"
    assert TextPiece("No.") in whole
    done = {"type": "response.output_item.done", "output_index": 0, "item": call}
    events = decode("responses", done, {"type": "response.completed", "response": {"id": "r"}})
    assert CallBegan(CallId("c"), "n") in events
    assert ended(events).reply.calls == (Call(CallId("c"), "n", "{"),)


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {"id": "chatcmpl-1", "model": "gpt", "choices": [choice], **more}


def piece(
    index: int | None, call_id: str | None, name: str | None, said: Any, **more: Any
) -> dict[str, Any]:
    function = {
        key: value for key, value in (("name", name), ("arguments", said)) if value is not None
    }
    fields = {"index": index, "id": call_id, "function": function, **more}
    return {"tool_calls": [{key: value for key, value in fields.items() if value is not None}]}


@pytest.mark.spec("L9")
@pytest.mark.parametrize("speaker", [{}, {"x": "assistant"}, {"role": "user"}, {"role": ""}])
def test_a_message_without_its_speaker_is_said_anew(speaker: dict[str, str]):
    """What a server said without a role goes back as the assistant's: else the next is refused."""
    content = [{"type": "output_text", "text": "Hi", "annotations": []}]
    message = {"id": "msg_1", "type": "message", **speaker, "content": content}
    reply = ended(
        decode(
            "responses",
            {"type": "response.output_item.done", "output_index": 0, "item": message},
            {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
        )
    ).reply

    assert reply.text == "Hi"
    assert [json.loads(block)["role"] for block in reply.blocks] == ["assistant"]
    assert json.loads(reply.blocks[0])["content"] == content


@pytest.mark.spec("L9")
def test_chat_stream():
    """Text, thinking in two fields, two interleaved calls, usage behind the end."""
    events = decode(
        "chat",
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"reasoning_content": "hm", "reasoning": "hm"}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]}),
        chunk(
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "m", "index": 0, "signature": "s"}
                ]
            }
        ),
        chunk({"content": "Hi"}),
        chunk(piece(0, "call_a", "Read", "", type="function")),
        chunk(piece(1, "call_b", "Bash", "", type="function", extra_content={"google": {"s": 1}})),
        chunk(piece(0, None, None, '{"a":')),
        chunk(piece(1, None, None, "{}")),
        chunk(piece(0, None, None, "1}")),
        chunk({}, "tool_calls"),
        {
            "id": "chatcmpl-1",
            "choices": [],
            "usage": {
                "prompt_tokens": 50,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 15},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
        },
        "[DONE]",
    )
    assert events == snapshot(
        [
            Began(id="chatcmpl-1", model="gpt"),
            ThinkingPiece(text="hm"),
            TextPiece(text="Hi"),
            CallBegan(id=CallId("call_a"), name="Read"),
            CallBegan(id=CallId("call_b"), name="Bash"),
            CallPiece(id=CallId("call_a"), text='{"a":'),
            CallPiece(id=CallId("call_b"), text="{}"),
            CallPiece(id=CallId("call_a"), text="1}"),
            Ended(
                reply=Reply(
                    blocks=(
                        b'{"role":"assistant","content":"Hi","reasoning_content":"hm","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0,"signature":"s"}],"tool_calls":[{"id":"call_a","type":"function","function":{"name":"Read","arguments":"{\\"a\\":1}"}},{"id":"call_b","type":"function","function":{"name":"Bash","arguments":"{}"},"extra_content":{"google": {"s": 1}}}]}',
                    ),
                    dialect="chat",
                    text="Hi",
                    thinking="hm",
                    calls=(
                        Call(id=CallId("call_a"), name="Read", arguments='{"a":1}'),
                        Call(id=CallId("call_b"), name="Bash", arguments="{}"),
                    ),
                    stop="calls",
                ),
                usage=Usage(
                    uncached=5,
                    read=30,
                    written_5m=0,
                    written_1h=0,
                    written_30m=15,
                    written_12h=0,
                    output=7,
                    reasoning=2,
                ),
                id="chatcmpl-1",
                model="gpt",
                diagnostics=b"",
                stop_detail="tool_calls",
            ),
        ]
    )


ODD_CALLS = [
    pytest.param([piece(None, None, "a", "{}"), piece(None, None, "b", "{}")], [("call_0", "a", "{}"), ("call_1", "b", "{}")], id="no-index-no-id"),
    pytest.param([piece(0, "x", "a", "{}"), piece(0, "y", "b", "{}")], [("x", "a", "{}"), ("y", "b", "{}")], id="one-index-for-all"),
    pytest.param([piece(None, "x", "a", '{"k"'), piece(None, None, None, ":1}")], [("x", "a", '{"k":1}')], id="no-index"),
    pytest.param([piece(None, "x", "a", "{"), piece(None, "x", None, "}")], [("x", "a", "{}")], id="id-repeated"),
    pytest.param([piece(0, "x", "a", "{"), piece(0, "x", "a", "}")], [("x", "a", "{}")], id="name-repeated"),
    pytest.param([piece(0, "x", "a", {"k": [1]})], [("x", "a", '{"k": [1]}')], id="object-for-text"),
    pytest.param([piece(0, "x", None, "{"), piece(0, None, "a", "}")], [("x", "a", "{}")], id="name-late"),
    pytest.param([piece(0, "x", "a", "")], [("x", "a", "{}")], id="no-arguments"),
    pytest.param([piece(0, "x", "a", '{"k": tr')], [("x", "a", '{"k": tr')], id="cut-off"),
]  # fmt: skip


@pytest.mark.spec("L9")
@pytest.mark.parametrize(("deltas", "calls"), ODD_CALLS)
def test_calls_of_servers_that_only_resemble(
    deltas: list[dict[str, Any]], calls: list[tuple[str, str, str]]
):
    """Calls are told apart with or without index and id; what goes back is always an object."""
    events = decode("chat", *(chunk(delta) for delta in deltas), chunk({}, "stop"), "[DONE]")
    reply = ended(events).reply
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == calls
    assert [(e.id, e.name) for e in events if isinstance(e, CallBegan)] == [
        call[:2] for call in calls
    ]
    for call_id, _, said in calls:
        pieces = "".join(e.text for e in events if isinstance(e, CallPiece) and e.id == call_id)
        assert pieces in {said, ""}
    assert reply.stop == "calls"
    for sent in json.loads(reply.blocks[0])["tool_calls"]:
        assert isinstance(json.loads(sent["function"]["arguments"]), dict)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refusal"), ("novel", "other")],
)
def test_chat_ends(finish: str, stop: str):
    """A server that ends without [DONE] but with a reason has said all."""
    end = ended(decode("chat", chunk({"content": "Hi"}, finish)))
    assert (end.reply.stop, end.stop_detail) == (stop, finish)


@pytest.mark.spec("L10")
def test_chat_without_a_reason_is_torn():
    """Neither the end of the bytes nor [DONE] makes a reply whole that gave no reason."""
    assert fault(decode("chat", chunk({"content": "Hi"}))).kind == "truncated"
    assert fault(decode("chat", chunk({"content": "Hi"}), "[DONE]")).kind == "truncated"


def test_chat_whole_and_odd_content():
    """Not streamed, content as parts, usage inside the choice, nothing that cannot go back."""
    message = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hi"}],
        "annotations": [],
        "refusal": None,
        "reasoning": "hm",
    }
    body = {
        "id": "c",
        "model": "m",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
        ],
    }
    events = dialect("chat").decoder().whole(json.dumps(body).encode())
    assert events[:-1] == [Began("c", "m"), TextPiece("Hi"), ThinkingPiece("hm")]
    assert json.loads(ended(events).reply.blocks[0]) == {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "hm",
    }
    assert ended(events).usage == Usage(3, silent=True)


def test_an_empty_chat_reply_has_no_blocks():
    """A reply that says nothing is stored as nothing, and encoded as a constant."""
    end = ended(decode("chat", chunk({"content": "", "reasoning": "hm"}, "length")))
    assert end.reply.blocks == ()
    assert json.loads(dialect("chat").encode(end.reply).data)["content"] == "(empty)"
