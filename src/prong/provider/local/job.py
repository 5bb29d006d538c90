"""A request to the engine: what is asked, where it stands, what it took."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from prong.provider.local.attempt import CallDetector, is_stuck
from prong.provider.local.binding import Sampler
from prong.provider.local.template import ChatRole
from prong.provider.local.token_cache import Strand


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one reply."""

    turns: list[tuple[str, ChatRole, list[str]]]
    """Key and role of each turn, and its text: contents and marks in turn, contents first."""
    max_tokens: int = 512
    """0 computes the prompt and nothing else."""
    temperature: float = 0.0
    seed: int = 0
    opening: str = ""
    """What the reply begins with, in words that the grammar allows; the rest is chosen."""
    grammar: str = ""
    trigger: str = ""
    """The text from which on the grammar holds."""
    proper: list[str] = []
    """How a call begins; put in the place of one that begins otherwise. Without this and without a
    trigger the grammar holds from the beginning."""
    first_only: bool = False
    """Whether a call is the whole of its reply."""
    share: bool = True
    """Whether to borrow what is computed already; off to measure what that is worth."""


class CompletionDone(msgspec.Struct, frozen=True, kw_only=True):
    """What a request took, by the engine's own count."""

    reason: Literal["stop", "length", "loop"]
    """Loop: it only repeated itself, and was ended for that."""
    reused: int
    processed: int
    output: int
    seconds: float
    """From admission to the end."""
    prefill: float
    """From admission to the first token."""
    cells: int
    """Cells of the cache in use when it ended, by all sequences."""


_LOOK = 32
"""Tokens of a reply between two looks for a loop."""


class Draft:
    """A reply as far as it is written."""

    def __init__(self, opening: Sequence[int] = ()) -> None:
        """Begin with tokens that are not to be chosen."""
        self.made: list[int] = []
        self.text = ""
        self._given = list(reversed(opening))
        self._ends: list[int] = []
        self._told = 0
        self._watch: CallDetector | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def watched(self) -> bool:
        """Whether a call may still begin in another form than its own."""
        return self._watch is not None

    def watch(self, *, first_only: bool) -> None:
        """Look for calls from now on; what may become one is not given out."""
        self._watch = CallDetector(first_only=first_only)

    def next_given(self) -> int | None:
        """Give the next token of the opening, if any is left."""
        return self._given.pop() if self._given else None

    def add(self, token: int, piece: bytes) -> None:
        """Append a token with its bytes."""
        self.made.append(token)
        self.text += self._decoder.decode(piece)
        self._ends.append(len(self.text))

    def find_call(self, trigger: str) -> int | None:
        """Say where a call begins that is not in its proper form, if one certainly does."""
        if trigger and trigger in self.text:
            # It has begun a call as it should, and the grammar holds.
            self._watch = None
        return self._watch.read(self.text) if self._watch is not None else None

    def cut(self, begins: int) -> tuple[int, str]:
        """Say how many tokens end before a place, and what stands between the last and it."""
        kept = sum(end <= begins for end in self._ends)
        return kept, self.text[self._ends[kept - 1] if kept else 0 : begins]

    def retake(self, begins: int, kept: int, tokens: Sequence[int], proper: str) -> None:
        """Put other tokens after those that are kept, and a call's opening at its place."""
        self.made[kept:] = tokens
        self.text = self.text[:begins] + proper
        self._watch = None
        self._decoder.reset()

    def give_out(self) -> str:
        """Give the text that is certain and was not given out."""
        return self._upto(len(self.text) if self._watch is None else self._watch.settled)

    def end(self) -> str:
        """Take the reply for whole, and give the rest of its text."""
        self._watch = None
        self.text += self._decoder.decode(b"", final=True)
        return self._upto(len(self.text))

    def _upto(self, end: int) -> str:
        start, self._told = self._told, max(self._told, end)
        return self.text[start : self._told]

    def loops(self) -> bool:
        """Whether it only repeats itself; looked at now and then."""
        return len(self.made) % _LOOK == 0 and is_stuck(self.made)


class Job(msgspec.Struct, eq=False):
    """A request under way."""

    ask: CompletionRequest
    tokens: list[int]
    tell: Callable[[str, Any], None]
    """Sends the requester a kind of message and its content."""
    key: str
    asked: float
    draft: Draft
    strand: Strand | None = None
    sampler: Sampler | None = None
    reused: int = 0
    processed: int = 0
    begun: float = 0.0
    over: bool = False
