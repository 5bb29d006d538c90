"""How a face ends: who has the session next, and what stands in the line there."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from prong.face.edit.buffer import Buffer


class Left(msgspec.Struct, frozen=True):
    """The user leaves."""

    asked: bool = True
    """Whether they said so; else the terminal is gone, or the system ends."""


class Following(msgspec.Struct, frozen=True):
    """Another session is to be gone on with."""

    id: str
    draft: Buffer = Buffer()


class Swapped(msgspec.Struct, frozen=True):
    """The same session goes on in the other face."""

    draft: Buffer = Buffer()


Handover: TypeAlias = Left | Following | Swapped


def drafted(text: str) -> Buffer:
    """Give a text as it stands in a line, with the cursor behind it."""
    return Buffer(text, len(text))
