from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from prong.host.storage import LocalStorage
from prong.tools.collector import LONGEST_LINE, Cleaner, Collector, clean

SCRAPS = st.sampled_from(
    ["\x1b[31m", "\x1b[0m", "\x1b]0;t\x07", "\x1b(B", "\x1b", "\x9b1m", "\r", "\r\n", "\n", "\0", "é",
     "\U0001f600", "10%", "plain text", "\x08", "\t", "[", "]8;;"]
)  # fmt: skip
PRINTED = st.lists(SCRAPS.map(str.encode) | st.binary(max_size=6), max_size=40).map(b"".join)


@given(PRINTED, st.lists(st.integers(0, 300), max_size=8))
def test_where_the_pipe_cuts_does_not_matter(data: bytes, cuts: list[int]) -> None:
    """Fed in any pieces, the same bytes give the same text, and the unfinished line is its end."""
    ends = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    whole, pieces = Cleaner(), Cleaner()

    expected = whole.feed(data) + whole.finish()
    got = "".join(pieces.feed(data[a:b]) for a, b in pairwise(ends))
    held = pieces.held
    rest = pieces.finish()

    assert got + rest == expected
    assert rest.rstrip("\ufffd").startswith(held.rstrip("\ufffd"))


@given(PRINTED)
def test_clean_text_is_clean(data: bytes) -> None:
    """No escape, carriage return or control character is left, and cleaning again changes nothing."""
    text = clean(data.decode("utf-8", "replace"))

    assert all(c in "\t\n" or c.isprintable() or ord(c) > 0x9F for c in text)
    assert clean(text) == text


@given(st.text(alphabet="ab é\n\t[]", max_size=200))
def test_plain_text_is_not_touched(text: str) -> None:
    """Text without control characters comes through as it is."""
    cleaner = Cleaner()
    assert cleaner.feed(text.encode()) + cleaner.finish() == text


def test_a_line_without_end_is_not_held_for_ever() -> None:
    """A long line is let go in pieces, and endless progress keeps only its last state."""
    cleaner = Cleaner()
    assert len(cleaner.feed(b"x" * (LONGEST_LINE + 1))) > LONGEST_LINE
    assert cleaner.held == ""

    for n in range(100_000):
        assert cleaner.feed(b"\r%d of 100000" % n) == ""
    assert cleaner.held == "99999 of 100000"
    assert cleaner.feed(b"\r") + cleaner.feed(b"\n") == "99999 of 100000\n"


@given(
    st.lists(st.text(alphabet="abcé\n", max_size=30), max_size=20),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_both_ends_are_kept_and_the_file_has_all(texts: list[str], head: int, tail: int) -> None:
    """Kept and dropped characters add up, and whenever something was dropped a file holds all of it."""
    whole = "".join(texts)
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(head=head, tail=tail, storage=LocalStorage(folder))
        for text in texts:
            collector.add(text)
        collector.close()

        assert collector.dropped == max(0, len(whole) - head - tail)
        if not collector.dropped:
            assert (collector.text(), collector.path) == (whole, "")
        else:
            assert collector.text().startswith(whole[:head])
            assert collector.text().endswith(whole[len(whole) - tail :])
            assert Path(collector.path).read_text() == whole


def test_a_file_that_was_closed_is_not_said_to_hold_what_comes_later() -> None:
    """Whoever goes on after the file was closed is told of two ends, and of no file with all."""
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(head=5, tail=5, storage=LocalStorage(folder))
        collector.add("x" * 20)
        assert collector.path
        collector.close()
        assert f"all of it is in {collector.path}" in collector.text()
        collector.add("later")

    assert "all of it is in" not in collector.text()
    assert collector.text().endswith("later")
