"""Replies printed line by line: each block of Markdown when it is whole."""

from __future__ import annotations

from prong.face.draw.block import draw_block
from prong.face.draw.markdown import Block, Cutter
from prong.face.draw.row import EMPTY, Row


class Prose:
    """A reply that is being written to where nothing can be taken back."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._cutter = Cutter()
        self._begun = False

    def feed(self, text: str, width: int) -> list[Row]:
        """Take more text; gives the rows of what has ended with it."""
        return [row for block in self._cutter.feed(text) for row in self._draw(block, width)]

    def finish(self, width: int) -> list[Row]:
        """Give the rows of what is left, and begin anew."""
        tail = self._cutter.tail
        rows = self._draw(tail, width) if tail is not None else []
        self._cutter, self._begun = Cutter(), False
        return rows

    @property
    def pending(self) -> str:
        """The last line of what is not whole yet."""
        tail = self._cutter.tail
        return "" if tail is None else tail.source.rpartition("\n")[2]

    def _draw(self, block: Block, width: int) -> list[Row]:
        rows = draw_block(block.source, width)
        above = [EMPTY] if block.apart and self._begun else []
        # Some blocks have nothing to show, an empty quotation for one.
        self._begun = self._begun or bool(rows)
        return [*above, *rows]
