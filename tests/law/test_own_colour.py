"""What other programs print in colours, drawn as rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.face.draw.ansi import styled
from prong.face.draw.own_colour import own_rows
from prong.face.draw.theme import THEMES, Look, look

pytestmark = pytest.mark.spec("X1")
PIECES = st.sampled_from(
    [
        *("\x1b[32m", "\x1b[1;38;5;208m", "\x1b[48;2;1;2;3m", "\x1b[0m", "\x1b[m", "\x1b[38;5m"),
        *(
            "\x1b[2J",
            "\x1b[H",
            "\x1b]0;title\x07",
            "\x1b]8;;https://x.test\x1b\\",
            "\x1b]52;c;eA==\x07",
        ),
        *("\x1bP1$r\x1b\\", "\x1b", "\x1b[", "\x1b]", "\x9b31m", "\a", "\r", "\b", "\t", "\n"),
        *("text", "größe", "日本", "\u202e", "\x00"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.integers(1, 40))
def test_nothing_but_looks_is_taken_over(text: str, width: int) -> None:
    """Whatever is printed, no row holds a control, is too wide, or is one too many."""
    rows = own_rows(text, width, most=3, indent=2)

    assert len(rows) <= 3
    for row in rows:
        assert row.text.isprintable()
        assert row.width <= width
        for theme in THEMES.values():
            assert all(isinstance(look(theme, span.style), Look) for span in row.spans)
        codes = styled(row).split("\x1b[")[1:]
        assert all(code.partition("m")[0].replace(";", "").isdigit() for code in codes)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("32", Look(fore="green")),
        ("1;91", Look(fore="bright_red", bold=True)),
        ("38;5;208", Look(fore="#ff8700")),
        ("38;5;244;4", Look(fore="#808080", underline=True)),
        ("48:2:10:20:30", Look(back="#0a141e")),
        ("7", Look(reverse=True)),
        ("38;9;1", Look(bold=True)),
    ],
)
def test_codes_of_looks(code: str, found: Look) -> None:
    """The sixteen colours, the palette and colours of three parts look as they were meant."""
    [row] = own_rows(f"\x1b[{code}mhere\x1b[0m not", 40, most=1)
    worn, plain = row.spans

    assert (worn.text, plain.text) == ("here", " not")
    assert look(THEMES["ansi"], worn.style) == found
    assert look(THEMES["ansi"], plain.style) == Look()


def test_where_there_are_no_colours_shapes_stay() -> None:
    """Without colours bold is bold, and red is not red."""
    [row] = own_rows("\x1b[1;31mhere", 40, most=1)

    assert look(THEMES["none"], row.spans[0].style) == Look(bold=True)


def test_what_shows_nothing_is_nothing() -> None:
    """Codes, blanks and empty lines alone make no rows."""
    assert own_rows("\x1b[32m \n\x1b[0m\n", 40, most=3) == ()
    assert own_rows("", 40, most=3) == ()
