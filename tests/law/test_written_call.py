"""Calls that a model wrote as text, and tools described in a line."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import Reply, ToolSpec
from prong.wire import dialect
from prong.wire.brief import readable
from prong.wire.chat import reply_of
from prong.wire.written import mended, written

NAMES = {"Read", "Bash"}
CALL = '{"name": "Read", "arguments": {"file_path": "a.txt"}}'
MEANT = [("Read", '{"file_path":"a.txt"}')]


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n  {CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"{{{CALL}}}",
        CALL.replace("{", "{{").replace("}", "}}"),
        CALL.replace("arguments", "parameters"),
        '{"name": "Read", "arguments": "{\\"file_path\\": \\"a.txt\\"}"}',
        f"[{CALL}]",
    ],
)
def test_a_call_written_as_text_is_read(text: str):
    """JSON, fenced, tagged, doubled or listed: it means the call."""
    assert written(text, NAMES) == MEANT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        f"I would call {CALL}",
        f"{CALL}\nThat is how.",
        CALL.replace("Read", "Unknown"),
        '{"name": "Read"',
        '{"name": "Read", "version": "1.0", "arguments": {}}',
        '{"name": "Read", "arguments": [1]}',
        '{"name": 1, "arguments": {}}',
        f"[{CALL}, 1]",
        f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
        "[" * 5_000 + '"name"',
        "```" + '"name"' + " " * 190_000 + "x",
        "{" * 190_000 + '"name"',
    ],
)
def test_anything_else_stays_text(text: str):
    """Prose around it, other tools, other fields, half a call: it is an answer."""
    assert written(text, NAMES) == []


@given(st.text())
def test_no_text_breaks_the_reader(text: str):
    """Whatever a model writes, reading it raises nothing."""
    assert written(f'{{"name"{text}', NAMES) == []


def reply(**fields) -> Reply:
    message = {"role": "assistant", "content": CALL, "odd": {"kept": 1}} | fields
    return reply_of(json.dumps(message, separators=(",", ":")).encode())


def test_the_message_keeps_what_came_and_gains_the_calls():
    """The stored bytes hold the text and every field as they came, and are read back as a call."""
    before = reply()
    after = mended(before, NAMES, "call_x")

    [call] = after.calls
    assert (call.id, call.name, call.arguments) == ("call_x_0", *MEANT[0])
    assert (after.text, after.stop) == (CALL, "calls")
    assert bytes(after.blocks[0]).startswith(bytes(before.blocks[0])[:-1])
    chat = dialect("chat")
    again = chat.read("assistant", chat.encode(after).data)
    assert isinstance(again, Reply)
    assert again.calls == after.calls


def test_only_a_whole_reply_without_calls_is_mended():
    """A reply that has calls, was cut off, or says something else stays the same object."""
    cut = msgspec.structs.replace(reply(), stop="length")
    made = mended(reply(), NAMES, "call_x")
    for one in (cut, made, reply(content="Hi.")):
        assert mended(one, NAMES, "call_y") is one


def test_tools_are_short_where_there_is_little_room():
    """Below four times their size tools become a line and what they need; above they are whole."""
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "x" * 500}, "limit": {}},
        "required": ["path"],
    }
    spec = ToolSpec("Read", "Reads a file. And much more. " * 40, msgspec.Raw(json.dumps(schema)))

    assert readable((spec,), None) == readable((spec,), 10_000) == (spec,)
    [short] = readable((spec,), 1_000)
    assert short.description == "Reads a file"
    assert json.loads(bytes(short.schema)) == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }
