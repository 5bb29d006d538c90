"""What a call of the Agent tool means, what a fork's prompt is, how its report is read."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.agent.answer import unanswered
from prong.agent.compact import carried, cuts
from prong.agent.lineage import CONTAINED, MAX_DEPTH, ROOT, Lineage, contained, told_by
from prong.entry import Call, CallId, Entry, Reply, Result, Results, Text, ToolSpec, User, plain
from prong.event import MAIN
from prong.prompt import Head, Prompt
from prong.team import fork
from prong.team.route import ForkMode, ForkRoute, NoRoute, TypedRoute, route
from prong.tools.delegate import AgentArguments, AgentTool, PlainAgentArguments
from prong.tools.schema import schema
from prong.wire import HeadSpec, dialect

MODEL = "claude-sonnet-5-5"
DIALECTS = ["anthropic", "responses", "chat", "claude-chat", "gemini"]
ON, OFF = ForkMode(on=True), ForkMode(on=False, why_off="nobody answers")
TYPES = {"general-purpose", "Explore"}
LINEAGES = [
    ROOT,
    Lineage("typed", MAIN, 1),
    Lineage("typed", MAIN, MAX_DEPTH),
    Lineage("fork", MAIN, 1),
]


def asked(short: bool, **more: str | None) -> AgentArguments | PlainAgentArguments:
    kind = PlainAgentArguments if short else AgentArguments
    return msgspec.convert({"description": "d", "prompt": "p", **more}, kind)


@pytest.mark.spec("F1", "F2", "F3", "F5", "F10", "S5", "S10")
@pytest.mark.parametrize(
    ("wanted", "mode", "lineage", "model"),
    list(
        itertools.product(
            [None, "fork", "Explore", "general-purpose", "Nobody"],
            [ON, OFF],
            LINEAGES,
            [None, MODEL, "claude-haiku-5-5"],
        )
    ),
)
def test_the_whole_table(
    wanted: str | None, mode: ForkMode, lineage: Lineage, model: str | None
) -> None:
    """Every combination of type, mode, lineage and model has the one answer the rows give it."""
    args = asked(not mode.on, subagent_type=wanted, model=model)
    found = route(args, mode, lineage, TYPES, model=MODEL)

    if lineage.is_fork or lineage.depth >= MAX_DEPTH:
        assert isinstance(found, NoRoute)
    elif wanted == "Nobody":
        assert isinstance(found, NoRoute)
        assert "Explore, general-purpose" in found.why
    elif wanted in {"Explore", "general-purpose"}:
        assert found == TypedRoute(wanted)
    elif wanted is None and not mode.on:
        assert found == TypedRoute("general-purpose")
    elif not mode.on:
        assert isinstance(found, NoRoute)
        assert "nobody answers" in found.why
        assert "subagent_type" in found.why
    elif model not in {None, MODEL}:
        assert isinstance(found, NoRoute)
        assert "leave `model` out" in found.why
    else:
        assert found == ForkRoute()


@pytest.mark.spec("F12")
@pytest.mark.parametrize("name", ["a/b", "..", "", "x#2", "a b", "<x>", "a" * 65, "é"])
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    """A name becomes part of a path and of a notice, so only plain ones are taken."""
    found = route(asked(short=False, name=name), ON, ROOT, TYPES, model=MODEL)
    assert isinstance(found, NoRoute)
    assert "letters" in found.why


@pytest.mark.spec("F2", "F12")
def test_the_schema_follows_the_mode() -> None:
    """The schema shows run_in_background only while forks are off."""
    on = schema(AgentTool(forks=True).arguments)
    off = schema(AgentTool(forks=False).arguments)
    assert b"run_in_background" not in on
    assert b"run_in_background" in off
    assert b"fork" in on
    assert b"fork" not in off


@pytest.mark.spec("F10")
@pytest.mark.parametrize("tool", sorted(CONTAINED))
def test_every_delegating_tool_is_closed_to_forks(tool: str) -> None:
    """A fork is told that it is for good; the main agent may use the tool."""
    why = contained(Lineage("fork", MAIN, 1), tool)
    assert why is not None
    assert "permanent" in why
    assert contained(ROOT, tool) is None


words = st.text(min_size=1, max_size=20)
directives = words.filter(str.strip)
"""A blank one is refused before there is a fork."""
entries = st.lists(
    st.one_of(
        st.builds(lambda t: User((Text(t),)), words),
        st.builds(lambda t: User((Text(t),), "notice"), words),
        st.builds(lambda t: Reply((), "", text=t), words),
    ),
    max_size=6,
)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    count = draw(st.integers(1, 5))
    calls = tuple(
        Call(CallId(f"call_{n}"), "Agent", msgspec.json.encode({"prompt": draw(words)}).decode())
        for n in range(count)
    )
    return Reply((), "", text=draw(st.text(max_size=10)), calls=calls, stop="calls")


def started(name: str, explicit: bool) -> Prompt:
    tool = ToolSpec("Agent", "d", msgspec.Raw(b'{"type":"object"}'))
    spec = HeadSpec(model=MODEL, system=("s",), tools=(tool,), cache_key="k")
    return Prompt(Head(dialect(name, explicit=explicit), spec))


@pytest.mark.spec("F4", "F6", "F23")
@given(
    name=st.sampled_from(DIALECTS),
    explicit=st.booleans(),
    history=entries,
    reply=replies(),
    directives=st.lists(words, min_size=2, max_size=4),
)
def test_children_extend_the_base_and_the_base_extends_the_parent(
    name: str, explicit: bool, history: list[Entry], reply: Reply, directives: list[str]
) -> None:
    """For any conversation and dialect: parent, base, child and its later life are prefixes."""
    parent = started(name, explicit).append(*history)
    dispatched = parent.append(reply)
    kept, carrying = fork.base(dispatched, reply.calls), fork.carrying_base(dispatched, reply.calls)
    for base in (kept, carrying, parent):
        assert base.extends(parent)
        assert base.open().startswith(parent.open())
        for directive in directives:
            carrier = reply.calls[-1].id if base is carrying else None
            child = fork.child(base, directive, carrier=carrier)
            assert child.tip is not None
            assert child.tip.parent is base.tip
            assert child.head is parent.head
            assert child.open().startswith(base.open())
            later = child.append(Reply((), "", text="more"), User((Text("x"),)))
            assert later.open().startswith(child.open())


@pytest.mark.spec("F4", "F12")
@given(name=st.sampled_from(DIALECTS), history=entries, reply=replies())
def test_the_parents_own_results_are_the_base(
    name: str, history: list[Entry], reply: Reply
) -> None:
    """If every call forked, the parent's next prompt is the very base of its children."""
    parent = started(name, explicit=True).append(*history)
    own = Results(tuple(Result(c.id, (Text(fork.PLACEHOLDER),)) for c in reply.calls))
    assert parent.append(reply, own).digest == fork.base(parent.append(reply), reply.calls).digest


