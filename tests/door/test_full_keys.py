"""Bytes of terminals as the full screen understands them, compared with line by line."""

from __future__ import annotations

import time

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key

from prong.face.edit.key import KeyDecoder
from prong.face.edit.keymap import meaning
from prong.face.full.press import know_alt_enter, pressed

pytestmark = pytest.mark.spec("X2")

SAME = [
    *("\r", "\n", "\t", "\x7f", "\x1b[A", "\x1b[Z", "\x1b[3~", "\x01", "\x03", "\x04", "\x0f"),
    *("\x12", "\x15", "\x17", "\x19", "\x1f", "\x1b[1;5D", "\x1b[1;2C", "\x1b\r", "\x1bb"),
    *("\x1bd", "\x1by", "\x1bz", "\x1bZ", "\x1b[13;2u", "\x1b[27;2;13~", "a", "Z", " ", "/", "é"),
    "漢",
]


@pytest.mark.parametrize("sent", SAME)
def test_keys_mean_the_same_in_both_faces(sent: str) -> None:
    """Whatever a terminal sends for a key does on the full screen what it does line by line."""
    know_alt_enter()
    parser = XTermParser()
    found = [*parser.feed(sent)]
    while not found:
        # Whether more follows an escape is known after a moment.
        time.sleep(0.02)
        found = [*parser.tick()]
    (event,) = found
    assert isinstance(event, Key)
    here = pressed(event)
    decoder = KeyDecoder()
    (there,) = [*decoder.feed(sent.encode()), *decoder.flush()]
    assert (meaning(here.name), here.text) == (meaning(there.name), there.text)
