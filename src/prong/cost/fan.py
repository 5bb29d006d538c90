"""How N siblings start: with or without the dispatching reply, all at once or one ahead.

Pure arithmetic in input-token equivalents, from what is known before the first child sends.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Dispatch: TypeAlias = Literal["keep", "drop"]
"""Whether children see the reply that dispatched them."""

Schedule: TypeAlias = Literal["at_once", "leader", "prewarm"]
"""Who sends first: everybody, one child, or a request without output."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What reading and writing a cached token cost, in units of an uncached input token."""

    read: float = 0.1
    write: float = 1.25


class FanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The choice, and the numbers it was made by."""

    dispatch: Dispatch
    schedule: Schedule
    reason: str
    """One sentence for the receipt."""
    size: int
    """Siblings."""
    cached: int
    """Tokens of the base that the provider should have cached when the first child sends."""
    fresh: int
    """Tokens of the base that it has not."""
    estimates: dict[str, float] = {}
    """Cost of the alternatives in input-token equivalents, such as `keep/at_once`."""
