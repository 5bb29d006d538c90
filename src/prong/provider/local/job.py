"""A request to the engine: what is asked, where it stands, what it took."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from prong.provider.local.attempt import Watch
from prong.provider.local.binding import Sampler
from prong.provider.local.shelf import Strand
from prong.provider.local.template import Role


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one reply."""

    turns: list[tuple[str, Role, list[str]]]
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


class Done(msgspec.Struct, frozen=True, kw_only=True):
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


@dataclass(slots=True, eq=False)
class Job:
    """A request under way."""

    ask: Ask
    tokens: list[int]
    tell: Callable[[str, Any], None]
    """Sends the requester a kind of message and its content."""
    key: str
    asked: float
    strand: Strand | None = None
    sampler: Sampler | None = None
    reused: int = 0
    processed: int = 0
    given: list[int] = field(default_factory=list[int])
    """What is left of the reply's opening, the last token first."""
    made: list[int] = field(default_factory=list[int])
    text: str = ""
    told: int = 0
    """How much of the text has been sent."""
    ends: list[int] = field(default_factory=list[int])
    """Where in the text each token ends."""
    watch: Watch | None = None
    begun: float = 0.0
    over: bool = False
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
