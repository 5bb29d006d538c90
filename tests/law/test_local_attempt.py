"""Calls that are begun in another form are noticed; everything else is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.provider.local.attempt import CallDetector, is_stuck

FENCED = 'Sure.\n```json\n{\n  "name": "Run Tests",\n  "arguments": {"command"'


def first(text: str, *, first_only: bool = False) -> tuple[int, int] | None:
    """Let a text grow; gives after how many letters a call is seen, and where it begins."""
    watch = CallDetector(first_only=first_only)
    for size in range(len(text) + 1):
        begins = watch.read(text[:size])
        if begins is not None:
            return size, begins
        assert watch.settled <= size
    return None


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (FENCED, 6),
        ('{"name": "Read", "parameters": {', 0),
        ('\n\n{"name": "Read", "arguments": ', 0),
        ('<tool_response>\n{"name": "Glob", "arguments": {', 0),
        ('<|python_tag|>{"name": "Glob", "parameters": {', 0),
        ('```\n{ "name" : "a-b" ,\n "arguments":', 0),
    ],
)
def test_a_call_in_another_form_is_seen(text: str, begins: int):
    """A block of JSON that names a function and its arguments is a call, before these come."""
    found = first(text)

    assert found is not None
    assert found[1] == begins


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{\n  "name": "my-package",\n  "version": "1.0.0"\n}\n```',
        '{"project": "x", "name": "y", "arguments": 1}',
        'The field {"name": "x", "arguments": 1} in a line of text.',
        "```python\nprint(1)\n```",
    ],
)
def test_other_json_is_text(text: str):
    """A settings file that begins with a name is what it seems, to its last letter."""
    watch = CallDetector(first_only=False)

    assert first(text) is None
    assert watch.read(f"{text}\n.") is None
    assert watch.settled == len(text) + 2


def test_where_a_call_is_the_whole_reply_only_the_beginning_counts():
    """A form without marks cannot have calls after text."""
    assert first(FENCED, first_only=True) is None
    assert first(FENCED.partition("\n")[2], first_only=True) is not None


@given(st.text(alphabet='{"name:, argumets}`\n<js', max_size=60), st.text(max_size=20))
def test_nothing_is_held_for_ever(text: str, more: str):
    """Whatever stands there, letters that begin no call let it go."""
    watch = CallDetector(first_only=False)
    for size in range(len(text) + 1):
        if watch.read(text[:size]) is not None:
            return
    end = f'{text}"\n!{"x" * 400}{json.dumps(more)}\n!'
    if watch.read(end) is None:
        assert watch.settled == len(end)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.lists(st.integers(0, 9)))
def test_one_stretch_over_and_over_is_a_loop(stretch: list[int], before: list[int]) -> None:
    """Whatever came before, and wherever in the stretch it stands."""
    times = max(5, 96 // len(stretch) + 2)
    assert is_stuck(before + stretch * times)
    assert is_stuck(before + stretch * times + stretch[: len(stretch) // 2])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 3))
def test_what_is_said_a_few_times_is_no_loop(stretch: list[int], times: int) -> None:
    """Three times is no loop, nor is anything short, nor a stretch that grows."""
    assert not is_stuck([*range(100, 200), *stretch * times])
    counted = [token for number in range(40) for token in (*stretch, 1000 + number)]
    assert not is_stuck(counted)
