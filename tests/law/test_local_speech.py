"""What a local model is shown and how its replies are read; no engine is needed."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Call, CallId, Reply, Result, Results, Text, ToolSpec, User, user_text
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider.local.provider import make_reply
from prong.provider.local.speech import Reader, opening, said, style_for, text_of, turns
from prong.provider.local.template import Template, derive
from prong.wire import CallBegan, CallPiece, HeadSpec, TextPiece, dialect

_TEXT = st.text(max_size=40).filter(lambda text: "<tool_call>" not in text)
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["Read", "Bash"]), st.dictionaries(st.text(max_size=5), st.integers())
    ),
    max_size=3,
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@settings(max_examples=150, deadline=None)
@given(_TEXT, _CALLS, st.lists(st.integers(0, 300), max_size=6))
def test_a_reply_is_read_as_it_was_said_however_it_is_cut(text, made, cuts):
    """Text and calls come out whole, and written again they are the same letters."""
    calls = tuple(Call(CallId(f"c_{i}"), n, json.dumps(a)) for i, (n, a) in enumerate(made))
    written = said(text, calls)
    reader = Reader("c")

    events = [event for piece in pieces(written, cuts) for event in reader.feed(piece)]
    more, read_text, read_calls, stop = reader.close("end")
    events += more

    assert (read_text, read_calls, stop) == (text, calls, "calls" if calls else "end")
    assert "".join(e.text for e in events if isinstance(e, TextPiece)) == text
    assert [e.id for e in events if isinstance(e, CallBegan)] == [call.id for call in calls]
    assert [e.text for e in events if isinstance(e, CallPiece)] == [c.arguments for c in calls]
    assert said(read_text, read_calls) == written


@settings(max_examples=80, deadline=None)
@given(_TEXT, _CALLS)
def test_a_stored_reply_reads_as_the_model_wrote_it(text, made):
    """From the reader through the rope's bytes back to text, not a letter changes."""
    calls = tuple(Call(CallId(f"c_{i}"), n, json.dumps(a)) for i, (n, a) in enumerate(made))
    reply = make_reply(text, calls, "end")
    head = Head(dialect("chat", explicit=False), HeadSpec(model="local", explicit_marks=False))
    prompt = Prompt(head).append(user_text("hello"), reply)

    if text.strip() or calls:
        assert turns(prompt, 8_192)[-1].text == said(text, calls)
    else:
        assert reply.blocks == ()


def test_a_call_that_was_cut_off_is_given_as_far_as_it_came():
    """A reply that hit its limit inside a call ends for length, and shows what there is."""
    reader = Reader("c")
    reader.feed('Well.\n<tool_call>\n{"name": "Bash", "arguments": {"command": "ls')

    _, text, calls, stop = reader.close("length")

    assert (text, stop) == ("Well.", "length")
    assert [(call.name, call.arguments) for call in calls] == [("Bash", '{"command": "ls')]


def test_a_turn_is_named_by_everything_before_it():
    """Equal turns after different pasts have different names; a shared past has the same."""
    head = Head(
        dialect("chat", explicit=False),
        HeadSpec(model="local", system=("Hi",), explicit_marks=False),
    )
    base = Prompt(head).append(user_text("one"))
    left, right = base.append(user_text("same")), base.append(user_text("x"), user_text("same"))

    first, second = turns(left, 8_192), turns(right, 8_192)

    assert [turn.key for turn in first[:2]] == [turn.key for turn in second[:2]]
    assert first[-1].text == second[-1].text
    assert first[-1].key != second[-1].key
    assert [turn.role for turn in first] == ["system", "user", "user"]


def test_results_say_which_of_them_failed():
    """A failed result is told apart from a good one."""
    results = Results(
        (
            Result(CallId("a"), (Text("fine"),)),
            Result(CallId("b"), (Text("no such file"),), failed=True),
        )
    )

    assert text_of(results) == (
        "<tool_response>\nfine\n</tool_response>\n"
        "<tool_response>\nError: no such file\n</tool_response>"
    )
    assert text_of(User((Text("a"), Text("b")))) == "a\nb"
    assert text_of(Reply(blocks=(), dialect="chat", text="yes")) == "yes"


def test_tools_are_described_briefly_where_the_context_is_small():
    """The same tools take a line each on a small model and their whole schema on a large one."""
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}
    tools = (
        ToolSpec("Do", "Does it. " + "And more. " * 300, msgspec.Raw(json.dumps(schema).encode())),
    )
    spec = HeadSpec(model="local", tools=tools)

    assert style_for(spec, 2_048) == "brief"
    assert style_for(spec, 131_072) == "full"
    assert "\nDo(a, b?): Does it\n" in opening(spec, "brief")
    assert '"parameters": {"type": "object"' in opening(spec, "full")


def chatml(talk, ask):
    text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in talk)
    return text + ("<|im_start|>assistant\n" if ask else "")


def joined(template: Template, talk) -> str:
    text, before = "", None
    for role, content in talk:
        text += template.joint(before, role) + content
        before = role
    return text + template.joint(before, "assistant")


TALK = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v"), ("user", "w")]


@pytest.mark.parametrize("size", range(1, 6))
def test_joints_say_what_the_template_says(size: int):
    """For a template that extends, joints and contents are its very output, at every length."""
    template = derive(chatml)
    talk = TALK[:size]

    assert (template.own, template.faithful, template.note) == (True, True, "")
    if talk[-1][0] == "user":
        assert joined(template, talk) == chatml(talk, True)


def test_a_template_that_rewrites_the_past_is_found_out():
    """A template that renders old turns in another way is named, and its joints still extend."""

    def fickle(talk, ask):
        old = [
            (role, f"{content}" if i == len(talk) - 1 else f"~{content}")
            for i, (role, content) in enumerate(talk)
        ]
        return chatml(old, ask)

    template = derive(fickle)

    assert template.own
    assert not template.faithful
    assert "differently" in template.note
    assert joined(template, TALK).startswith(
        joined(template, TALK[:4]).removesuffix(template.joint("user", "assistant"))
    )


def test_an_unknown_template_is_replaced_and_that_is_said():
    """Without a template that the engine knows, ChatML is used, and the user is told."""
    template = derive(lambda talk, ask: None)

    assert not template.own
    assert "ChatML" in template.note
    assert joined(template, TALK) == chatml(TALK, True)


def test_a_template_of_strict_turns_gets_two_user_turns_as_one():
    """Where a second user turn would be read as a reply, it is put under the first."""

    def strict(talk, ask):
        text = ""
        for at, (role, content) in enumerate(talk):
            opens = at == 0 or talk[at - 1][0] == "assistant"
            after = {"system": "\n\n", "user": " [/INST]", "assistant": "</s>"}[role]
            text += (" [INST] " if opens else "") + content + after
        return text

    template = derive(strict)

    assert template.joint("user", "user") == "\n\n"
    assert template.joint("user", "assistant") == " [/INST]"
    assert template.joint("assistant", "user") == "</s> [INST] "
