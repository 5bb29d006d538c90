"""Bytes of a terminal as keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.face.edit.key import PASTE, TEXT, KeyDecoder, KeyPress

pytestmark = pytest.mark.spec("X2")

KNOWN = [
    (b"a", KeyPress(TEXT, "a")),
    ("日".encode(), KeyPress(TEXT, "日")),
    (b"\r", KeyPress("enter")),
    (b"\n", KeyPress("ctrl+j")),
    (b"\x01", KeyPress("ctrl+a")),
    (b"\x1f", KeyPress("ctrl+underscore")),
    (b"\x7f", KeyPress("backspace")),
    (b"\x1b\r", KeyPress("alt+enter")),
    (b"\x1b\n", KeyPress("alt+ctrl+j")),
    (b"\x1bb", KeyPress("alt+b")),
    (b"\x1b\x7f", KeyPress("alt+backspace")),
    (b"\x1b<", KeyPress("alt+<")),
    (b"\x1b[A", KeyPress("up")),
    (b"\x1bOA", KeyPress("up")),
    (b"\x1b[1;5C", KeyPress("ctrl+right")),
    (b"\x1b[1;2D", KeyPress("shift+left")),
    (b"\x1b[1;6D", KeyPress("ctrl+shift+left")),
    (b"\x1b[3~", KeyPress("delete")),
    (b"\x1b[1~", KeyPress("home")),
    (b"\x1b[Z", KeyPress("shift+tab")),
    (b"\x1b[13;2u", KeyPress("shift+enter")),
    (b"\x1b[27;2;13~", KeyPress("shift+enter")),
    (b"\x1b[97;5u", KeyPress("ctrl+a")),
    (b"\x1b[97;2u", KeyPress(TEXT, "A")),
    (b"\x1b[32;2u", KeyPress(TEXT, " ")),
    (b"\x1b[200~two\rlines\x1b[201~", KeyPress(PASTE, "two\rlines")),
]


@pytest.mark.parametrize(("data", "key"), KNOWN)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_keys(data: bytes, key: KeyPress, size: int) -> None:
    """Each sequence is one key, whatever pieces it comes in."""
    decoder = KeyDecoder()
    keys = [key for at in range(0, len(data), size) for key in decoder.feed(data[at : at + size])]
    assert keys == [key]
    assert decoder.flush() == []


@pytest.mark.parametrize(
    "data", [b"\x1b[?1;2c", b"\x1b]0;title\x07", b"\x1bP1$r\x1b\\", b"\x1b[99~"]
)
def test_answers_of_the_terminal_are_no_keys(data: bytes) -> None:
    """What a terminal says of itself is not typed."""
    assert KeyDecoder().feed(data) == []


def test_a_lone_escape_is_known_by_what_does_not_follow() -> None:
    """It is kept back for a moment, and given if nothing comes."""
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting
    assert decoder.flush() == [KeyPress("escape")]
    assert not decoder.waiting
    assert decoder.feed(b"\x1b\x03") == [KeyPress("escape"), KeyPress("ctrl+c")]
    assert decoder.feed(b"\x1b\x1b") + decoder.flush() == [KeyPress("escape"), KeyPress("escape")]


def test_a_paste_holds_what_looks_like_keys() -> None:
    """Keys inside a paste are text of the paste, and an unfinished one waits for its end."""
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[200~a\x1b[A\x03") == []
    assert decoder.flush() == []
    assert decoder.feed(b"\r\x1b[201~\r") == [KeyPress(PASTE, "a\x1b[A\x03\r"), KeyPress("enter")]


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    """Whatever comes: nothing is raised, and after a flush nothing but a paste is kept back."""
    decoder = KeyDecoder()
    keys = decoder.feed(data) + decoder.flush()
    assert all(key.name for key in keys)
    assert not decoder.waiting
