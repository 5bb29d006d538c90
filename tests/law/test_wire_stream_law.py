"""Laws of the decoders: replies put together from streams cut, torn and damaged anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prong.entry import Reply
from prong.wire import (
    CallPiece,
    Dialect,
    Ended,
    Fault,
    TextPiece,
    ThinkingPiece,
    WireEvent,
    dialect,
    join_pieces,
)
from prong.wire.sse import Payload, Splitter
from shared.value import call_ids, compact, json_values, names, objects

any_solid = st.text(min_size=1, max_size=30).filter(lambda s: bool(s.strip()))


def anthropic_blocks() -> st.SearchStrategy[list[dict[str, Any]]]:
    thought = st.fixed_dictionaries(
        {
            "type": st.just("thinking"),
            "thinking": any_solid,
            "signature": st.text(min_size=1, max_size=12),
        }
    )
    redacted = st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": any_solid})
    text = st.fixed_dictionaries(
        {"type": st.just("text"), "text": any_solid},
        optional={"citations": st.lists(objects, max_size=2), "novel": json_values},
    )
    call = st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": call_ids, "name": names, "input": objects},
        optional={"caller": st.just({"type": "direct"})},
    )
    novel = objects.map(
        lambda o: {"type": "novel_block", **{k: v for k, v in o.items() if k != "type"}}
    )
    return st.tuples(
        st.lists(st.one_of(thought, redacted, text, call, novel), max_size=4),
        st.one_of(text, call),
    ).map(lambda pair: [*pair[0], pair[1]])


def responses_items() -> st.SearchStrategy[list[dict[str, Any]]]:
    thought = st.fixed_dictionaries(
        {
            "type": st.just("reasoning"),
            "id": names,
            "summary": st.lists(
                st.fixed_dictionaries({"type": st.just("summary_text"), "text": any_solid}),
                max_size=2,
            ),
            "encrypted_content": st.text(min_size=1, max_size=12),
        }
    )
    piece = st.fixed_dictionaries(
        {"type": st.just("output_text"), "text": any_solid, "annotations": st.just([])}
    )
    message = st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "id": names,
            "status": st.just("completed"),
            "role": st.just("assistant"),
            "content": st.lists(piece, min_size=1, max_size=2),
        },
        optional={"phase": st.just("commentary"), "novel": json_values},
    )
    call = st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "id": names,
            "call_id": call_ids,
            "name": names,
            "arguments": objects.map(lambda o: compact(o).decode()),
        }
    )
    novel = objects.map(lambda o: {**o, "type": "novel_call"})
    return st.tuples(
        st.lists(st.one_of(thought, message, call, novel), max_size=4), st.one_of(message, call)
    ).map(lambda pair: [*pair[0], pair[1]])


def chat_messages() -> st.SearchStrategy[list[dict[str, Any]]]:
    call = st.fixed_dictionaries(
        {
            "id": call_ids,
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": names, "arguments": objects.map(lambda o: compact(o).decode())}
            ),
        },
        optional={"extra_content": objects.filter(bool)},
    )
    return st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": any_solid},
        optional={
            "reasoning_content": any_solid,
            "novel": objects.filter(bool),
            "tool_calls": st.lists(call, min_size=1, max_size=3, unique_by=lambda c: str(c["id"])),
        },
    ).map(lambda message: [message])


def gemini_parts() -> st.SearchStrategy[list[dict[str, Any]]]:
    signed = {"thoughtSignature": st.text("abcdef0123456789", min_size=4, max_size=12)}
    thought = st.fixed_dictionaries({"text": any_solid, "thought": st.just(True)})
    text = st.fixed_dictionaries({"text": any_solid})
    last = st.fixed_dictionaries({"text": any_solid, **signed})
    given = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True)
    call: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {
            "functionCall": st.fixed_dictionaries({"name": names, "args": objects, "id": given}),
        },
        optional=signed,
    )
    novel = st.fixed_dictionaries({"executableCode": objects, "novel": json_values})
    calls = st.lists(call, max_size=3, unique_by=lambda c: str(c["functionCall"]["id"]))
    return st.tuples(
        st.lists(thought, max_size=1),
        st.lists(text, max_size=1),
        st.lists(novel, max_size=1),
        calls,
        st.lists(last, min_size=1, max_size=1),
    ).map(lambda groups: [part for group in groups for part in group])


NATIVE = {
    "anthropic": anthropic_blocks(),
    "responses": responses_items(),
    "chat": chat_messages(),
    "gemini": gemini_parts(),
}

CALLS = {"tool_use", "function_call"}

names_only = pytest.mark.parametrize("name", ["anthropic", "responses", "chat", "gemini"])


@pytest.mark.spec("L9")
@names_only
@given(data=st.data())
def test_a_reply_goes_back_as_it_came(name: str, data: st.DataObject):
    """A provider's own blocks come out of encode and read byte for byte, known kinds or not."""
    vendor = dialect(name)
    blocks = tuple(compact(block) for block in data.draw(NATIVE[vendor.name]))
    wire = vendor.encode(Reply(blocks, vendor.name)).data
    assert wire == b",".join(blocks)
    back = vendor.read("assistant", wire)
    assert isinstance(back, Reply)
    assert back.blocks == blocks
    assert vendor.encode(back).data == wire


