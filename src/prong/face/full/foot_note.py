"""What is told in passing, above the line, until something is sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from prong.face.line import describe_forks
from prong.view import View

_HELD = 40
"""Lines at most; the oldest go first."""


class FootNotes:
    """Lines that are told, each with a style, what is waited for, and forks split off here."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=_HELD)
        self._forks: tuple[str, ...] = ()
        self._waits: list[str] = []

    @property
    def is_waiting(self) -> bool:
        """Whether something is waited for."""
        return bool(self._waits)

    @contextmanager
    def wait(self, text: str) -> Generator[None]:
        """Tell what is waited for, until it has come."""
        self._waits.append(text)
        try:
            yield
        finally:
            self._waits.remove(text)

    def add(self, *lines: tuple[str, str]) -> None:
        """Tell more lines."""
        self._lines += lines

    def add_forks(self, ids: Iterable[str]) -> None:
        """Tell that forks work, of each until it has ended."""
        self._forks += tuple(ids)

    def clear(self) -> None:
        """Tell nothing any more but what is waited for."""
        self._lines.clear()
        self._forks = ()

    def shown(self, view: View) -> tuple[tuple[str, str], ...]:
        """Give the lines as things stand."""
        children = [(name, view.child(name)) for name in self._forks]
        working = [name for name, child in children if child is None or not child.ended]
        waits = [(text, "dim") for text in self._waits]
        return (*self._lines, *waits, *describe_forks(working))
