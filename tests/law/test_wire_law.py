"""Laws of the dialects: what is written can be read, marked, closed and cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prong.entry import (
    Call,
    Entry,
    Image,
    Reply,
    Result,
    Results,
    Text,
    ToolSpec,
    User,
    role_of,
)
from prong.wire import NO_MARK, Dialect, HeadSpec, Tail, dialect
from shared.value import call_ids, compact, names, objects

DIALECTS = [
    pytest.param(dialect("anthropic"), id="anthropic"),
    pytest.param(dialect("responses"), id="responses"),
    pytest.param(dialect("responses", explicit=False), id="responses-plain"),
    pytest.param(dialect("chat"), id="chat"),
    pytest.param(dialect("chat", explicit=False), id="chat-plain"),
    pytest.param(dialect("claude-chat"), id="claude-chat"),
    pytest.param(dialect("gemini"), id="gemini"),
]

each_dialect = pytest.mark.parametrize("vendor", DIALECTS)

MARKS = {"cache_control", "prompt_cache_breakpoint"}

blank_free = st.text(min_size=1, max_size=30).filter(lambda s: bool(s.strip()) and s != "[failed]")

any_text = st.text(max_size=20) | st.sampled_from(
    ["\n", " ", "\u2028", "\x00", '"}],{', "\ud800", "é\r\n"]
)

images = st.builds(
    Image, st.sampled_from(["image/png", "image/webp"]), st.sampled_from(["AA==", "iVBORw0K"])
)


def wild_reply() -> st.SearchStrategy[Reply]:
    """Any reply that no dialect made, its arguments well-formed or not."""
    said = objects.map(lambda o: compact(o).decode()) | st.sampled_from(
        ["", "{", "[]", '{"a":"\n', "null"]
    )
    calls = st.builds(Call, call_ids, names, said)
    return st.builds(
        Reply,
        blocks=st.just(()),
        dialect=st.just("elsewhere"),
        text=any_text,
        thinking=any_text,
        calls=st.lists(calls, max_size=3).map(tuple),
    )


wild_parts = st.lists(st.builds(Text, any_text) | images, max_size=3).map(tuple)

wild_results = st.builds(Result, call_ids, wild_parts, st.booleans())

wild_entries = st.one_of(
    st.builds(User, wild_parts, st.sampled_from(["user", "notice", "directive"])),
    st.builds(Results, st.lists(wild_results, max_size=3).map(tuple)),
    wild_reply(),
)

conversations = st.lists(wild_entries, max_size=5)


def render(vendor: Dialect, entries: Sequence[Entry], spec: HeadSpec, tail: Tail) -> bytes:
    data, before = vendor.head(spec).data, None
    for entry in entries:
        data += vendor.glue(before, role_of(entry)) + vendor.encode(entry).data
        before = role_of(entry)
    return data + vendor.close(before) + vendor.tail(tail, spec)


def unmarked(value: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Take the marks out of a decoded body and give the blocks that carried them."""
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            if MARKS & node.keys():
                found.append(node)
            return {k: walk(v) for k, v in node.items() if k not in MARKS}
        return [walk(v) for v in node] if isinstance(node, list) else node

    return walk(value), found


heads = st.builds(
    HeadSpec,
    model=names,
    system=st.lists(any_text, max_size=2).map(tuple),
    tools=st.lists(
        st.builds(
            ToolSpec,
            names,
            any_text,
            objects.map(lambda o: msgspec.Raw(json.dumps(o, indent=1).encode())),
        ),
        max_size=2,
    ).map(tuple),
    effort=st.none() | st.just("high"),
    thinking=st.sampled_from([None, True, False, 2048]),
    extra=st.just({}) | st.just({"service_tier": "auto"}),
    cache_key=st.just("") | st.just("family"),
)

tails = st.builds(
    Tail,
    stream=st.booleans(),
    max_tokens=st.none() | st.integers(1, 9999),
    previous_id=st.none() | names,
    prewarm=st.booleans(),
)


