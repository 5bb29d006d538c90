"""The prefix law, for every dialect and arbitrary entries."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Call, CallId, Entry, Image, Reply, Result, Results, Text, ToolSpec, User
from prong.prompt import Head, Mark, Prompt, first_difference, outline
from prong.wire import NO_MARK, HeadSpec, Tail, dialect

DIALECTS = [
    ("anthropic", True),
    ("responses", True),
    ("responses", False),
    ("chat", True),
    ("chat", False),
    ("claude-chat", True),
    ("gemini", False),
]

texts = st.text(max_size=40)
words = st.text("abcdefgh_", min_size=1, max_size=12)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
pictures = st.builds(
    Image, st.sampled_from(["image/png", "image/jpeg"]), st.sampled_from(["aGk=", "AAAA"])
)
parts = st.lists(st.one_of(st.builds(Text, texts), pictures), min_size=1, max_size=3).map(tuple)
kinds = st.sampled_from(["user", "notice", "directive", "summary", "reminder"])
users = st.builds(User, parts, kinds)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Entry]:
    """A reply of another vendor with calls, and their results."""
    numbers = range(draw(st.integers(0, 3)))
    calls = tuple(
        Call(
            CallId(f"c{n}"),
            draw(words),
            json.dumps(draw(objects), ensure_ascii=draw(st.booleans())),
        )
        for n in numbers
    )
    reply = Reply((), "elsewhere", draw(st.text(min_size=1, max_size=30)), "", calls)
    if not calls:
        return [reply]
    return [
        reply,
        Results(tuple(Result(call.id, draw(parts), draw(st.booleans())) for call in calls)),
    ]


@st.composite
def native(draw: st.DrawFn) -> list[Entry]:
    """A reply as Anthropic sends it: thinking with a signature, text, a call, an unknown block."""
    given_input = draw(objects)
    blocks = (
        msgspec.json.encode(
            {"type": "thinking", "thinking": draw(texts), "signature": draw(texts)}
        ),
        msgspec.json.encode({"type": "text", "text": draw(st.text(min_size=1, max_size=20))}),
        msgspec.json.encode({"type": "from_the_future", "data": draw(values)}),
        b'{"type":"tool_use","id":"n1","name":"Read","input":'
        + json.dumps(given_input).encode()
        + b"}",
    )
    call = Call(CallId("n1"), "Read", json.dumps(given_input))
    return [
        Reply(blocks, "anthropic", "t", "t", (call,), "calls"),
        Results((Result(CallId("n1"), draw(parts)),)),
    ]


def conversations() -> st.SearchStrategy[list[Entry]]:
    """Any sequence of turns that begins with the user."""
    turn = st.one_of(users.map(lambda user: [user]), exchanges(), native())
    return st.tuples(users, st.lists(turn, max_size=5)).map(
        lambda pair: [pair[0], *(e for t in pair[1] for e in t)]
    )


def make_head(name: str, *, explicit: bool) -> Head:
    spec = HeadSpec(
        model="m",
        system=("You are a test.",),
        tools=(ToolSpec("Read", "Reads.", msgspec.Raw(b'{"type":"object","properties":{}}')),),
        explicit_marks=explicit,
    )
    return Head(dialect(name, explicit=explicit), spec)


@pytest.mark.spec("F6")
@pytest.mark.parametrize(("name", "explicit"), DIALECTS)
@settings(max_examples=60, deadline=None)
@given(entries=conversations(), more=conversations())
def test_an_extension_starts_with_what_it_extends(
    name: str, explicit: bool, entries: list[Entry], more: list[Entry]
) -> None:
    """For every prompt p and extension q, the open bytes of q start with the open bytes of p."""
    prompt = Prompt(make_head(name, explicit=explicit))
    chain = [prompt]
    for entry in [*entries, *more]:
        chain.append(chain[-1].append(entry))
    opened = [p.open() for p in chain]
    for p, q, a, b in zip(chain, chain[1:], opened, opened[1:], strict=False):
        assert b.startswith(a)
        assert len(q) == len(b)
        assert q.extends(p)
        assert not p.extends(q) or a == b
        assert first_difference(p.body(), p.body(tail=Tail(max_tokens=7))) is None


@pytest.mark.spec("F4", "F6")
@pytest.mark.parametrize(("name", "explicit"), DIALECTS)
@settings(max_examples=40, deadline=None)
@given(entries=conversations(), more=conversations(), data=st.data())
def test_a_flat_prompt_changes_no_byte_of_any_request(
    name: str, explicit: bool, entries: list[Entry], more: list[Entry], data: st.DataObject
) -> None:
    """Whatever was flattened, a body is the same, wherever its marks are."""
    base = Prompt(make_head(name, explicit=explicit)).append(*entries)
    child, other = base.append(*more), base.append(*entries)
    longer = child.append(*more)
    everybody = (base, child, longer, other)
    places = [None, *longer.nodes(), *other.nodes()]
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=4, unique_by=id))
    marks = [Mark(node) for node in chosen]
    before = [(one.body(), one.body(marks), one.open()) for one in everybody]

    for flat in data.draw(st.permutations(everybody)):
        flat.flatten()
        assert [(one.body(), one.body(marks), one.open()) for one in everybody] == before
        assert base.head.flat is not None
        data.draw(st.sampled_from(everybody)).unflatten()
        assert [(one.body(), one.body(marks), one.open()) for one in everybody] == before
    for one in everybody:
        one.unflatten()
    assert base.head.flat is None


@pytest.mark.spec("F6", "F7")
@pytest.mark.parametrize(("name", "explicit"), DIALECTS)
@settings(max_examples=40, deadline=None)
@given(entries=conversations(), data=st.data())
def test_marks_never_touch_the_open_bytes(
    name: str, explicit: bool, entries: list[Entry], data: st.DataObject
) -> None:
    """A body with marks is valid JSON, and without the marks it is the body without them."""
    prompt = Prompt(make_head(name, explicit=explicit)).append(*entries)
    nodes = [node for node in prompt.nodes() if node.mark_at != NO_MARK]
    chosen = data.draw(st.lists(st.sampled_from(nodes), max_size=3, unique_by=id)) if nodes else []
    marks = [Mark(None), *(Mark(node) for node in chosen)]

    body = prompt.body(marks)

    json.loads(body)
    mark = prompt.head.dialect.mark(None)
    expected = len(chosen) + (prompt.head.mark_at != NO_MARK)
    assert len(body) == len(prompt.body()) + expected * len(mark)
    assert first_difference(body, prompt.body()) is None
    assert prompt.body().startswith(prompt.open())


@pytest.mark.spec("F6")
@pytest.mark.parametrize(("name", "explicit"), DIALECTS)
@settings(max_examples=30, deadline=None)
@given(entries=conversations(), left=texts, right=texts)
def test_siblings_part_exactly_where_their_last_entries_do(
    name: str, explicit: bool, entries: list[Entry], left: str, right: str
) -> None:
    """Two children of one prompt share all of it, and have one digest if and only if they are the same."""
    base = Prompt(make_head(name, explicit=explicit)).append(*entries)
    a = base.append(User((Text("L" + left),), "directive"))
    b = base.append(User((Text("L" + right),), "directive"))

    assert a.open()[: len(base)] == b.open()[: len(base)] == base.open()
    assert (a.digest == b.digest) == (left == right)
    assert a.tip is not None
    assert b.tip is not None
    assert a.tip.parent is b.tip.parent
    difference = first_difference(a.body(), b.body())
    assert (difference is None) == (left == right)
    if difference is not None:
        assert difference.section == "messages"


@pytest.mark.parametrize(("name", "explicit"), DIALECTS)
@settings(max_examples=30, deadline=None)
@given(entries=conversations())
def test_an_outline_has_a_line_for_each_entry(
    name: str, explicit: bool, entries: list[Entry]
) -> None:
    """The outline names every entry, whatever it holds."""
    prompt = Prompt(make_head(name, explicit=explicit)).append(*entries)

    assert len(outline(prompt).split("\n")) == len(entries) + 1
