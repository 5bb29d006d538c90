"""What a local model is shown and how its replies are read; no engine is needed."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Call, CallId, Result, Results, Text, ToolSpec, user_text
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider.local.embedded import make_reply
from prong.provider.local.form import BARE, LISTED, TAGGED, Form, recognise, spoken
from prong.provider.local.speech import ReplyReader, style_for, turns
from prong.provider.local.template import Template, derive
from prong.wire import CallBegan, CallPiece, HeadSpec, TextPiece, dialect

FORMS = [TAGGED, LISTED, BARE]
_MARKED = ("<tool_call>", "[TOOL_CALLS]", '{"name": ')
_TEXT = st.text(max_size=40).filter(lambda text: not any(mark in text for mark in _MARKED))
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["Read", "Bash"]), st.dictionaries(st.text(max_size=5), st.integers())
    ),
    max_size=3,
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def written_as(form: Form, text: str, calls: tuple[Call, ...]) -> str:
    return "".join(form.said(text, calls))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@settings(max_examples=100, deadline=None)
@given(_TEXT, _CALLS, st.lists(st.integers(0, 300), max_size=6))
def test_a_reply_is_read_as_it_was_said_however_it_is_cut(form, text, made, cuts):
    """Text and calls come out whole in every form, and written again they are the same letters."""
    if form is BARE and made:
        text = ""
    calls = tuple(Call(CallId(f"c_{i}"), n, json.dumps(a)) for i, (n, a) in enumerate(made))
    written = written_as(form, text, calls)
    reader = ReplyReader("c", form)

    events = [event for piece in pieces(written, cuts) for event in reader.feed(piece)]
    more, read_text, read_calls, stop = reader.close("end")
    events += more

    assert (read_text, read_calls, stop) == (text, calls, "calls" if calls else "end")
    assert "".join(e.text for e in events if isinstance(e, TextPiece)) == text
    assert [e.id for e in events if isinstance(e, CallBegan)] == [call.id for call in calls]
    assert [e.text for e in events if isinstance(e, CallPiece)] == [c.arguments for c in calls]
    assert written_as(form, read_text, read_calls) == written


@settings(max_examples=80, deadline=None)
@given(_TEXT, _CALLS)
def test_a_stored_reply_reads_as_the_model_wrote_it(text, made):
    """From the reader through the rope's bytes back to text, not a letter changes."""
    calls = tuple(Call(CallId(f"c_{i}"), n, json.dumps(a)) for i, (n, a) in enumerate(made))
    reply = make_reply(text, calls, "end")
    head = Head(dialect("chat", explicit=False), HeadSpec(model="local", explicit_marks=False))
    prompt = Prompt(head).append(user_text("hello"), reply)

    if text.strip() or calls:
        assert turns(prompt, 8_192)[-1].text == written_as(TAGGED, text, calls)
    else:
        assert reply.blocks == ()


def test_a_call_that_was_cut_off_is_given_as_far_as_it_came():
    """A reply that hit its limit inside a call ends for length, and shows what there is."""
    reader = ReplyReader("c")
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

    assert "".join(TAGGED.answered(results.results)) == (
        "<tool_response>\nfine\n</tool_response>\n"
        "<tool_response>\nError: no such file\n</tool_response>"
    )


def test_tools_are_described_briefly_where_the_context_is_small():
    """The same tools take a line each on a small model and their whole schema on a large one."""
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}
    tools = (
        ToolSpec("Do", "Does it. " + "And more. " * 300, msgspec.Raw(json.dumps(schema).encode())),
    )
    spec = HeadSpec(model="local", tools=tools)

    assert style_for(spec, 2_048) == "brief"
    assert style_for(spec, 131_072) == "full"
    empty = Prompt(Head(dialect("chat", explicit=False), spec))
    assert "\nDo(a): Does it\n" in turns(empty, 2_048)[0].text
    assert '"parameters": {"type": "object"' in turns(empty, 131_072)[0].text


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