def sse(events: Sequence[dict[str, Any]], end: str = "\n", *, named: bool = True) -> bytes:
    out: list[str] = []
    for event in events:
        if named and "type" in event:
            out.append(f"event: {event['type']}{end}")
        out.append(f"data: {compact(event).decode()}{end}{end}")
    return "".join(out).encode()


def chop(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def anthropic_stream(blocks: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    message = {
        "id": "msg_1",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        start, deltas = dict(block), list[dict[str, Any]]()
        if block["type"] == "text":
            start["text"] = ""
            deltas = [{"type": "text_delta", "text": t} for t in chop(block["text"], size)]
            if "citations" in block:
                start["citations"] = []
                deltas += [{"type": "citations_delta", "citation": c} for c in block["citations"]]
        elif block["type"] == "thinking":
            start |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": t} for t in chop(block["thinking"], size)
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "tool_use":
            start["input"] = {}
            said = json.dumps(block["input"], indent=1)
            deltas = [{"type": "input_json_delta", "partial_json": t} for t in chop(said, size)]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    done = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 9},
    }
    return [*events, done, {"type": "message_stop"}]


def responses_stream(items: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}
    ]
    for index, item in enumerate(items):
        start = {k: v for k, v in item.items() if k in {"type", "id", "call_id", "name"}}
        events.append({"type": "response.output_item.added", "output_index": index, "item": start})
        if item["type"] == "message":
            for n, piece in enumerate(item["content"]):
                events += [
                    {
                        "type": "response.output_text.delta",
                        "output_index": index,
                        "content_index": n,
                        "delta": t,
                    }
                    for t in chop(piece["text"], size)
                ]
        elif item["type"] == "function_call":
            events += [
                {
                    "type": "response.function_call_arguments.delta",
                    "output_index": index,
                    "delta": t,
                }
                for t in chop(item["arguments"], size)
            ]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    whole = {"id": "resp_1", "model": "m", "status": "completed", "output": items}
    return [*events, {"type": "response.completed", "response": whole}]


