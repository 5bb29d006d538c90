"""Rows: never too wide, never with what could take control, and nothing lost in wrapping."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from prong.face.cell import cell, cells
from prong.face.draw.row import (
    Row,
    Span,
    chop,
    copied,
    crop,
    crop_left,
    fit,
    pad,
    split_lines,
    wrap,
)
from prong.face.output import drawable

pytestmark = pytest.mark.spec("X2")

TEXTS = st.text(
    st.one_of(
        st.sampled_from(
            "ab  -.漢字한é\u0301👩\u200d\ufe0f\u202e\u200b\x1b\t\n\ufe01\u3164\u3000\xa0"
        ),
        st.characters(),
    ),
    max_size=120,
)
WIDTHS = st.integers(2, 40)


@given(TEXTS)
def test_a_span_is_clean_by_construction(text: str) -> None:
    """No control, format or line character is in a span; its width is the one Textual counts."""
    span = Span(text, link=text)
    assert not [c for c in span.text + span.link if category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert cells(span.text) == cell_len(span.text)
    assert drawable(span.text) == span.text
    assert not span.text or cell(span.text[0]) > 0


def test_marks_do_not_reach_into_other_rows() -> None:
    """A character keeps a few marks; a mark without a character is shown as a dot."""
    assert drawable("e\u0301") == "e\u0301"
    assert drawable("\u0301e") == "·e"
    assert drawable("e" + "\u0301" * 50) == "e" + "\u0301" * 4 + "·" * 46
    assert drawable("👩\u200d👧 ❤\ufe0f") == "👩👧 ❤"
    assert drawable("a\u200db\u202ec\ufe01") == "a·b·c·"


@pytest.mark.parametrize(
    ("text", "drawn", "columns"),
    [
        ("abc", "abc", 3),
        ("日本 Ａ", "日本 Ａ", 7),
        ("한국 각", "한국 각", 7),
        ("e\u0301n\u0303", "e\u0301n\u0303", 2),
        ("👩\u200d💻", "👩💻", 4),
        ("👨\u200d👩\u200d👧", "👨👩👧", 6),
        ("🇩🇪🇫🇷", "🇩🇪🇫🇷", 4),
        ("🇩", "🇩", 1),
        ("👍🏽 ✌🏽", "👍 ✌", 4),
        ("a🏽", "a·", 2),
        ("❤\ufe0f ❤\ufe0e", "❤ ❤", 3),
        ("नमस्ते", "नमस्ते", 4),
        ("हिन्दी", "हिन्दी", 3),
        ("தமிழ்", "தமிழ்", 3),
        ("ไทย กำ", "ไทย กำ", 6),
        ("مَرْحَبًا", "مَرْحَبًا", 5),
        ("±→“…”", "±→“…”", 5),
        ("", "", 0),
    ],
)
def test_columns(text: str, drawn: str, columns: int) -> None:
    """There is one measure, that of what is drawn: wide characters, emoji in the parts whose widths
    terminals agree on, flags, marks above and below letters, scripts whose vowels are marks.
    """
    assert drawable(text) == drawn
    assert cells(drawn) == columns == cell_len(drawn)


@given(TEXTS, WIDTHS, st.booleans())
def test_no_row_is_wider_than_asked(text: str, width: int, hanging: bool) -> None:
    """Wrapped, chopped, fitted or cropped: a row never takes more cells than there are."""
    lead = [Span("- ")] if hanging else []
    spans = [Span(text[:7], "bold"), Span(text[7:])]
    for rows in (wrap(spans, width, first=lead, rest=lead), chop(spans, width, first=lead)):
        assert rows
        assert all(row.width <= width for row in rows)
        assert [row.glue is None for row in rows] == [True] + [False] * (len(rows) - 1)
    assert fit(spans, width).width <= width
    assert cells(crop(text, width)) <= width
    assert cells(crop_left(text, width)) <= width
    assert pad(fit(spans, width), width).width == width


@given(TEXTS, WIDTHS)
def test_wrapping_loses_no_character(text: str, width: int) -> None:
    """Chopped rows are the text; wrapped ones are it but for spaces where a row ends."""
    span = Span(text)
    assert "".join(row.text for row in chop([span], width)) == span.text
    wrapped = "".join(row.text for row in wrap([span], width))
    assert wrapped.replace(" ", "") == span.text.replace(" ", "")


@given(TEXTS, st.integers(6, 40))
def test_a_copy_is_the_text_before_it_was_broken(text: str, width: int) -> None:
    """Rows that go on are joined as they were, and ornaments are left out."""
    span = Span(text)
    lead = [Span("│ ", "dim")]
    for rows in (wrap([span], width, first=lead, rest=lead), chop([span], width, first=lead)):
        assert copied([*rows, Row()]) == span.text.rstrip() + "\n"


def texts(rows: list[Row]) -> list[str]:
    return [row.text for row in rows]


def test_words_stay_whole() -> None:
    """A line breaks between words, a long word where the room ends, ideographs anywhere."""
    lead = [Span("  ")]
    assert texts(wrap([Span("one two three")], 8)) == ["one two", "three"]
    assert texts(wrap([Span("a long-word-without-end b")], 8)) == [
        "a",
        "long-wor",
        "d-withou",
        "t-end b",
    ]
    assert texts(wrap([Span("漢字漢字漢")], 5)) == ["漢字", "漢字", "漢"]
    assert texts(wrap([Span("one two")], 6, first=[Span("* ")], rest=lead)) == ["* one", "  two"]
    assert texts(chop([Span("  if x:  y")], 5)) == ["  if ", "x:  y"]


def test_styles_survive_the_break() -> None:
    """Each part of a broken line keeps its style, and neighbours of one style are one span."""
    rows = wrap([Span("one "), Span("two three", "bold"), Span(" four", "bold")], 9)
    assert rows[0].spans == (Span("one "), Span("two", "bold"))
    assert rows[1].spans == (Span("three", "bold"),)
    assert rows[2].spans == (Span("four", "bold"),)


def test_an_ellipsis_says_that_something_is_missing() -> None:
    """What was cut can be seen to be cut, at the end that was."""
    assert crop("src/prong/face", 8) == "src/pro…"
    assert crop_left("src/prong/face", 8) == "…ng/face"
    assert fit([Span("abc"), Span("def", "bold")], 3).text == "ab…"
    assert crop("漢字漢", 5) == "漢字…"
    assert crop("abc", 0) == ""


def test_lines_of_a_text() -> None:
    """Line ends of either kind end a line, tabs become spaces, the last end adds no line."""
    assert split_lines("a\tb\r\nc\n") == ["a   b", "c"]
    assert split_lines("") == [""]
