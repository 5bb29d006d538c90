"""What goes wrong in replies of small models: calls in another form than their own, and loops.

Calls are noticed before anybody has read them.

Small models write a call as a block of JSON, whatever form they were shown. Such an object names a
function and then its arguments, which nothing else does that a reply may hold: a text that merely
begins with a name, as many settings files do, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FENCES = ("", "```", "```json", "<tool_response>", "<|python_tag|>", "[")
_KEYS = ("arguments", "parameters")
_LONGEST = 400


def _steps(fence: str, key: str) -> list[str]:
    """Give the patterns of a call's beginning, one after the other; spaces do not count."""
    before, after = f'{fence}{{"name":"', f'","{key}":'
    return [*map(re.escape, before), '[^"]+', *map(re.escape, after)]


def _growing(steps: Sequence[str]) -> str:
    """Make the pattern of everything that the steps can begin with."""
    pattern = ""
    for step in reversed(steps):
        pattern = f"(?:{step}{pattern})?"
    return pattern


_ALL = [_steps(fence, key) for fence in _FENCES for key in _KEYS]
_WHOLE = re.compile("|".join("".join(steps) for steps in _ALL))
_BEGUN = re.compile("|".join(map(_growing, _ALL)))


_PERIOD = 128
_TIMES = 4
_LEAST = 96


def is_stuck(tokens: Sequence[int]) -> bool:
    """Tell whether a reply ends with one stretch over and over: a small model never leaves that.

    Four times at least, and ninety-six tokens: lists and tables repeat less than that.
    """
    for period in range(1, _PERIOD + 1):
        length = period * max(_TIMES, -(-_LEAST // period))
        if len(tokens) < length:
            continue
        if tokens[-period:] == tokens[-2 * period : -period] and (
            tokens[-length:-period] == tokens[len(tokens) - length + period :]
        ):
            return True
    return False


class CallDetector:
    """Reads a reply as it grows, and says where a call begins."""

    def __init__(self, *, first_only: bool) -> None:
        """Look at the beginning of every line, or of the reply only."""
        self._first_only = first_only
        self._at = 0
        self.settled = 0
        """How much of the reply is known to be text."""

    def read(self, text: str) -> int | None:
        """Take the reply so far; gives where a call begins, if one certainly does."""
        while self._at >= 0:
            rest = "".join(text[self._at :].split())
            if _WHOLE.match(rest):
                return self._at if text[: self._at].strip() else 0
            if _BEGUN.fullmatch(rest) and len(rest) < _LONGEST:
                self.settled = self._at
                return None
            line = text.find("\n", self._at)
            self.settled = len(text)
            if self._first_only:
                self._at = -1
            elif line < 0:
                return None
            else:
                self._at = line + 1
        self.settled = len(text)
        return None