@pytest.mark.spec("F6", "L9")
@each_dialect
@given(entries=conversations, spec=heads, tail=tails)
def test_every_prefix_of_a_conversation_is_a_body(
    vendor: Dialect, entries: list[Entry], spec: HeadSpec, tail: Tail
):
    """Any entries give one line of valid JSON at every length, and each extends the one before."""
    opened = vendor.head(spec).data
    before = None
    for count in range(len(entries) + 1):
        body = render(vendor, entries[:count], spec, tail)
        assert body.startswith(opened)
        assert b"\n" not in body
        assert b"\r" not in body
        # The one vendor whose requests name their model in the address alone.
        assert json.loads(body).get("model", "") == ("" if vendor.name == "gemini" else spec.model)
        if count < len(entries):
            role = role_of(entries[count])
            opened += vendor.glue(before, role) + vendor.encode(entries[count]).data
            before = role


@pytest.mark.spec("L9")
@each_dialect
@given(entry=wild_entries, spec=heads)
def test_a_mark_changes_nothing_but_itself(vendor: Dialect, entry: Entry, spec: HeadSpec):
    """A mark put in at its offset gives valid JSON that differs by one mark on one block."""
    for encoded, wrap in (
        (vendor.head(spec), lambda data: data + vendor.close(None) + vendor.tail(Tail())),
        (vendor.encode(entry), lambda data: b"[" + data + b"]"),
    ):
        if encoded.mark_at == NO_MARK:
            continue
        at = encoded.mark_at
        marked = encoded.data[:at] + vendor.mark(None) + encoded.data[at:]
        plain, blocks = unmarked(json.loads(wrap(marked)))
        assert plain == json.loads(wrap(encoded.data))
        assert len(blocks) == 1
        assert blocks[0].get("type") not in {"thinking", "redacted_thinking"}
        assert blocks[0].get("text", "solid").strip()


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])
@given(data=st.data())
def test_marks_stand_wherever_they_may(name: str, explicit: bool, data: st.DataObject):
    """User entries and results can be marked, except where the model knows no marks."""
    vendor = dialect(name, explicit=explicit)
    entry = data.draw(
        st.builds(User, wild_parts)
        | st.builds(Results, st.lists(wild_results, min_size=1, max_size=3).map(tuple))
    )
    can = explicit or name == "anthropic"
    assert (vendor.encode(entry).mark_at != NO_MARK) == can


solid_texts = st.lists(st.builds(Text, blank_free), min_size=1, max_size=3)

solid_parts = st.tuples(solid_texts, st.lists(images, max_size=2)).map(lambda p: (*p[0], *p[1]))

one_text = st.tuples(st.builds(Text, blank_free))


@each_dialect
@given(data=st.data())
def test_what_was_written_can_be_read(vendor: Dialect, data: st.DataObject):
    """Reading the bytes of a user entry or of results gives back an equal entry."""
    plain = getattr(vendor, "explicit", True) is False
    parts = data.draw(one_text if plain else solid_parts)
    ids = data.draw(st.lists(call_ids, min_size=1, max_size=3, unique=True))
    results = Results(tuple(Result(i, parts, data.draw(st.booleans())) for i in ids))
    for entry in (User(parts), results):
        assert vendor.read("user", vendor.encode(entry).data) == entry


@each_dialect
@given(reply=wild_reply())
def test_a_foreign_reply_keeps_its_text_and_calls(vendor: Dialect, reply: Reply):
    """Another dialect's reply is rendered from its text and calls; reading settles at once."""
    assume("\ud800" not in reply.text)
    wire = vendor.encode(reply).data
    back = vendor.read("assistant", wire)
    assert isinstance(back, Reply)
    assert vendor.encode(back).data == wire
    assert [(c.id, c.name) for c in back.calls] == [(c.id, c.name) for c in reply.calls]
    for ours, theirs in zip(back.calls, reply.calls, strict=True):
        if theirs.arguments.startswith("{") and theirs.arguments.endswith("}"):
            assert json.loads(ours.arguments) == json.loads(theirs.arguments)
    if reply.text.strip():
        assert back.text == reply.text
