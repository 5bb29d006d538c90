"""Recorded-style responses of the Messages API, and faults in all dialects."""

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
from shared.stream import decode, ended, fault, sse


def started(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "claude", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def stopped(reason: str | None, *, details: Any = None, **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_details": details}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


@pytest.mark.spec("L9")
def test_anthropic_stream():
    """Thinking, text with a citation, a call and an unknown block; usage from start and end."""
    first = started(
        input_tokens=5,
        output_tokens=1,
        cache_read_input_tokens=100,
        cache_creation_input_tokens=30,
        cache_creation={"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    )
    first["message"]["diagnostics"] = {"cache_miss_reason": None}
    events = decode(
        "anthropic",
        first,
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "see."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(
            1,
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "Hi é"},
            {"type": "citations_delta", "citation": {"cited_text": "x"}},
        ),
        *block(
            2,
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "Read",
                "input": {},
                "caller": {"type": "direct"},
            },
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"path":'},
            {"type": "input_json_delta", "partial_json": '\n"a"}'},
        ),
        *block(
            3,
            {"type": "compaction", "content": None, "id": 7},
            {"type": "compaction_delta", "content": "sum"},
            {"type": "compaction_delta", "content": "mary"},
        ),
        *block(4, {"type": "text", "text": ""}),
        {"type": "novel_event", "payload": [1]},
        *stopped("tool_use", output_tokens=44, output_tokens_details={"thinking_tokens": 11}),
    )
    assert events == snapshot(
        [
            Began(
                id="msg_1",
                model="claude",
                usage=Usage(
                    uncached=5,
                    read=100,
                    written_5m=10,
                    written_1h=20,
                    written_30m=0,
                    written_12h=0,
                    output=1,
                    reasoning=0,
                ),
            ),
            ThinkingPiece(text="Let me "),
            ThinkingPiece(text="see."),
            TextPiece(text="Hi é"),
            CallBegan(id=CallId("toolu_1"), name="Read"),
            CallPiece(id=CallId("toolu_1"), text='{"path":'),
            CallPiece(id=CallId("toolu_1"), text='\n"a"}'),
            Ended(
                reply=Reply(
                    blocks=(
                        b'{"type":"thinking","thinking":"Let me see.","signature":"c2ln"}',
                        b'{"type":"text","text":"Hi \xc3\xa9","citations":[{"cited_text": "x"}]}',
                        b'{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path": "a"},"caller":{"type": "direct"}}',
                        b'{"type":"compaction","content":"summary","id":7}',
                    ),
                    dialect="anthropic",
                    text="Hi é",
                    thinking="Let me see.",
                    calls=(Call(id=CallId("toolu_1"), name="Read", arguments='{"path": "a"}'),),
                    stop="calls",
                ),
                usage=Usage(
                    uncached=5,
                    read=100,
                    written_5m=10,
                    written_1h=20,
                    written_30m=0,
                    written_12h=0,
                    output=44,
                    reasoning=11,
                ),
                id="msg_1",
                model="claude",
                diagnostics=b'{"cache_miss_reason": null}',
                stop_detail="tool_use",
            ),
        ]
    )


STOPS = [
    ("end_turn", "end"),
    ("stop_sequence", "end"),
    ("max_tokens", "length"),
    ("model_context_window_exceeded", "length"),
    ("refusal", "refusal"),
    ("pause_turn", "pause"),
    ("novel", "other"),
    (None, "end"),
]


@pytest.mark.parametrize(("reason", "stop"), STOPS)
def test_anthropic_stops(reason: str | None, stop: str):
    """Every reason has a word of ours, and the vendor's own is kept."""
    said = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x"})
    end = ended(decode("anthropic", started(), *said, *stopped(reason)))
    assert end.reply.stop == stop
    assert end.stop_detail == (reason or "")


@pytest.mark.spec("L10")
def test_a_refusal_is_explained():
    """The category and the explanation of a refusal reach the user."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    end = ended(decode("anthropic", started(), *stopped("refusal", details=details)))
    assert end.stop_detail == "refusal: cyber: No."
    assert end.reply.blocks == ()


USAGES = [
    (
        {"input_tokens": 3, "cache_creation_input_tokens": 8},
        {"output_tokens": 2},
        Usage(3, 0, 8, output=2),
    ),
    (
        {"input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 8}},
        {"output_tokens": 2},
        Usage(3, written_1h=8, output=2),
    ),
    (
        {"input_tokens": 3, "cache_read_input_tokens": 7},
        {"input_tokens": 5, "cache_read_input_tokens": None, "output_tokens": 2},
        Usage(5, 7, output=2),
    ),
    (
        {"cache_creation_input_tokens": 8, "cache_creation": {"ephemeral_1h_input_tokens": 8}},
        {"cache_creation_input_tokens": 10, "output_tokens": 1},
        Usage(0, 0, 2, 8, output=1),
    ),
]


@pytest.mark.spec("L9")
@pytest.mark.parametrize(("first", "last", "usage"), USAGES)
def test_anthropic_usage_is_merged(first: dict[str, Any], last: dict[str, Any], usage: Usage):
    """Counts are cumulative, absent ones stand, and writes without a lifetime are 5-minute ones."""
    assert ended(decode("anthropic", started(**first), *stopped("end_turn", **last))).usage == usage


@pytest.mark.spec("L10")
@pytest.mark.parametrize("said", ['{"path": "a', "[1]", '"x"', "nonsense"])
def test_anthropic_arguments_cut_off(said: str):
    """Malformed arguments are told as they came, while the block stays an object."""
    call = block(
        0,
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
        {"type": "input_json_delta", "partial_json": said},
    )
    reply = ended(decode("anthropic", started(), *call, *stopped("max_tokens"))).reply
    assert reply.stop == "length"
    assert reply.calls == (Call(CallId("toolu_1"), "Read", said),)
    assert json.loads(reply.blocks[0])["input"] == {"malformed": said}


def test_anthropic_call_without_arguments():
    """No argument text is an empty object; an id the API would refuse is made to fit."""
    call = block(0, {"type": "tool_use", "id": "functions.Read:0", "name": "Read", "input": {}})
    reply = ended(decode("anthropic", started(), *call, *stopped("end_turn"))).reply
    assert reply.calls == (Call(CallId("functions_Read_0"), "Read", "{}"),)
    assert reply.stop == "calls"
    assert json.loads(reply.blocks[0])["id"] == "functions_Read_0"


def test_anthropic_drops_what_may_not_be_sent_back():
    """Blank texts and thinking that led to nothing leave no block."""
    thought = block(
        0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "h"}
    )
    blank = block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "\n\n"})
    assert (
        ended(decode("anthropic", started(), *thought, *blank, *stopped("max_tokens"))).reply.blocks
        == ()
    )


@pytest.mark.spec("L9")
def test_anthropic_whole():
    """A response that was not streamed gives the same kinds of events."""
    body = {
        "type": "message",
        "id": "msg_2",
        "model": "claude",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"b": 1, "a": 2}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    events = dialect("anthropic").decoder().whole(json.dumps(body, indent=2).encode())
    assert events[:-1] == [
        Began("msg_2", "claude", Usage(uncached=1, output=2)),
        TextPiece("Hi"),
        CallBegan(CallId("t"), "Read"),
        CallPiece(CallId("t"), '{\n        "b": 1,\n        "a": 2\n      }'),
    ]
    reply = ended(events).reply
    assert reply.calls[0].arguments.split() == ["{", '"b":', "1,", '"a":', "2", "}"]
    assert not any(b"\n" in data for data in reply.blocks)


ERRORS = [
    ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, "overloaded_error", True),
    ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, "rate_limit_error", True),
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, "invalid_request_error", False),
    ("responses", {"type": "error", "code": "server_error", "message": "m"}, "server_error", True),
    ("responses", {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "m"}}, "rate_limit_exceeded", True),
    ("responses", {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}}, "server_error", True),
    ("responses", {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "m"}}}, "invalid_prompt", False),
    ("chat", {"error": {"message": "m", "type": "server_error"}}, "server_error", True),
    ("anthropic", {"error": {"type": "api_error", "message": "m"}}, "api_error", True),
    ("responses", {"error": {"type": "server_error", "message": "m"}}, "server_error", True),
    ("chat", {"error": {"message": "m", "code": 502}}, "error", True),
    ("chat", {"error": {"message": "m", "code": 400, "type": "BadRequestError"}}, "BadRequestError", False),
    ("chat", {"error": {"message": "m", "code": "insufficient_quota"}}, "insufficient_quota", False),
]  # fmt: skip


@pytest.mark.spec("L10")
@pytest.mark.parametrize(("name", "event", "kind", "retryable"), ERRORS)
def test_errors_inside_a_stream(name: str, event: dict[str, Any], kind: str, retryable: bool):
    """An error ends the stream: nothing behind it is heard, and it says whether to try again."""
    end = sse(*stopped("end_turn"), {"choices": [{"finish_reason": "stop"}]}, "[DONE]")
    decoder = dialect(name).decoder()
    events = decoder.feed(sse(event) + end)
    assert [(fault(events).kind, fault(events).retryable)] == [(kind, retryable)]
    assert decoder.feed(end) == []
    assert decoder.close() == []


@pytest.mark.spec("L10")
@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])
@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "nope",
        '{"type":1}',
        '{"choices":{},"index":"x"}',
        '{"choices":[{"index":[]}],"output_index":"x"}',
    ],
)
def test_malformed_events(name: str, data: str):
    """An event that is no JSON, or not of the promised shape, is a fault that may be tried again."""
    decoder = dialect(name).decoder()
    events = decoder.feed(sse(data, data)) + decoder.close()
    assert len(events) == 1
    assert fault(events).kind in {"malformed", "truncated"}
    assert fault(events).retryable


@pytest.mark.spec("L10")
def test_what_is_of_no_kind_is_malformed():
    """A block or an item without a type could never be sent back: the reply is broken."""
    nothing = {"x": "text", "text": "Hi"}
    opening = {"type": "content_block_start", "index": 0, "content_block": nothing}
    assert fault(decode("anthropic", started(), opening)).kind == "malformed"
    done = {"type": "response.output_item.done", "output_index": 0, "item": nothing}
    assert fault(decode("responses", done)).kind == "malformed"
    response = {"id": "r", "status": "completed", "output": [nothing]}
    late = {"type": "response.completed", "response": response}
    assert fault(decode("responses", late)).kind == "malformed"
    (event,) = dialect("responses").decoder().whole(json.dumps(response).encode())[-1:]
    assert fault([event]).kind == "malformed"


@pytest.mark.spec("L9")
def test_a_delta_for_nothing_is_malformed():
    """Deltas need their block or call."""
    delta = {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "text_delta", "text": "x"},
    }
    assert fault(decode("anthropic", started(), delta)).kind == "malformed"
    args = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{"}
    assert fault(decode("responses", args)).kind == "malformed"
    assert fault(decode("anthropic", {"type": "message_stop"})).kind == "malformed"


@pytest.mark.spec("L10")
@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])
def test_a_whole_that_is_none(name: str):
    """A body that is no reply is a fault."""
    for body in (b"", b"<html>", b"[1]", b'{"error":{"type":"api_error","message":"x"}}'):
        events = dialect(name).decoder().whole(body)
        assert len(events) == 1
        assert fault(events).retryable


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    ("name", "lacks"), [("anthropic", "content"), ("responses", "output"), ("chat", "choices")]
)
def test_a_whole_of_another_api(name: str, lacks: str):
    """What it lacks is said, or what it says itself; to ask again would bring the same."""
    said = {b'{"id":"x"}': f"the response has no {lacks}", b'{"detail":"no such route"}': "no such"}
    for body, message in said.items():
        (event,) = dialect(name).decoder().whole(body)
        assert fault([event]).message.startswith(message)
        assert not fault([event]).retryable


FAULTS = [
    (400, b'{"type":"error","error":{"type":"invalid_request_error","message":"too long"},"request_id":"r"}', ("invalid_request_error", "too long")),
    (404, b'{"error":{"message":"no model","type":"invalid_request_error","param":null,"code":"model_not_found"}}', ("model_not_found", "no model")),
    (400, b'{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}', ("BadRequestError", "bad")),
    (404, b'{"error":"model \'x\' not found"}', ("http_404", "model 'x' not found")),
    (422, b'{"detail":[{"loc":["body"],"msg":"field required"}]}', ("http_422", '[{"loc":["body"],"msg":"field required"}]')),
    (502, b"<html><head><title>502 Bad Gateway</title><style>a{}</style></head>\n<body><h1>Oh</h1></body></html>", ("http_502", "502 Bad Gateway Oh")),
    (503, b"", ("http_503", "no explanation was given")),
    (500, b"\xff\xfe" + b"x" * 999, ("http_500", "\ufffd\ufffd" + "x" * 198)),
]  # fmt: skip


@pytest.mark.spec("L10")
@pytest.mark.parametrize(("status", "body", "expected"), FAULTS)
def test_error_responses(status: int, body: bytes, expected: tuple[str, str]):
    """Both vendors' errors, other servers' and a gateway's page are read the same in all dialects."""
    for name in ("anthropic", "responses", "chat"):
        assert dialect(name).fault(status, body) == expected
