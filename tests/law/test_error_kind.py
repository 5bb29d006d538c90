"""What the caller got wrong is told apart by kind."""

from __future__ import annotations

import ast

import pytest

from prong.errors import (
    BadInput,
    NotInstalled,
    NotPossibleNow,
    ProngError,
    SessionEnded,
    UnknownName,
    UsageError,
)
from shared.structure import modules

KINDS = (BadInput, UnknownName, NotInstalled, NotPossibleNow, SessionEnded)


def test_nobody_raises_the_kind_of_all_kinds() -> None:
    """Each place says which kind of wrong use it means; `UsageError` is for catching."""
    found = {
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "UsageError"
    }

    assert not found, "raise BadInput, UnknownName, NotInstalled or NotPossibleNow here"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_caught_with_all_of_them(kind: type[UsageError]) -> None:
    """Who catches `UsageError`, as the command line does for its exit code, misses none."""
    assert issubclass(kind, UsageError)
    assert issubclass(kind, ProngError)


def test_every_kind_is_raised_somewhere() -> None:
    """No kind is a promise that nothing keeps."""
    raised = {
        node.func.id
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert {kind.__name__ for kind in KINDS} <= raised
