"""What is said between a session and a process that acts in it: a line of JSON each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from prong.command import Interrupt, Outcome, Say, Stop, Tell
from prong.question import Answer

CONTROL = "control"
"""The kind of socket at which a session is asked."""
LONGEST = 256_000
"""Bytes that a line may have."""

OutsideCommand: TypeAlias = Say | Tell | Answer | Interrupt | Stop
"""What can be done to a session from another process."""


class ControlHello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of who wants to act."""

    code: str
    """Four digits that its own user sees."""


class ControlVerdict(msgspec.Struct, frozen=True):
    """Whether it may; the answer to the first line."""

    why: str = ""
    """Why not; empty if it may."""


class OutsideOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command from outside."""

    id: str
    """Made up by who sends it: the same order sent twice is carried out once."""
    command: OutsideCommand
    asked: int = 0
    """For an answer: the number of the event that asked, so that it answers what was seen."""


class OrderDone(msgspec.Struct, frozen=True):
    """What came of an order."""

    id: str
    outcome: Outcome
