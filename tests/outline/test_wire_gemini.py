"""The Gemini API by example: what is sent, and what its responses mean."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from prong.entry import (
    Call,
    CallId,
    Image,
    Reply,
    Result,
    Results,
    Text,
    ToolSpec,
    Usage,
    User,
    user_text,
)
from prong.errors import BadRequest, ContextOverflow, NoSuchModel, Unauthorised
from prong.prompt import Head, Prompt
from prong.provider import Endpoint
from prong.provider.failure import Refusal, mapped
from prong.wire import Began, CallBegan, CallPiece, Ended, Fault, HeadSpec, Tail, TextPiece, dialect
from prong.wire.fault import read_fault

pytestmark = pytest.mark.spec("L9")
GEMINI = dialect("gemini")
TOOL = ToolSpec("Read", "Reads.", msgspec.Raw(b'{"type":"object"}'))


def body(spec: HeadSpec, *entries: Any, tail: Tail | None = None) -> Any:
    return json.loads(Prompt(Head(GEMINI, spec)).append(*entries).body((), tail or Tail()))


def test_a_request():
    """System, tools, turns, calls and results stand where the API wants them."""
    call = (
        b'{"functionCall":{"name":"Read","args":{"path":"a"},"id":"x1"},"thoughtSignature":"c2ln"}'
    )
    reply = GEMINI.read("assistant", call)
    assert isinstance(reply, Reply)
    assert reply.calls == (Call(CallId("Read~x1"), "Read", '{"path":"a"}'),)
    spec = HeadSpec(model="gemini-3.8-flash", system=("Be brief.",), tools=(TOOL,))
    results = Results(
        (Result(reply.calls[0].id, (Text("no"), Image("image/png", "AA==")), failed=True),)
    )

    assert body(spec, user_text("Hi"), reply, results, user_text("Go on")) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "Read",
                        "description": "Reads.",
                        "parametersJsonSchema": {"type": "object"},
                    }
                ]
            }
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [json.loads(call)]},
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "x1",
                            "name": "Read",
                            "response": {"error": "no"},
                        }
                    },
                    {"text": "Pictures from call Read~x1"},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                    {"text": "Go on"},
                ],
            },
        ],
    }


def test_another_vendors_calls_are_taken_over():
    """They have no signature, so the vendor's word for that stands on the first of them."""
    calls = (Call(CallId("toolu_1"), "Read", "{}"), Call(CallId("toolu_2"), "Read", "{"))
    results = Results(tuple(Result(one.id, (Text("r"),)) for one in calls))
    sent = body(HeadSpec(model="m"), user_text("Hi"), Reply((), "anthropic", calls=calls), results)
    first, second = sent["contents"][1]["parts"]

    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second
    assert second["functionCall"]["args"] == {"malformed": "{"}
    ids = [part["functionResponse"]["id"] for part in sent["contents"][2]["parts"]]
    assert ids == [first["functionCall"]["id"], second["functionCall"]["id"]]


@pytest.mark.parametrize(
    ("spec", "tail", "config"),
    [
        ({"extra": {"temperature": 0.5, "seed": 3}}, {}, {"temperature": 0.5, "seed": 3}),
        ({}, {"max_tokens": 9}, {"maxOutputTokens": 9}),
        ({}, {"prewarm": True}, {"maxOutputTokens": 1}),
        ({"effort": "low"}, {}, {"thinkingConfig": {"thinkingLevel": "low"}}),
        ({"effort": "max"}, {}, {"thinkingConfig": {"thinkingLevel": "high"}}),
        ({"effort": "none"}, {}, {"thinkingConfig": {"thinkingLevel": "minimal"}}),
        ({"effort": "deep"}, {}, {"thinkingConfig": {"thinkingLevel": "deep"}}),
        ({"model": "gemini-2.5-pro", "effort": "deep"}, {"max_tokens": 9}, {"maxOutputTokens": 9}),
        ({"thinking": True}, {}, {"thinkingConfig": {"includeThoughts": True}}),
        ({"thinking": False}, {}, {"thinkingConfig": {"thinkingLevel": "minimal"}}),
        (
            {"thinking": 2000},
            {},
            {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000}},
        ),
        (
            {"model": "gemini-2.5-pro", "effort": "low"},
            {},
            {"thinkingConfig": {"thinkingBudget": 2048}},
        ),
        (
            {"model": "gemini-2.5-pro", "thinking": False},
            {},
            {"thinkingConfig": {"thinkingBudget": 0}},
        ),
    ],
)
def test_how_words_are_picked(spec: dict[str, Any], tail: dict[str, Any], config: dict[str, Any]):
    """All of it stands in one object behind the conversation."""
    given: dict[str, Any] = {"model": "gemini-4-argon", **spec}
    made = HeadSpec(**given)
    sent = body(made, user_text("Hi"), tail=Tail(**tail))

    assert sent["generationConfig"] == config
    assert list(sent)[-1] == "generationConfig"


def test_the_address_names_the_model():
    """A model's name is part of the path, and cannot lead to another."""
    path = GEMINI.path("gemini-3", stream=True)
    assert path == "/v1beta/models/gemini-3:streamGenerateContent?alt=sse"
    assert GEMINI.path("models/gemini-3", stream=False) == "/v1beta/models/gemini-3:generateContent"
    assert GEMINI.path("../x?y", stream=False) == "/v1beta/models/..%2Fx%3Fy:generateContent"


