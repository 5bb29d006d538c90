"""How many cells of a terminal characters take; the table is the one that Textual draws by.

This is the one measure of whatever is drawn, on either face: what is typed, rows, lines. It is that
of a clean text (`output.drawable`), in which no character changes the width of another.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(8_192)
def cell(character: str) -> int:
    """Say how wide a character is: 0 if it combines with the one before, else 1 or 2."""
    from rich.cells import get_character_cell_size

    return get_character_cell_size(character)


def cells(text: str) -> int:
    """Count the cells that a clean text takes."""
    return len(text) if text.isascii() else sum(map(cell, text))
