"""What the caller got wrong is told apart by kind."""

from __future__ import annotations

import ast
import re

import pytest

from prong import errors
from prong.errors import (
    BadInput,
    NotInstalled,
    NotPossibleNow,
    ProngError,
    SessionEnded,
    UnknownName,
    UsageError,
)
from shared.structure import nodes

KINDS = (BadInput, UnknownName, NotInstalled, NotPossibleNow, SessionEnded)


def test_nobody_raises_the_kind_of_all_kinds() -> None:
    """Each place says which kind of wrong use it means; `UsageError` is for catching."""
    found = {
        f"{name}:{node.lineno}"
        for name, node in nodes(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "UsageError"
    }

    assert not found, "raise BadInput, UnknownName, NotInstalled or NotPossibleNow here"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_caught_with_all_of_them(kind: type[UsageError]) -> None:
    """Who catches `UsageError`, as the command line does for its exit code, misses none."""
    assert issubclass(kind, UsageError)
    assert issubclass(kind, ProngError)


def test_every_kind_is_raised_somewhere() -> None:
    """No kind is a promise that nothing keeps."""
    raised = {node.func.id for _, node in nodes(ast.Call) if isinstance(node.func, ast.Name)}

    assert {kind.__name__ for kind in KINDS} <= raised


def test_the_tree_of_errors_is_drawn_whole() -> None:
    """Every kind of error stands in the tree at the top of the file, below what it is a kind of."""
    above, drawn = ["ProngError"], dict[str, str]()
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│ ]*)[├└]── (\w+)", line):
            depth = len(found[1]) // 4
            drawn[found[2]] = above[depth]
            above[depth + 1 :] = [found[2]]
    there = {
        one.__name__: one.__bases__[0].__name__
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, ProngError) and one is not ProngError
    }

    assert drawn == there
