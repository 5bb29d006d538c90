"""Heights of many things above each other, and which of them a row belongs to."""

from __future__ import annotations

from collections.abc import Iterable

_CHUNK = 128


class Heights:
    """A list of heights that is summed up in chunks."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        """Take heights, the topmost first."""
        self._each = list(heights)
        starts = range(0, len(self._each), _CHUNK)
        self._sums = [sum(self._each[start : start + _CHUNK]) for start in starts]
        self.total = sum(self._sums)
        """All of them together."""

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, index: int) -> int:
        return self._each[index]

    def put(self, index: int, height: int) -> None:
        """Change one, or add one at the end."""
        if index == len(self._each):
            self._each.append(0)
            if index % _CHUNK == 0:
                self._sums.append(0)
        more = height - self._each[index]
        self._each[index] = height
        self._sums[index // _CHUNK] += more
        self.total += more

    def start(self, index: int) -> int:
        """Give the first row of a thing."""
        chunk = index // _CHUNK
        return sum(self._sums[:chunk]) + sum(self._each[chunk * _CHUNK : index])

    def find(self, row: int) -> tuple[int, int]:
        """Give the thing that a row belongs to, and its place in it."""
        left, index = row, 0
        for height in self._sums:
            if left < height:
                break
            left -= height
            index += _CHUNK
        else:
            return len(self._each), left
        while left >= self._each[index]:
            left -= self._each[index]
            index += 1
        return index, left
