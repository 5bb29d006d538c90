"""Which tokens are in the cache, in which sequence, and who shares them.

Pure bookkeeping. A sequence is a list of tokens of which the first `held` are computed. Sequences
that agree on a prefix may hold the very same cells: to borrow is to point at them, so the cells in
use are counted as a set. A sequence is live while a request works on it, and rests afterwards until
its room is needed; the one that was used longest ago goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

_STRIDE = 256


class Strand(Struct, eq=False):
    """A sequence in the cache."""

    id: int
    tokens: list[int]
    """Those computed, and those that will be."""
    cells: list[int] = field(default_factory=list[int])
    """The cells of the tokens that are computed."""
    live: bool = True
    used: int = 0
    """When it was last of use, in steps of the cache's own clock."""

    @property
    def held(self) -> int:
        """How many tokens are computed."""
        return len(self.cells)


class TokenCache:
    """All sequences of a context."""

    def __init__(self, sequences: int, cells: int) -> None:
        """Hold at most so many sequences, and so many cells."""
        self.room = cells
        self._free = list(range(sequences - 1, -1, -1))
        self._strands: dict[int, Strand] = {}
        self._clock = 0
        self._next_cell = 0

    def __iter__(self) -> Iterator[Strand]:
        """Iterate over the sequences."""
        return iter(self._strands.values())

    @property
    def full(self) -> bool:
        """Whether there is no number left for another sequence."""
        return not self._free

    @property
    def cells(self) -> int:
        """How many cells are in use."""
        return len({cell for strand in self for cell in strand.cells})

    def find(self, tokens: Sequence[int]) -> tuple[Strand | None, int]:
        """Find the sequence that holds the longest computed prefix of the tokens."""
        best, length = None, 0
        for strand in self:
            common = min(shared(strand.tokens, tokens), strand.held)
            if common > length or (best and common == length > 0 and strand.used > best.used):
                best, length = strand, common
        return best, length

    def coming(self, tokens: Sequence[int]) -> int:
        """Say how long a prefix of the tokens will be computed by requests under way."""
        return max((shared(s.tokens, tokens) for s in self if s.live), default=0)

    def open(self, tokens: Sequence[int], source: Strand | None, length: int) -> Strand:
        """Begin a sequence that borrows a prefix."""
        strand = Strand(self._free.pop(), list(tokens))
        if source is not None:
            strand.cells = source.cells[:length]
            self.touch(source)
        self._strands[strand.id] = strand
        self.touch(strand)
        return strand

    def grow(self, strand: Strand, count: int) -> None:
        """Note that the next tokens of a sequence have been computed."""
        strand.cells += range(self._next_cell, self._next_cell + count)
        self._next_cell += count
        assert strand.held <= len(strand.tokens), "only planned tokens are computed"
        self.touch(strand)

    def turn(self, strand: Strand, length: int, tokens: Sequence[int]) -> None:
        """Let a sequence go on in another way from some place."""
        del strand.cells[length:]
        strand.tokens[length:] = tokens

    def rest(self, strand: Strand) -> list[Strand]:
        """Keep a sequence for later; gives those that it makes superfluous, already forgotten."""
        strand.live = False
        del strand.tokens[strand.held :]
        self.touch(strand)
        spare = [
            other
            for other in self
            if other is not strand
            and not other.live
            and shared(other.tokens, strand.tokens) == other.held
        ]
        for other in spare:
            self.drop(other)
        return spare

    def oldest(self) -> Strand | None:
        """Find the resting sequence that was used longest ago."""
        resting = [strand for strand in self if not strand.live]
        return min(resting, key=lambda strand: strand.used, default=None)

    def drop(self, strand: Strand) -> None:
        """Forget a sequence."""
        del self._strands[strand.id]
        self._free.append(strand.id)

    def touch(self, strand: Strand) -> None:
        """Note that a sequence was of use."""
        self._clock += 1
        strand.used = self._clock


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens that two sequences begin with in common."""
    limit = min(len(one), len(other))
    at = 0
    while at < limit and one[at : at + _STRIDE] == other[at : at + _STRIDE]:
        at += _STRIDE
    at = min(at, limit)
    while at < limit and one[at] == other[at]:
        at += 1
    return at
