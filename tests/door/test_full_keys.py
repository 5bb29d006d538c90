"""Bytes of terminals as the full screen understands them, compared with line by line."""

from __future__ import annotations

import time

import pytest
from textual.events import Key, Paste

from prong.face.edit.key import KeyDecoder
from prong.face.edit.keymap import meaning
from prong.face.full.input_parser import InputParser
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
    parser = InputParser()
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


TRACE = 'File \x1b[35m"y.py"\x1b[0m\r\n\x1b]8;;http://x\x07link\x1b]8;;\x07\x03\x1b\x1b[201'
"""What may be copied along with a text: colours, a link, a bell, keys, half a mark."""


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_paste_holds_no_keys(size: int) -> None:
    """Escapes in a paste are text of the paste, in whatever pieces they come; keys around it are keys."""
    sent = f"a\x1b[200~{TRACE}\x1b[201~b\x1b[200~\x1b[201~\r"
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    assert told(*pieces) == ["a", TRACE, "b", "", "enter"]


def told(*pieces: str) -> list[str]:
    """Give pastes and keys as they come of pieces."""
    parser = InputParser()
    found = [event for piece in pieces for event in parser.feed(piece)]
    return [e.text if isinstance(e, Paste) else e.key for e in found if isinstance(e, Paste | Key)]


def test_what_is_left_behind_a_mark_does_not_count_twice() -> None:
    """The end of a piece and what follows a mark in its middle make no mark together."""
    assert told("\x1b[200~201~ab\x1b[", "201~", "c") == ["201~ab", "c"]
    assert told("\x1b[200~a\0b\x1b[201~") == ["ab"], "zeros are in no text"


def test_an_escape_that_nothing_follows_is_a_key() -> None:
    """At the end of what there is to read an escape is one, and a key like an answer is a key."""
    assert told("\x1b", "") == ["escape"]
    assert told("\x1b[c") == ["shift+right"]


ANSWERS = [
    *(
        "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
        "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
        "\x1bP>|tmux 3.4\x1b\\",
    ),
    *("\x1b[?64;1;2c", "\x1b[>1;10;0c", "\x1b[=1c", "\x1b[?997;1n", "\x1b[0n", "\x1b[?1u"),
    *("\x1b_Gi=31;OK\x1b\\", "\x1bXa\x1b\\", "\x1b^a\x1b\\", "\x1b[8;24;80t", "\x1b[4;9;9t"),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_terminal_answers_is_not_typed(answer: str) -> None:
    """An editor that has ended leaves answers behind: neither face takes them for keys."""
    parser = InputParser()
    keys = [e.key for e in parser.feed(f"a{answer}b\r") if isinstance(e, Key)]
    assert keys == ["a", "b", "enter"]
    decoder = KeyDecoder()
    assert [one.text or one.name for one in decoder.feed(f"a{answer}b\r".encode())] == [
        *("a", "b", "enter"),
    ]