def events(*chunks: dict[str, Any]) -> list[Any]:
    decoder = GEMINI.decoder()
    data = b"".join(b"data: %s\r\n\r\n" % json.dumps(one).encode() for one in chunks)
    return [*decoder.feed(data), *decoder.close()]


def parts(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(given)}, "index": 0, **more}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-x"}


def test_a_reply_with_calls_that_have_no_ids():
    """Older models give none: each gets one that is its own, in what is sent back too."""
    call = {"functionCall": {"name": "Read", "args": {"path": "a"}}}
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
    }
    found = events(
        parts({"text": "I "}),
        parts({"text": "read."}, call, {"functionCall": {"name": "Glob"}}),
        {**parts(finishReason="STOP"), "usageMetadata": usage},
    )
    ended = found[-1]

    assert found[:3] == [Began("r1", "gemini-x"), TextPiece("I "), TextPiece("read.")]
    assert found[3:5] == [
        CallBegan(CallId("Read~r1.0"), "Read"),
        CallPiece(CallId("Read~r1.0"), '{"path": "a"}'),
    ]
    assert isinstance(ended, Ended)
    assert [call.id for call in ended.reply.calls] == ["Read~r1.0", "Glob~r1.1"]
    assert ended.reply.stop == "calls"
    assert ended.usage == Usage(uncached=40, read=60, output=12, reasoning=5)
    assert GEMINI.read("assistant", GEMINI.encode(ended.reply).data) == ended.reply


def test_signatures_stay_with_their_parts():
    """Texts are joined until one carries a signature, which stays the part that it is."""
    found = events(
        parts({"text": "th", "thought": True}, {"text": "ink", "thought": True}),
        parts({"text": "a"}, {"text": "b"}),
        parts({"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP"),
    )
    ended = found[-1]

    assert isinstance(ended, Ended)
    assert [json.loads(block) for block in ended.reply.blocks] == [
        {"text": "think", "thought": True},
        {"text": "ab"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    assert (ended.reply.text, ended.reply.thinking) == ("ab", "think")


@pytest.mark.parametrize(
    ("chunk", "stop"),
    [
        (parts({"text": "a"}, finishReason="MAX_TOKENS"), "length"),
        (parts({"text": "a"}, finishReason="SAFETY"), "refusal"),
        (parts({"text": "a"}, finishReason="MALFORMED_FUNCTION_CALL"), "other"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "refusal"),
    ],
)
def test_why_it_ends(chunk: dict[str, Any], stop: str):
    """A limit, a refusal of the reply or of the prompt, and what nobody foresaw."""
    ended = events(chunk)[-1]

    assert isinstance(ended, Ended)
    assert ended.reply.stop == stop


def test_a_stream_without_its_end_is_a_fault():
    """Nothing but the reason says that a reply is whole; an error within it is told as one."""
    torn = events(parts({"text": "a"}))[-1]
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    loaded = events(parts({"text": "a"}), error)[-1]

    assert isinstance(torn, Fault)
    assert isinstance(loaded, Fault)
    assert torn.retryable
    assert loaded.retryable


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"ok":true}', "no candidates, so it is none of this API"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"choices":[{"message":{"content":"Hi"}}]}', "no candidates, so it is none of this API"),
    ],
)
def test_a_reply_of_another_api_is_not_asked_for_again(body: bytes, says: str):
    """What lacks all that makes it a reply will be no other the next time."""
    fault = GEMINI.decoder().whole(body)[-1]

    assert isinstance(fault, Fault)
    assert says in fault.message
    assert not fault.retryable


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "API key not valid. Please pass a valid API key.", Unauthorised),
        (404, "models/gemini-9 is not found for API version v1beta", NoSuchModel),
        (
            400,
            "The input token count (1203344) exceeds the maximum number of tokens allowed (1048576).",
            ContextOverflow,
        ),
        (400, "Please use a valid role: user, model.", BadRequest),
    ],
)
def test_what_its_refusals_mean(status: int, message: str, kind: type[Exception]):
    """Each is the error that its remedy belongs to."""
    told = json.dumps([{"error": {"code": status, "message": message, "status": "X"}}]).encode()
    found, said = read_fault(status, told)
    endpoint = Endpoint(base_url="https://x.test", dialect="gemini")
    refusal = Refusal(kind=found, message=said, status=status)

    assert type(mapped(refusal, endpoint, "gemini-9")) is kind


def test_a_limit_says_when_to_come_again():
    """It does so in words, and they are kept to."""
    message = "You exceeded your current quota. Please retry in 34.07s."
    refusal = Refusal(kind="", message=message, status=429)
    error = mapped(refusal, Endpoint(base_url="https://x.test", dialect="gemini"), "gemini-9")

    assert error.retryable
    assert error.retry_after == pytest.approx(34.07)


def test_a_picture_of_the_user():
    """It stands inline, among the texts."""
    sent = body(HeadSpec(model="m"), User((Text("See:"), Image("image/png", "AA=="))))

    assert sent["contents"][0]["parts"][1] == {
        "inlineData": {"mimeType": "image/png", "data": "AA=="}
    }
