from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prong.agent.verdict import Permission, Verdict, settle
from prong.config.document import Document, line_of, parse_document
from prong.config.front import read_front
from prong.config.hook_output import join
from prong.errors import ConfigError
from prong.tools.mcp import full_name

pytestmark = pytest.mark.spec("L11")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def ways(value: Any) -> list[tuple[str | int, ...]]:
    """List every way into a value."""
    found: list[tuple[str | int, ...]] = [()]
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        found += [(key, *rest) for rest in ways(inner)]
    return found


@given(values, st.data())
def test_line_of_points_at_the_value(value: Any, data: st.DataObject) -> None:
    """The line found for a way into JSON text is the line on which its value starts."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    steps = data.draw(st.sampled_from(ways(value)))
    rest = "\n".join(text.split("\n")[line_of(text, steps) - 1 :])
    for step in steps:
        value = value[step]
    start = json.dumps(value, indent=1, ensure_ascii=False).split("\n")[0]
    shown = rest.split("\n")[0].strip()
    key = f"{json.dumps(steps[-1], ensure_ascii=False)}: " if steps else ""
    assert shown.rstrip(",") in (start, f"{key}{start}")


@given(st.text(max_size=40) | values.map(json.dumps))
def test_any_text_is_a_document_or_a_problem_with_a_line(text: str) -> None:
    """No text breaks the reader: it is an object, or a complaint that names a line."""
    read = parse_document("f", text)
    match read:
        case Document(value=value):
            assert isinstance(value, dict)
        case ConfigError(line=line):
            assert line is not None


pieces = ("a", "b c", " #", "# ", ": ", ":", "'", '"', "[", "]", ", ", "- ", "|", ">", "{", "}")
odd = ("&", "*", "!", "@", "`", "\\", "é", "0", "true", "~", "%", "?", " ", "\t")
words = st.lists(st.sampled_from(pieces + odd), max_size=4).map("".join) | st.sampled_from(
    ("a b", "a #b", "'a'", '"a b"', "[a, b]", "")
)
scalars = st.builds("{}: {}".format, st.just("name"), words)
listed = st.lists(st.builds("  - {}".format, words), min_size=1, max_size=3).map(
    lambda items: "\n".join(["name:", *items])
)


@given(scalars | listed)
def test_front_matter_agrees_with_yaml(head: str) -> None:
    """Whatever both readers take as YAML they read alike."""
    try:
        theirs = yaml.load(head, Loader=yaml.BaseLoader)["name"]
        front = read_front("f", f"---\n{head}\n---\nbody", ("name",))
    except (yaml.YAMLError, ConfigError):
        return
    if front.slack is not None:
        return
    ours = front.values["name"]
    if isinstance(theirs, str):
        assert ours == theirs
    elif isinstance(theirs, list) and all(isinstance(item, str) for item in theirs):
        assert ours == tuple(theirs)


@given(st.lists(scalars | listed | words, max_size=5).map("\n".join))
def test_any_front_matter_is_read_or_refused_with_a_line(head: str) -> None:
    """No front matter breaks the reader: it has values, or a complaint that names a line."""
    try:
        front = read_front("f", f"---\n{head}\n---\nbody", ("name",))
    except ConfigError as error:
        assert error.line is not None  # noqa: PT017 - many texts are right, so nothing must raise
        return
    assert front.body == "body"


permissions = st.sampled_from(("allow", "ask", "deny"))
verdicts = st.builds(Verdict, block=st.none() | st.just("no"), permission=st.none() | permissions)


@given(permissions, st.lists(verdicts, max_size=4))
def test_hooks_never_lift_a_denial(decided: Permission, said: list[Verdict]) -> None:
    """A denial stands, a block denies, and leave is given only where all who spoke gave it."""
    verdict = join(said)
    settled = settle(decided, verdict)
    if decided == "deny" or any(one.block for one in said):
        assert settled == "deny"
    answers = {one.permission for one in said if one.permission}
    if "deny" in answers:
        assert settled == "deny"
    if settled == "allow":
        assert decided == "allow" or answers == {"allow"}
    if not answers and verdict.block is None:
        assert settled == decided


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=60)), unique=True, max_size=8))
def test_tool_names_are_legal_and_distinct(pairs: list[tuple[str, str]]) -> None:
    """Any server and tool names give distinct names that every provider accepts."""
    taken: set[str] = set()
    for server, tool in pairs:
        name = full_name(server, tool, taken=taken)
        assert name not in taken
        assert len(name) <= 64
        assert name.isascii()
        assert all(mark.isalnum() or mark in "_-" for mark in name)
        assert name.startswith("mcp__")
        taken.add(name)
