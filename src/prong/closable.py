"""What is held until it is closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closable(ABC):
    """Something that is open until it is closed, or for the length of a block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; to close twice does nothing."""

    def __enter__(self) -> Self:
        """Keep it open for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
