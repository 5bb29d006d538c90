"""One word, one meaning: names of classes and of files over the whole package.

What means two things today stands in a list that only gets shorter, as in test_structure.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shared.structure import modules, shapes

CLASSES = (
    "Agent Ask Block Call Child Choice Collector Connection Document Done Door Ended Event "
    "Fan Function InputDetails Item Kept Kind Limits Line Listed Message OutputDetails Part "
    "Parts Past Prompt Reader Refused Removed Reply Report Response Row Server Settings Shelf "
    "Slot State Stream Tail Turn Url Usage Watch Written"
)

FILES = (
    "account agent base connection edit fan fault hook local merge move place process "
    "provider pull question read session shelf skill task team write"
)


def twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_a_class_name_means_one_thing() -> None:
    """No two classes have one name, leading underscores aside."""
    assert twice(shape.name.lstrip("_") for shape in shapes()) == CLASSES.split()


def test_a_file_name_means_one_thing() -> None:
    """No two modules or packages have one name."""
    assert twice(name.rpartition(".")[2] for name in modules()) == FILES.split()
