"""Keys as Textual names them, as ours."""

from __future__ import annotations

from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.events import Key
from textual.keys import Keys

from prong.face.edit.key import TEXT, KeyPress

_MODIFIERS = ("ctrl", "alt", "shift")
_NAMED = {
    "left_square_bracket": "[",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "right_square_bracket": "]",
    "\r": "enter",
}


def know_alt_enter() -> None:
    """Tell Alt+Enter from Enter: Textual loses the modifier of the two bytes that terminals send.

    What was to begin another line would be sent. It is taken for Ctrl+J, which does the same.
    """
    cast("dict[str, object]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


def pressed(event: Key) -> KeyPress:
    """Give the key that was pressed."""
    *held, name = event.key.split("+")
    typed = event.character
    if typed is not None and typed.isprintable() and not {"ctrl", "alt"} & {*held}:
        return KeyPress(TEXT, typed)
    name = _NAMED.get(name, name)
    if len(name) == 1 and name.isupper():
        held, name = [*held, "shift"], name.lower()
    modifiers = [one for one in _MODIFIERS if one in held]
    return KeyPress("+".join([*modifiers, name]))
