"""Paths of agents: what is said of one follows from how it was made."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from prong.event import MAIN, Envelope, Warned
from prong.ids import (
    AgentPath,
    TaskId,
    below,
    depth_of,
    is_below,
    parent_of,
    root_of,
    task_of,
    upwards,
)

TASKS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1).map(TaskId)


@st.composite
def paths(draw: st.DrawFn) -> AgentPath:
    """Make the path of an agent somewhere in the tree."""
    path = MAIN
    for task in draw(st.lists(TASKS, max_size=4)):
        path = below(path, task)
    return path


@given(paths(), TASKS)
def test_a_child_is_told_from_its_path(parent: AgentPath, task: TaskId) -> None:
    """Parent, task and depth of a child are those it was made with."""
    child = below(parent, task)

    assert (parent_of(child), task_of(child)) == (parent, task)
    assert depth_of(child) == depth_of(parent) + 1
    assert list(upwards(child)) == [child, *upwards(parent)]
    assert root_of(child) == MAIN


@given(paths(), paths())
def test_below_is_what_parents_say(path: AgentPath, above: AgentPath) -> None:
    """An agent is below another if that is among those above it, and never below itself."""
    assert is_below(path, above) == (above in list(upwards(path))[1:])


def test_a_name_that_begins_like_another_is_not_below_it() -> None:
    """Not letters count but whole names."""
    one, two = below(MAIN, TaskId("a")), below(MAIN, TaskId("ab"))

    assert not is_below(two, one)
    assert parent_of(MAIN) == ""


def test_a_path_is_a_plain_string_outside() -> None:
    """In an event as JSON a path is what it was before it had a type."""
    event = Envelope(1, 0.0, below(MAIN, TaskId("fork-1")), Warned(text="x"))

    assert b'"main/fork-1"' in msgspec.json.encode(event)
