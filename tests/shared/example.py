"""Examples that are the same in every run."""

from __future__ import annotations

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


def draw_no_literals() -> None:
    """Let Hypothesis draw nothing that stands in our modules.

    Which of them are loaded depends on what ran before in the same process, and so would all
    examples. There is no setting for it; `tests/law/test_example.py` notices if this does nothing.
    """
    none = Constants()
    providers._get_local_constants = lambda: none
