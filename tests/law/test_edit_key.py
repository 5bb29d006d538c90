"""Bytes of a terminal as keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.face.edit.key import PASTE, TEXT, Decoder, Key

pytestmark = pytest.mark.spec("X2")

KNOWN = [
    (b"a", Key(TEXT, "a")),
    ("日".encode(), Key(TEXT, "日")),
    (b"\r", Key("enter")),
    (b"\n", Key("ctrl+j")),
    (b"\x01", Key("ctrl+a")),
    (b"\x1f", Key("ctrl+underscore")),
    (b"\x7f", Key("backspace")),
    (b"\x1b\r", Key("alt+enter")),
    (b"\x1b\n", Key("alt+ctrl+j")),
    (b"\x1bb", Key("alt+b")),
    (b"\x1b\x7f", Key("alt+backspace")),
    (b"\x1b<", Key("alt+<")),
    (b"\x1b[A", Key("up")),
    (b"\x1bOA", Key("up")),
    (b"\x1b[1;5C", Key("ctrl+right")),
    (b"\x1b[1;2D", Key("shift+left")),
    (b"\x1b[1;6D", Key("ctrl+shift+left")),
    (b"\x1b[3~", Key("delete")),
    (b"\x1b[1~", Key("home")),
    (b"\x1b[Z", Key("shift+tab")),
    (b"\x1b[13;2u", Key("shift+enter")),
    (b"\x1b[27;2;13~", Key("shift+enter")),
    (b"\x1b[97;5u", Key("ctrl+a")),
    (b"\x1b[97;2u", Key(TEXT, "A")),
    (b"\x1b[32;2u", Key(TEXT, " ")),
    (b"\x1b[200~two\rlines\x1b[201~", Key(PASTE, "two\rlines")),
]


@pytest.mark.parametrize(("data", "key"), KNOWN)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_keys(data: bytes, key: Key, size: int) -> None:
    """Each sequence is one key, whatever pieces it comes in."""
    decoder = Decoder()
    keys = [key for at in range(0, len(data), size) for key in decoder.feed(data[at : at + size])]
    assert keys == [key]
    assert decoder.flush() == []


@pytest.mark.parametrize(
    "data", [b"\x1b[?1;2c", b"\x1b]0;title\x07", b"\x1bP1$r\x1b\\", b"\x1b[99~"]
)
def test_answers_of_the_terminal_are_no_keys(data: bytes) -> None:
    """What a terminal says of itself is not typed."""
    assert Decoder().feed(data) == []


def test_a_lone_escape_is_known_by_what_does_not_follow() -> None:
    """It is kept back for a moment, and given if nothing comes."""
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting
    assert decoder.flush() == [Key("escape")]
    assert not decoder.waiting
    assert decoder.feed(b"\x1b\x1b") + decoder.flush() == [Key("escape"), Key("escape")]


def test_a_paste_holds_what_looks_like_keys() -> None:
    """Keys inside a paste are text of the paste, and an unfinished one waits for its end."""
    decoder = Decoder()
    assert decoder.feed(b"\x1b[200~a\x1b[A\x03") == []
    assert decoder.flush() == []
    assert decoder.feed(b"\r\x1b[201~\r") == [Key(PASTE, "a\x1b[A\x03\r"), Key("enter")]


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    """Whatever comes: nothing is raised, and after a flush nothing but a paste is kept back."""
    decoder = Decoder()
    keys = decoder.feed(data) + decoder.flush()
    assert all(key.name for key in keys)
    assert not decoder.waiting