def chat_stream(messages: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    (message,) = messages
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for field, value in message.items():
        if field == "tool_calls":
            for n, call in enumerate(value):
                first = {**call, "index": n, "function": {**call["function"], "arguments": ""}}
                deltas.append({"tool_calls": [first]})
                deltas += [
                    {"tool_calls": [{"index": n, "function": {"arguments": t}}]}
                    for t in chop(call["function"]["arguments"], size)
                ]
        elif isinstance(value, str) and field != "role":
            deltas += [{field: t} for t in chop(value, size)]
        elif field != "role":
            deltas.append({field: value})
    head = {"id": "chatcmpl-1", "model": "m"}
    chunks: list[dict[str, Any]] = [{**head, "choices": [{"index": 0, "delta": d}]} for d in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return [*chunks, {**head, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]


def gemini_stream(parts: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    for part in parts:
        if "text" in part and "thoughtSignature" not in part:
            pieces += [{**part, "text": text} for text in chop(part["text"], size)]
        else:
            pieces.append(part)
    head = {"responseId": "r1", "modelVersion": "m"}
    chunks: list[dict[str, Any]] = [
        {**head, "candidates": [{"content": {"parts": [piece], "role": "model"}}]}
        for piece in pieces
    ]
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2}
    return [*chunks, {**head, "candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}]


STREAMS = {
    "anthropic": anthropic_stream,
    "responses": responses_stream,
    "chat": chat_stream,
    "gemini": gemini_stream,
}


def run(vendor: Dialect, pieces: Sequence[bytes]) -> list[WireEvent]:
    decoder = vendor.decoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@pytest.mark.spec("L9")
@names_only
@given(data=st.data(), size=st.integers(1, 7))
def test_a_streamed_reply_is_put_together_whole(name: str, data: st.DataObject, size: int):
    """Deltas give the blocks they were cut from, fields in order, and the pieces add up."""
    vendor = dialect(name)
    blocks = data.draw(NATIVE[name])
    ids = (
        [b.get("call_id") or b["id"] for b in blocks if b.get("type") in CALLS]
        if name != "chat"
        else []
    )
    assume(len(set(ids)) == len(ids))
    *events, last = run(vendor, [sse(STREAMS[name](blocks, size))])
    assert isinstance(last, Ended)
    assert not any(isinstance(event, Ended | Fault) for event in events)
    assert [json.loads(b) for b in last.reply.blocks] == blocks
    if name != "chat":
        assert [list(json.loads(b)) for b in last.reply.blocks] == [list(b) for b in blocks]
    assert "".join(e.text for e in events if isinstance(e, TextPiece)) == last.reply.text
    pieces = [event for event in events if isinstance(event, CallPiece)]
    said = [json.loads("".join(p.text for p in pieces if p.id == c.id)) for c in last.reply.calls]
    assert said == [json.loads(call.arguments) for call in last.reply.calls]
    back = vendor.read("assistant", vendor.encode(last.reply).data)
    assert back == last.reply


@pytest.mark.spec("L9")
@names_only
@given(
    data=st.data(),
    cuts=st.lists(st.integers(0, 4000), max_size=12),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.booleans(),
    named=st.booleans(),
)
def test_cutting_the_stream_changes_nothing(
    name: str, data: st.DataObject, cuts: list[int], end: str, bom: bool, named: bool
):
    """Bytes cut anywhere, any line end, with or without BOM, comments and names: the same events."""
    vendor = dialect(name)
    events = STREAMS[name](data.draw(NATIVE[name]), 4)
    plain = run(vendor, [sse(events)])
    wire = (
        (b"\xef\xbb\xbf" if bom else b"")
        + f": hello{end}{end}".encode()
        + sse(events, end, named=named)
    )
    points = [0, *sorted(min(c, len(wire)) for c in cuts), len(wire)]
    pieces = [wire[a:b] for a, b in pairwise(points)]
    assert run(vendor, pieces) == plain


_PIECES = st.one_of(
    st.builds(TextPiece, st.text(max_size=3)),
    st.builds(ThinkingPiece, st.text(max_size=3)),
    st.builds(CallPiece, call_ids, st.text(max_size=3)),
)


@pytest.mark.spec("L9")
@given(events=st.lists(_PIECES))
def test_pieces_that_come_together_are_one(events: list[WireEvent]):
    """There is one piece for each run of text or of thinking; nothing else changes."""
    joined = join_pieces(events)

    assert not any(type(a) is type(b) is not CallPiece for a, b in pairwise(joined))
    assert letters(joined) == letters(events)


def letters(events: Sequence[WireEvent]) -> list[object]:
    """Take texts apart: it does not matter in which pieces they came."""
    told: list[object] = []
    for event in events:
        if isinstance(event, TextPiece | ThinkingPiece):
            told += [(type(event), letter) for letter in event.text]
        else:
            told.append(event)
    return told


@pytest.mark.spec("L10")
@names_only
@given(data=st.data())
def test_a_torn_stream_is_a_fault_and_nothing_else(name: str, data: st.DataObject):
    """A stream that stops before its end gives exactly one fault that may be tried again."""
    vendor = dialect(name)
    events = STREAMS[name](data.draw(NATIVE[name]), 4)
    whole = sse(events)
    last = sse(events[-2:] if name == "chat" else events[-1:])
    at = data.draw(st.integers(0, len(whole) - len(last) - (1 if name == "chat" else 0)))
    seen = run(vendor, [whole[:at]])
    faults = [event for event in seen if isinstance(event, Fault)]
    assert [f.retryable for f in faults] == [True]
    assert seen[-1] == faults[0]
    assert not any(isinstance(event, Ended) for event in seen)


@pytest.mark.spec("L10")
@names_only
@given(data=st.data(), junk=st.binary(max_size=20))
def test_junk_never_escapes_as_an_exception(name: str, data: st.DataObject, junk: bytes):
    """Damaged bytes give events with at most one end, which is the last event."""
    vendor = dialect(name)
    whole = sse(STREAMS[name](data.draw(NATIVE[name]), 4))
    at = data.draw(st.integers(0, len(whole)))
    seen = run(vendor, [whole[:at] + junk + whole[at + len(junk) :]])
    ends = [event for event in seen if isinstance(event, Ended | Fault)]
    assert len(ends) == 1
    assert seen[-1] is ends[0]


@given(
    lines=st.lists(
        st.sampled_from(
            [
                b"data: a",
                b"data:b",
                b"data",
                b"event: e",
                b": c",
                b"id: 1",
                b"",
                b"",
                b"data:  x: y",
            ]
        )
    ),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_the_splitter_reads_what_the_standard_says(lines: list[bytes], cuts: list[int], end: bytes):
    """Payloads are those of a line-by-line reading, however the bytes are cut."""
    wire = b"".join(line + end for line in lines)
    expected: list[Payload] = []
    name, data = "", list[bytes]()
    for line in [*lines, b""]:
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if not line:
            if data:
                expected.append(Payload(name, b"\n".join(data)))
            name, data = "", []
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode()
    points = [0, *sorted(min(c, len(wire)) for c in cuts), len(wire)]
    splitter = Splitter()
    seen = [p for a, b in pairwise(points) for p in splitter.feed(wire[a:b])]
    assert seen + splitter.close() == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_survives_every_cut(end: bytes):
    """An event of several lines comes through whole for every pair of cuts."""
    wire = end.join(
        [b"\xef\xbb\xbfevent: e", b"data: a", b": note", b"data: b", b"", b"data: c", b"", b""]
    )
    for first in range(len(wire) + 1):
        for second in range(first, len(wire) + 1):
            splitter = Splitter()
            pieces = (wire[:first], wire[first:second], wire[second:])
            seen = [payload for piece in pieces for payload in splitter.feed(piece)]
            assert seen + splitter.close() == [Payload("e", b"a\nb"), Payload("", b"c")]
