"""How a face ends: who has the session next, and what stands in the line there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from prong.entry import Image
from prong.face.edit.buffer import Buffer
from prong.face.edit.paste import refold


class FaceStart(msgspec.Struct, frozen=True):
    """With what a face begins."""

    first: str = ""
    """What is said at once."""
    draft: Buffer = Buffer()
    """What stands in the line."""
    note: str = ""
    """What is told above it."""


class Left(msgspec.Struct, frozen=True):
    """The user leaves."""

    asked: bool = True
    """Whether they said so; else the terminal is gone, or the system ends."""


class Following(msgspec.Struct, frozen=True):
    """Another session is to be gone on with."""

    id: str
    draft: Buffer = Buffer()
    note: str = ""
    """What came of what the user asked for, where the screen that was told is gone."""


class Swapped(msgspec.Struct, frozen=True):
    """The same session goes on in the other face."""

    draft: Buffer = Buffer()


Handover: TypeAlias = Left | Following | Swapped


def drafted(text: str, pictures: Sequence[Image] = ()) -> Buffer:
    """Give a message as it stands in a line, with the cursor behind it."""
    held = refold(text, pictures)
    draft = Buffer(text, len(text), folded=held)
    for picture in () if held else pictures:
        draft = draft.insert(" " if draft.text else "").attach("picture", picture)
    return draft