# Templates as model files carry them, with words of our own.
TAGS = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- "\n\n# Functions\n\nUse these. Signatures are within <tools></tools>:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nAnswer like:\n<tool_call>\n{\"name\": X}\n</tool_call><|im_end|>\n" }}
{%- endif %}
"""
IPYTHON = r"""
{%- if tools %}
    {{- "Functions you may call. " }}
    {{- 'Answer with {"name": function, "parameters": dictionary}. ' }}
    {{- "No variables.\n\n" }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{%- endfor %}
{%- endif %}
{{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
"""
SPACED = (
    """{{ "[AVAILABLE_TOOLS] [" }} {{ "[TOOL_CALLS] [" }} {{ '[TOOL_RESULTS] {"content": ' }}"""
)
TIGHT = """{{- "[AVAILABLE_TOOLS][" }} {{- "[TOOL_CALLS][" }} {{- "[TOOL_RESULTS]{" }}"""
NEWER = """{{ "[AVAILABLE_TOOLS][" }} {{ "[TOOL_CALLS]" + name + "[ARGS]" }}"""


@pytest.mark.parametrize(
    ("template", "form", "begin"),
    [
        (TAGS, TAGGED, "<tool_call>\n"),
        (IPYTHON, BARE, ""),
        (SPACED, LISTED, "[TOOL_CALLS] ["),
        (TIGHT, LISTED, "[TOOL_CALLS]["),
        (NEWER, TAGGED, "<tool_call>\n"),
        ("", TAGGED, "<tool_call>\n"),
    ],
)
def test_a_template_says_how_its_model_calls(template: str, form: Form, begin: str):
    """Well-known forms are told apart by their marks; an unknown one gets the first."""
    found = recognise(template)

    assert (found.name, found.begin) == (form.name, begin)


def test_a_model_is_told_of_its_tools_in_its_own_words():
    """What the template says before and after the list stands there; the end of the turn not."""
    assert recognise(TAGS).tools == (
        "# Functions\n\nUse these. Signatures are within <tools></tools>:\n<tools>\n",
        '\n</tools>\n\nAnswer like:\n<tool_call>\n{"name": X}\n</tool_call>',
    )
    assert recognise(IPYTHON).tools[0] == (
        'Functions you may call. Answer with {"name": function, "parameters": dictionary}. '
        "No variables.\n\n"
    )
    assert spoken("""{{ 'a\\n' }}\n{{- "b" }}{% if x %}{{ 'c\\'' }}""") == ["a\nb", "c'"]


def test_words_that_are_not_whole_are_not_taken():
    """Words that a template puts together from pieces are replaced by ours."""
    assert recognise(TAGS.replace("\\n</tools>", "</tools>")).tools == TAGGED.tools
    assert recognise(IPYTHON.replace("No variables.\\n\\n", "No ")).tools == BARE.tools


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@given(st.lists(st.sampled_from(["x", "[/TOOL_RESULTS]", "<tool_call>", "</tool_response>"])))
def test_marks_in_contents_are_letters(form: Form, words: list[str]):
    """However a file is worded, only what we put there is at the place of a mark."""
    text = " ".join(words)
    result = Result(CallId("a"), (Text(text),))
    call = Call(CallId("a"), "Do", json.dumps({"a": text}))

    for made in (form.answered([result]), form.said(text, [call]), form.listing([text])):
        assert len(made) % 2 == 1
        assert [piece for piece in made[1::2] if piece not in form.marks] == []
        empty = form.answered([Result(CallId("a"), ())]), form.said("y", [call]), form.listing([])
        assert len(made) in {len(one) for one in empty}


def llama(talk, ask):
    text = "".join(f"<|h|>{role}<|/h|>\n\n{content}<|eot|>" for role, content in talk)
    return text + ("<|h|>assistant<|/h|>\n\n" if ask else "")


def test_results_are_brought_by_whom_the_template_knows():
    """The role of the form is the template's own, and a reply or the user may follow."""
    template = derive(llama, "ipython")

    assert template.joint("assistant", "tool") == "<|eot|><|h|>ipython<|/h|>\n\n"
    assert template.joint("tool", "assistant") == "<|eot|><|h|>assistant<|/h|>\n\n"
    assert template.joint("tool", "user") == "<|eot|><|h|>user<|/h|>\n\n"


def instructed(talk, ask):
    shapes = {"system": "{}\n\n", "user": "{}[/INST]", "assistant": " {}</s>"}
    text = ""
    for at, (role, content) in enumerate(talk):
        opens = role != "assistant" and (at == 0 or talk[at - 1][0] == "assistant")
        text += ("[INST] " if opens else "") + shapes[role].format(content)
    return text


def test_results_without_a_role_stand_between_two_replies():
    """Where marks are all there is, nothing opens a turn of the user's around them."""
    template = derive(instructed, "tool")

    assert template.joint(None, "tools") == ""
    assert template.joint("tools", "system") == template.joint(None, "system") == "[INST] "
    assert template.joint("assistant", "tool") == "</s>"
    assert template.joint("tool", "assistant") == ""
    assert template.joint("tool", "user") == "[INST] "
