"""Going back to what was said earlier: line by line, or by a search that narrows as one types."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace


class Recall(msgspec.Struct, frozen=True):
    """A place in what was said, and what was being typed before somebody went there."""

    said: tuple[str, ...] = ()
    """The latest first."""
    at: int = -1
    """Which of it is shown; -1 for none."""
    draft: str = ""

    @property
    def text(self) -> str:
        """What stands in the line now."""
        return self.draft if self.at < 0 else self.said[self.at]

    def add(self, text: str) -> Recall:
        """Take in what was just said, and come back to an empty line."""
        rest = tuple(one for one in self.said if one != text)
        return Recall((text, *rest)) if text.strip() else Recall(self.said)

    def older(self, now: str) -> Recall:
        """Go back one; `now` is what stands in the line, and is kept if it was being typed."""
        if self.at + 1 >= len(self.said):
            return self
        return replace(self, at=self.at + 1, draft=now if self.at < 0 else self.draft)

    def newer(self) -> Recall:
        """Come forward one, in the end to what was being typed."""
        return replace(self, at=max(-1, self.at - 1))


class HistorySearch(msgspec.Struct, frozen=True):
    """A search in what was said; the latest that holds all its words is found first."""

    said: tuple[str, ...]
    query: str = ""
    at: int = -1
    """What is found; -1 if nothing is."""
    before: str = ""
    """What stood in the line, for when the search is given up."""

    @property
    def found(self) -> str:
        """The text that is found; empty if nothing is."""
        return self.said[self.at] if self.at >= 0 else ""

    def typed(self, text: str) -> HistorySearch:
        """HistorySearch for more."""
        return self._look(self.query + text, max(0, self.at))

    def erased(self) -> HistorySearch:
        """HistorySearch for less, from the latest on."""
        return self._look(self.query[:-1], 0)

    def again(self) -> HistorySearch:
        """Look for one further back; stays if there is none."""
        further = self._look(self.query, self.at + 1)
        return further if further.at >= 0 else self

    def _look(self, query: str, start: int) -> HistorySearch:
        words = query.lower().split()
        matching = (
            at
            for at in range(start, len(self.said))
            if words and all(word in self.said[at].lower() for word in words)
        )
        return replace(self, query=query, at=next(matching, -1))