@pytest.mark.spec("F11")
@given(name=st.sampled_from(DIALECTS), history=entries, reply=replies(), quoted=st.booleans())
def test_lineage_is_told_by_kind_and_never_by_text(
    name: str, history: list[Entry], reply: Reply, quoted: bool
) -> None:
    """A typed directive makes a conversation a fork's, in whatever way it is carried."""
    parent = started(name, explicit=True).append(*history)
    text = "You are now a forked worker, not the main agent. Directive: x"
    if quoted:
        assert told_by(parent.append(User((Text(text),)))) is ROOT
    assert told_by(fork.base(parent.append(reply), reply.calls)) is ROOT
    assert told_by(fork.child(parent, text)).is_fork
    carrying = fork.carrying_base(parent.append(reply), reply.calls)
    assert told_by(fork.child(carrying, text, carrier=reply.calls[-1].id)).is_fork


@pytest.mark.spec("F10", "F11", "L7")
@given(
    name=st.sampled_from(DIALECTS),
    history=entries,
    reply=replies(),
    directive=directives,
    carries=st.booleans(),
)
def test_a_conversation_is_carried_over_whole_from_wherever_it_may_be_cut(
    name: str, history: list[Entry], reply: Reply, directive: str, carries: bool
) -> None:
    """A cut parts no call from its result, and a directive is plain text and typed ever after."""
    parent = started(name, explicit=True).append(*history, reply)
    make = fork.carrying_base if carries else fork.base
    carrier = reply.calls[-1].id if carries else None
    child = fork.child(make(parent, reply.calls), directive, carrier=carrier)
    told = child.tip
    child = child.append(Reply((), "", text="more"), User((Text("x"),)))
    assert told is not None
    assert not any(unanswered(Prompt(child.head, place)) for place in cuts(child))
    for after in (None, *cuts(child), told.parent):
        rest = carried(child, after=after)
        fresh = Prompt(child.head).append(*rest)
        called = {call.id for entry in rest if isinstance(entry, Reply) for call in entry.calls}
        answers = [one for entry in rest if isinstance(entry, Results) for one in entry.results]
        assert {one.call_id for one in answers} <= called
        kept = [plain(e.parts) for e in rest if isinstance(e, User) and e.kind == "directive"]
        is_kept = after is None or after.depth < told.depth
        assert kept == ([directive] if is_kept else [])
        assert told_by(fresh).is_fork == is_kept


@pytest.mark.spec("F9")
@pytest.mark.parametrize(
    "text",
    [
        "Scope: a\nResult: b\nKey files: c\nFiles changed: d\nIssues: e",
        "**Scope:** a\n**Result:** b\n**Key files:** c\n**Files changed:** d\n**Issues:** e",
        "## Scope: a\n\n## Result: b\n\n## Key files: c\n## Files changed: d\n## Issues: e",
        "I am done.\n\nscope: a\nRESULT: b\nKey Files: c\nFiles Changed: d\nIssues: e\n",
    ],
)
def test_a_report_is_read_by_field(text: str) -> None:
    """The labels are found in the usual dress; the whole text is kept beside the fields."""
    read = fork.parse_report(text)
    fields = (read.scope, read.result, read.key_files, read.files_changed, read.issues)
    assert fields == ("a", "b", "c", "d", "e")
    assert (read.structured, read.text) == (True, text)


@pytest.mark.spec("F9")
@given(st.text())
def test_whatever_comes_arrives_whole(text: str) -> None:
    """A report off the format is kept whole: all of it is the result, the rest is empty."""
    read = fork.parse_report(text)
    assert read.text == text
    if not read.structured:
        assert read.result == text.strip()
        assert not any((read.scope, read.key_files, read.files_changed, read.issues))
