"""Numbers that others wrote."""

from __future__ import annotations

from typing import TypeGuard

_LONGEST = 15
"""Digits of the longest number that means anything here; Python refuses to read some thousands."""


def whole_number(text: str | bytes) -> int | None:
    """Read a whole number of up to 15 digits; None if the text is anything else."""
    return int(text) if len(text) <= _LONGEST and text.isascii() and text.isdigit() else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value can be counted with: no bool, not endless, of 15 digits at most."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
