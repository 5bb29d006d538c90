"""The shape of the object graph, read from the syntax trees.

Import layers say who may know whom; these say how big a thing that changes may be, who may change
it, and that no cycle hides behind a late import. What breaks a rule today stands in a list beside it.
A list only gets shorter: a new offender fails, and so does one that is gone and still listed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set as AbstractSet

import pytest

from shared.structure import (
    Level,
    callables,
    cycles,
    imports,
    intrusions,
    nodes,
    shapes,
    short,
)

FIELDS, MEMBERS = 15, 20

LARGE = set[str]()

CALLBACKS = set[str]()

INTRUSIONS: dict[str, str] = {
    "provider.local.core": "begun over processed reused sampler strand",
    "provider.local.engine": "keep",
}

FOREIGN = {
    "face.full.board": "offset",
    "provider.local.core": "n_ctx",
    "session.mcp_server": "deadline",
    "session.remote_check": "deadline",
}
"""Objects of libraries, with fields that are named like some of ours."""

HIDDEN_BY_FUNCTIONS = {
    "wire.anthropic wire.anthropic_stream",
    "wire.chat wire.chat_stream",
    "wire.gemini wire.gemini_stream",
    "wire.responses wire.responses_stream",
}

HIDDEN_BY_TYPING = set[str]()

DOORS = {"prompt", "provider", "session", "timeline", "view"}
"""Packages whose `__init__` is the only way in; docs/design.md says why the others have none."""

FACES_MAY_KNOW = {
    "about",
    "command",
    "entry",
    "errors",
    "event",
    "foreign_json",
    "foreign_number",
    "ids",
    "question",
    "session",
    "system.console",
    "system.path_form",
    "system.pipe_end",
    "system.process_tree",
    "system.standard_stream",
    "system.stop_signal",
    "timeline",
    "view",
}
"""Of `session` its door, not the modules behind it. Of `system` what a program at a terminal needs."""

FACES_KNOW: dict[str, str] = {}


def compare(found: AbstractSet[str], known: AbstractSet[str]) -> None:
    """Demand that the offenders are those that are known, no more and no fewer."""
    new, gone = found - known, known - found

    assert not new, f"new offenders, to be mended: {sorted(new)}"
    assert not gone, f"mended, to be taken off the list: {sorted(gone)}"


def pairs(lists: dict[str, str]) -> set[str]:
    return {f"{name}: {word}" for name, words in lists.items() for word in words.split()}


def test_what_changes_is_small() -> None:
    """No class that can change has more than 15 fields or 20 public members."""
    large = {
        str(shape)
        for shape in shapes()
        if shape.changes and (len(shape.fields) > FIELDS or len(shape.public) > MEMBERS)
    }

    compare(large, LARGE)


def test_a_child_is_data() -> None:
    """No field of a child holds something to be called."""
    children = [shape for shape in shapes() if shape.name == "Child"]
    called = callables()
    slots = {
        name
        for child in children
        for name, annotation in child.fields.items()
        if called & set(re.findall(r"\w+", annotation))
    }

    assert children
    compare(slots, CALLBACKS)


def test_only_its_own_module_assigns_the_fields_of_a_class() -> None:
    """What belongs to an object is changed by asking the object."""
    found = {f"{module}: {field}" for module, field in intrusions()}

    compare(found, pairs(INTRUSIONS) | pairs(FOREIGN))


def test_modules_import_each_other_in_no_circle() -> None:
    """At the level of modules there is no cycle at all."""
    assert cycles("module") == set()


@pytest.mark.parametrize(
    ("levels", "known"),
    [
        (("module", "function"), HIDDEN_BY_FUNCTIONS),
        (("module", "typing"), HIDDEN_BY_TYPING),
        (("module", "function", "typing"), HIDDEN_BY_FUNCTIONS | HIDDEN_BY_TYPING),
    ],
    ids=["functions", "typing", "both"],
)
def test_no_late_import_hides_a_cycle(levels: tuple[Level, ...], known: set[str]) -> None:
    """Imports in functions serve start-up, and none is there because a cycle would not load."""
    compare(cycles(*levels), known)


@pytest.mark.parametrize("package", sorted(DOORS))
def test_who_has_a_door_is_entered_by_it(package: str) -> None:
    """Of a package with a door others import the package, and no module behind it."""
    own = f"prong.{package}"
    passed = {
        f"{short(name)}: {short(node.module)}"
        for name, node in nodes(ast.ImportFrom)
        if name != own and not name.startswith(f"{own}.")
        if node.module and node.module.startswith(f"{own}.")
    }

    assert passed == set(), f"import these from {own}"


def test_faces_know_the_door_and_the_values() -> None:
    """A face imports events, views, entries, errors and the session's door, and no more."""
    known = {
        f"{short(each.source)}: {short(each.target)}"
        for each in imports()
        if each.source.startswith("prong.face")
        and not each.target.startswith("prong.face")
        and short(each.target) not in FACES_MAY_KNOW
    }

    compare(known, pairs(FACES_KNOW))
