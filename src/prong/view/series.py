"""A sequence that never changes: what is added gives a new one, which shares nearly all of it.

Items lie in blocks. To add one copies the last block, and now and then the list of blocks; to
replace one copies its block. A view of ten thousand items can so be made ten thousand times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar, cast

_Item = TypeVar("_Item")
_BLOCK = 64


class Series(Generic[_Item]):
    """An immutable sequence that is cheap to extend."""

    __slots__ = ("_full", "_last")

    def __init__(self, items: Iterable[_Item] = ()) -> None:
        """Make one of items."""
        given = tuple(items)
        whole = len(given) // _BLOCK * _BLOCK
        self._full: tuple[tuple[_Item, ...], ...] = tuple(
            given[start : start + _BLOCK] for start in range(0, whole, _BLOCK)
        )
        self._last: tuple[_Item, ...] = given[whole:]

    def add(self, item: _Item) -> Series[_Item]:
        """Give a series with one more item."""
        last = (*self._last, item)
        if len(last) < _BLOCK:
            return _made(self._full, last)
        return _made((*self._full, last), ())

    def put(self, index: int, item: _Item) -> Series[_Item]:
        """Give a series with another item in a place."""
        number, place = divmod(index, _BLOCK)
        if number == len(self._full):
            return _made(self._full, _with(self._last, place, item))
        block = _with(self._full[number], place, item)
        return _made(_with(self._full, number, block), self._last)

    def differing(self, other: Series[_Item]) -> Iterator[int]:
        """Give the places where this series has another item than that one, or one more.

        What both share is not looked at.
        """
        for number, block in enumerate((*self._full, self._last)):
            theirs = other._block(number)
            if block is theirs:
                continue
            for place, item in enumerate(block):
                if place >= len(theirs) or theirs[place] is not item:
                    yield number * _BLOCK + place

    def _block(self, number: int) -> tuple[_Item, ...]:
        if number < len(self._full):
            return self._full[number]
        return self._last if number == len(self._full) else ()

    def __len__(self) -> int:
        return len(self._full) * _BLOCK + len(self._last)

    def __getitem__(self, index: int) -> _Item:
        size = len(self)
        place = index + size if index < 0 else index
        if not 0 <= place < size:
            raise IndexError(index)
        number, place = divmod(place, _BLOCK)
        return (self._full[number] if number < len(self._full) else self._last)[place]

    def __iter__(self) -> Iterator[_Item]:
        return chain(chain.from_iterable(self._full), self._last)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Series):
            return NotImplemented
        theirs = cast("Series[object]", other)
        return self._full == theirs._full and self._last == theirs._last

    def __hash__(self) -> int:
        return hash((self._full, self._last))

    def __repr__(self) -> str:
        return f"Series({list(self)!r})"


def _made(full: tuple[tuple[_Item, ...], ...], last: tuple[_Item, ...]) -> Series[_Item]:
    made = cast("Series[_Item]", Series.__new__(Series))
    made._full, made._last = full, last  # noqa: SLF001 - a series of its own class
    return made


_Any = TypeVar("_Any")


def _with(items: tuple[_Any, ...], place: int, item: _Any) -> tuple[_Any, ...]:
    return (*items[:place], item, *items[place + 1 :])
