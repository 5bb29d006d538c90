"""Complete request bodies of every dialect, from one table of cases."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot

from prong.entry import (
    Call,
    CallId,
    Entry,
    Image,
    Reply,
    Result,
    Results,
    Text,
    ToolSpec,
    User,
    role_of,
    user_text,
)
from prong.errors import UsageError
from prong.wire import NO_MARK, Anthropic, Chat, Dialect, HeadSpec, Responses, Tail, dialect

SPEC = HeadSpec(
    model="model-1",
    system=("You are Prong.", "", "Be brief."),
    tools=(
        ToolSpec(
            "Read", "Read a file.", msgspec.Raw(b'{"type":"object",\n "properties":{"path":{}}}')
        ),
        ToolSpec("Bash", "Run a command.", msgspec.Raw(b'{"type":"object"}')),
    ),
    effort="high",
    thinking=True,
    extra={"service_tier": "auto"},
    cache_key="family-1",
)
CASE: tuple[Entry, ...] = (
    User((Text("Look at this."), Text(" "), Image("image/png", "iVBORw0K"))),
    Reply(
        (),
        "elsewhere",
        text="Reading.",
        thinking="hm",
        calls=(
            Call(CallId("call.1"), "Read", '{"path":"é\\n","n":123456789012345678901234567890}'),
            Call(CallId("call_2"), "Bash", '{"command":"ls'),
        ),
    ),
    Results(
        (
            Result(CallId("call.1"), (Text("one"), Image("image/png", "AA=="))),
            Result(CallId("call_2"), (), failed=True),
        )
    ),
    User((Text("Do the parser."),), kind="directive"),
)
TAIL = Tail(previous_id="prev_1")


def body(
    vendor: Dialect,
    entries: Sequence[Entry],
    spec: HeadSpec,
    tail: Tail,
    marks: frozenset[int] = frozenset(),
) -> bytes:
    """Put a body together; marks go on the entries with these numbers, -1 is the head."""

    def piece(number: int, data: bytes, mark_at: int) -> bytes:
        if number not in marks or mark_at == NO_MARK:
            return data
        return data[:mark_at] + vendor.mark(None) + data[mark_at:]

    head = vendor.head(spec)
    out, before = piece(-1, head.data, head.mark_at), None
    for number, entry in enumerate(entries):
        encoded = vendor.encode(entry)
        out += vendor.glue(before, role_of(entry)) + piece(number, encoded.data, encoded.mark_at)
        before = role_of(entry)
    return out + vendor.close(before) + vendor.tail(tail)


def lines(data: bytes) -> str:
    """Break a body into lines where a value ends and another begins."""
    json.loads(data)
    return re.sub(r'(?<=[\]}]),(?=[{"])', ",\n", data.decode())


def marked(vendor: Dialect) -> str:
    return lines(body(vendor, CASE, SPEC, TAIL, frozenset({-1, 0, 1, 2})))


@pytest.mark.spec("L9")
def test_anthropic():
    """One message per role change, block arrays, marks on the last block that may carry one."""
    assert marked(Anthropic()) == snapshot("""\
{"model":"model-1","tools":[{"name":"Read","description":"Read a file.","input_schema":{"type":"object",  "properties":{"path":{}}}},
{"name":"Bash","description":"Run a command.","input_schema":{"type":"object"}}],
"system":[{"type":"text","text":"You are Prong."},
{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
"thinking":{"type":"adaptive"},
"output_config":{"effort":"high"},
"service_tier":"auto","messages":[{"role":"user","content":[{"type":"text","text":"Look at this."},
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"},
"cache_control":{"type":"ephemeral"}}]},
{"role":"assistant","content":[{"type":"text","text":"Reading."},
{"type":"tool_use","id":"call_1","name":"Read","input":{"path":"é\\n","n":123456789012345678901234567890}},
{"type":"tool_use","id":"call_2","name":"Bash","input":{"malformed":"{\\"command\\":\\"ls"},
"cache_control":{"type":"ephemeral"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"one"},
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
{"type":"tool_result","tool_use_id":"call_2","content":[{"type":"text","text":"(empty)"}],
"is_error":true,"cache_control":{"type":"ephemeral"}},
{"type":"text","text":"Do the parser."}]}],
"max_tokens":32000,"stream":true,"diagnostics":{"previous_message_id":"prev_1"}}\
""")


@pytest.mark.spec("L9")
def test_responses():
    """System texts in a developer message, every entry its own items, marks on input blocks."""
    assert marked(Responses()) == snapshot("""\
{"model":"model-1","tools":[{"type":"function","name":"Read","description":"Read a file.","parameters":{"type":"object",  "properties":{"path":{}}},
"strict":false},
{"type":"function","name":"Bash","description":"Run a command.","parameters":{"type":"object"},
"strict":false}],
"reasoning":{"effort":"high","summary":"auto"},
"store":false,"include":["reasoning.encrypted_content"],
"prompt_cache_key":"family-1","service_tier":"auto","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"You are Prong."},
{"type":"input_text","text":"Be brief.","prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"type":"message","role":"user","content":[{"type":"input_text","text":"Look at this."},
{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0K","prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"type":"message","role":"assistant","content":"Reading."},
{"type":"function_call","call_id":"call.1","name":"Read","arguments":"{\\"path\\":\\"é\\\\n\\",\\"n\\":123456789012345678901234567890}"},
{"type":"function_call","call_id":"call_2","name":"Bash","arguments":"{\\"command\\":\\"ls"},
{"type":"function_call_output","call_id":"call.1","output":[{"type":"input_text","text":"one"},
{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AA=="}]},
{"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"[failed]"},
{"type":"input_text","text":"(empty)","prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"type":"message","role":"user","content":[{"type":"input_text","text":"Do the parser."}]}],
"stream":true,"prompt_cache_options":{"comparison_response_id":"prev_1"}}\
""")


@pytest.mark.spec("L9")
def test_responses_for_models_without_marks():
    """Results are plain strings unless they hold pictures; no marks and no cache options."""
    assert marked(Responses(explicit=False)) == snapshot("""\
{"model":"model-1","tools":[{"type":"function","name":"Read","description":"Read a file.","parameters":{"type":"object",  "properties":{"path":{}}},
"strict":false},
{"type":"function","name":"Bash","description":"Run a command.","parameters":{"type":"object"},
"strict":false}],
"reasoning":{"effort":"high","summary":"auto"},
"store":false,"include":["reasoning.encrypted_content"],
"prompt_cache_key":"family-1","service_tier":"auto","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"You are Prong."},
{"type":"input_text","text":"Be brief."}]},
{"type":"message","role":"user","content":[{"type":"input_text","text":"Look at this."},
{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0K"}]},
{"type":"message","role":"assistant","content":"Reading."},
{"type":"function_call","call_id":"call.1","name":"Read","arguments":"{\\"path\\":\\"é\\\\n\\",\\"n\\":123456789012345678901234567890}"},
{"type":"function_call","call_id":"call_2","name":"Bash","arguments":"{\\"command\\":\\"ls"},
{"type":"function_call_output","call_id":"call.1","output":[{"type":"input_text","text":"one"},
{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AA=="}]},
{"type":"function_call_output","call_id":"call_2","output":"[failed]\\n(empty)"},
{"type":"message","role":"user","content":[{"type":"input_text","text":"Do the parser."}]}],
"stream":true}\
""")


@pytest.mark.spec("L9")
def test_chat():
    """Content as parts with marks; pictures of results follow in a user message."""
    assert marked(Chat()) == snapshot("""\
{"model":"model-1","tools":[{"type":"function","function":{"name":"Read","description":"Read a file.","parameters":{"type":"object",  "properties":{"path":{}}}}},
{"type":"function","function":{"name":"Bash","description":"Run a command.","parameters":{"type":"object"}}}],
"reasoning_effort":"high","prompt_cache_key":"family-1","service_tier":"auto","messages":[{"role":"system","content":[{"type":"text","text":"You are Prong."},
{"type":"text","text":"Be brief.","prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"role":"user","content":[{"type":"text","text":"Look at this."},
{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K"},
"prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"role":"assistant","content":"Reading.","tool_calls":[{"id":"call.1","type":"function","function":{"name":"Read","arguments":"{\\"path\\":\\"é\\\\n\\",\\"n\\":123456789012345678901234567890}"}},
{"id":"call_2","type":"function","function":{"name":"Bash","arguments":"{\\"malformed\\":\\"{\\\\\\"command\\\\\\":\\\\\\"ls\\"}"}}]},
{"role":"tool","tool_call_id":"call.1","content":[{"type":"text","text":"one"}]},
{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"[failed]"},
{"type":"text","text":"(empty)"}]},
{"role":"user","content":[{"type":"text","text":"Pictures from call call.1"},
{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="},
"prompt_cache_breakpoint":{"mode":"explicit"}}]},
{"role":"user","content":[{"type":"text","text":"Do the parser."}]}],
"stream":true,"stream_options":{"include_usage":true}}\
""")


@pytest.mark.spec("L9")
def test_chat_for_compatible_servers():
    """Text as plain strings, no marks, no fields that only OpenAI knows."""
    assert marked(Chat(explicit=False)) == snapshot("""\
{"model":"model-1","tools":[{"type":"function","function":{"name":"Read","description":"Read a file.","parameters":{"type":"object",  "properties":{"path":{}}}}},
{"type":"function","function":{"name":"Bash","description":"Run a command.","parameters":{"type":"object"}}}],
"reasoning_effort":"high","service_tier":"auto","messages":[{"role":"system","content":"You are Prong.\\n\\nBe brief."},
{"role":"user","content":[{"type":"text","text":"Look at this."},
{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K"}}]},
{"role":"assistant","content":"Reading.","tool_calls":[{"id":"call.1","type":"function","function":{"name":"Read","arguments":"{\\"path\\":\\"é\\\\n\\",\\"n\\":123456789012345678901234567890}"}},
{"id":"call_2","type":"function","function":{"name":"Bash","arguments":"{\\"malformed\\":\\"{\\\\\\"command\\\\\\":\\\\\\"ls\\"}"}}]},
{"role":"tool","tool_call_id":"call.1","content":"one"},
{"role":"tool","tool_call_id":"call_2","content":"[failed]\\n(empty)"},
{"role":"user","content":[{"type":"text","text":"Pictures from call call.1"},
{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},
{"role":"user","content":"Do the parser."}],
"stream":true,"stream_options":{"include_usage":true}}\
""")


TAILS = [
    Tail(),
    Tail(stream=False, max_tokens=7),
    Tail(prewarm=True, previous_id="p"),
    Tail(max_tokens=7, extra={"metadata": {"a": 1}, "prompt_cache_options": {"mode": "explicit"}}),
]


def tails(vendor: Dialect) -> list[str]:
    return [vendor.tail(tail).decode() for tail in TAILS]


def test_tails():
    """What stands behind the prompt: limits, streaming, a pre-warm and further fields."""
    assert tails(Anthropic()) == snapshot(
        [
            ',"max_tokens":32000,"stream":true}',
            ',"max_tokens":7}',
            ',"max_tokens":0,"diagnostics":{"previous_message_id":"p"}}',
            ',"max_tokens":7,"stream":true,"metadata":{"a":1},"prompt_cache_options":{"mode":"explicit"}}',
        ]
    )
    assert tails(Responses()) == snapshot(
        [
            ',"stream":true}',
            ',"max_output_tokens":7}',
            ',"prompt_cache_options":{"prewarm":true,"comparison_response_id":"p"}}',
            ',"stream":true,"max_output_tokens":7,"metadata":{"a":1},"prompt_cache_options":{"mode":"explicit"}}',
        ]
    )
    assert tails(Responses(explicit=False)) == snapshot(
        [
            ',"stream":true}',
            ',"max_output_tokens":7}',
            ',"max_output_tokens":16}',
            ',"stream":true,"max_output_tokens":7,"metadata":{"a":1},"prompt_cache_options":{"mode":"explicit"}}',
        ]
    )
    assert tails(Chat()) == snapshot(
        [
            ',"stream":true,"stream_options":{"include_usage":true}}',
            ',"max_completion_tokens":7}',
            ',"max_completion_tokens":1}',
            ',"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,"metadata":{"a":1},"prompt_cache_options":{"mode":"explicit"}}',
        ]
    )
    assert tails(Chat(explicit=False)) == snapshot(
        [
            ',"stream":true,"stream_options":{"include_usage":true}}',
            ',"max_tokens":7}',
            ',"max_tokens":1}',
            ',"stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"metadata":{"a":1},"prompt_cache_options":{"mode":"explicit"}}',
        ]
    )


HEADS: list[HeadSpec] = [
    HeadSpec(model="m"),
    HeadSpec(model="m", thinking=False),
    HeadSpec(model="m", thinking=2048, system=("S",)),
    HeadSpec(
        model="m",
        effort="low",
        extra={"output_config": {"format": 1}, "reasoning": {"mode": "pro"}},
    ),
]


def heads(vendor: Dialect) -> list[str]:
    return [vendor.head(spec).data.decode() for spec in HEADS]


def test_heads():
    """Thinking, effort and further fields; a further object is joined with ours."""
    assert heads(Anthropic()) == snapshot(
        [
            '{"model":"m","messages":[',
            '{"model":"m","thinking":{"type":"disabled"},"messages":[',
            '{"model":"m","system":[{"type":"text","text":"S"}],"thinking":{"type":"enabled","budget_tokens":2048},"messages":[',
            '{"model":"m","output_config":{"effort":"low","format":1},"reasoning":{"mode":"pro"},"messages":[',
        ]
    )
    assert heads(Responses()) == snapshot(
        [
            '{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[',
            '{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[',
            '{"model":"m","reasoning":{"summary":"auto"},"store":false,"include":["reasoning.encrypted_content"],"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"S"}]},',
            '{"model":"m","reasoning":{"effort":"low","summary":"auto","mode":"pro"},"store":false,"include":["reasoning.encrypted_content"],"output_config":{"format":1},"input":[',
        ]
    )
    assert heads(Chat(explicit=False)) == snapshot(
        [
            '{"model":"m","messages":[',
            '{"model":"m","messages":[',
            '{"model":"m","messages":[{"role":"system","content":"S"},',
            '{"model":"m","reasoning_effort":"low","output_config":{"format":1},"reasoning":{"mode":"pro"},"messages":[',
        ]
    )


@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])
def test_a_prompt_without_entries_is_a_valid_request(name: str):
    """The head alone can be sent, to warm it: the array of messages then holds a constant."""
    vendor = dialect(name)
    sent = json.loads(body(vendor, (), SPEC, Tail(prewarm=True)))
    said = (sent.get("messages") or sent["input"])[-1]
    assert said["role"] == "user"
    assert said["content"][0]["text"] == "(empty)"


def test_anthropic_marks_and_lifetimes():
    """A mark without a lifetime is the vendor's default; the vendors' lifetimes differ."""
    assert Anthropic().mark(None) == b',"cache_control":{"type":"ephemeral"}'
    assert Anthropic().mark("1h") == b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
    assert Responses().mark("12h") == b',"prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}'
    with pytest.raises(AssertionError):
        Anthropic().mark("30m")


def blocks(*values: dict[str, Any]) -> Reply:
    return Reply(tuple(msgspec.json.encode(value) for value in values), "anthropic")


THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
SAID = {"type": "text", "text": "x"}
CALL = {"type": "tool_use", "id": "a", "name": "n", "input": {}}
NOVEL = {"type": "novel", "text": None, "source": "odd"}


@pytest.mark.parametrize(
    ("reply", "marked_block", "positions"),
    [
        (blocks(SAID), 0, 1),
        (blocks(THOUGHT, SAID), 1, 2),
        (blocks(SAID, THOUGHT), 0, 2),
        (blocks(THOUGHT), None, 1),
        (blocks(THOUGHT, SAID, CALL, CALL, CALL), 4, 3),
        (blocks(CALL, SAID, CALL), 2, 3),
        (blocks(SAID, NOVEL), 0, 2),
        (blocks(), 0, 1),
    ],
)
def test_anthropic_mark_places_and_positions(
    reply: Reply, marked_block: int | None, positions: int
):
    """The mark goes on the last block that may carry one; a run of calls is one position."""
    vendor = Anthropic()
    encoded = vendor.encode(reply)
    assert encoded.positions == positions
    if marked_block is None:
        assert encoded.mark_at == NO_MARK
        return
    at = encoded.mark_at
    content = json.loads(b"[" + encoded.data[:at] + vendor.mark(None) + encoded.data[at:] + b"]")
    assert [i for i, block in enumerate(content) if "cache_control" in block] == [marked_block]


def test_a_run_of_results_is_one_position():
    """However many results an entry holds, they are one step of the cache's look-back."""
    many = Results(tuple(Result(CallId(f"c{n}"), (Text("x"),)) for n in range(9)))
    assert Anthropic().encode(many).positions == 1
    assert Anthropic().encode(User((Text("a"), Text("b")))).positions == 2


def test_text_that_is_not_unicode_is_repaired():
    """Lone surrogates, which a file name can bring, become replacement characters."""
    for name in ("anthropic", "responses", "chat"):
        data = dialect(name).encode(user_text("a\udc80b")).data
        assert "a\ufffdb" in data.decode()


def test_an_unknown_dialect_is_the_users_error():
    """A dialect that does not exist is refused with the ones that do."""
    with pytest.raises(UsageError, match="anthropic, responses, chat or gemini"):
        dialect("gopher")
