"""One word, one meaning: names of classes and of files over the whole package.

What means two things today stands in a list that only gets shorter, as in test_structure.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shared.structure import modules, shapes

CLASSES = (
    "Agent Ask Backend Block Bounds Call Child Choice Collector Connection Delegation "
    "Document Done Event Exchange Finished Fork Function Given InputDetails Item Kept Kind "
    "Leave Limits Line Listed Lost Message Option Options OutputDetails Part Parts "
    "Prompt Reader Reading Refused Removed Reply Report Response Row Server Settings Slot "
    "Source State Stop Stream Tail Turn Url Usage View Waiting Walk Watch Written Wrong"
)

FILES = (
    "account agent backend base command compare connection edit fault forecast hook local "
    "merge move option output place process provider pull question read session shape "
    "skill task team write"
)


def twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_a_class_name_means_one_thing() -> None:
    """No two classes have one name, leading underscores aside."""
    assert twice(shape.name.lstrip("_") for shape in shapes()) == CLASSES.split()


def test_a_file_name_means_one_thing() -> None:
    """No two modules or packages have one name."""
    assert twice(name.rpartition(".")[2] for name in modules()) == FILES.split()
