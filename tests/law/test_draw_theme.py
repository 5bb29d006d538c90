"""Themes: every style has a look, and every colour can be read on its ground."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import prong.face.draw
from prong.face.draw.ansi import styled
from prong.face.draw.code import _STYLES as CODE
from prong.face.draw.dialog import draw_question
from prong.face.draw.header import draw_header
from prong.face.draw.patch import _STYLES as DIFF
from prong.face.draw.row import Row, Span
from prong.face.draw.theme import THEMES, Look, ThemeName, look
from prong.face.draw.transcript import Transcript, rows_of
from prong.face.draw.tree import Aspect, draw_tree
from prong.view import View
from shared.drawing import story, view_of

pytestmark = pytest.mark.spec("X2")

PLAIN = {"code", "bullet", "bar", "bar.short", "quote.bar", "good", "warn", "code.string"}
COLOURED = {"code.number", "code.name", "code.builtin", "diff.del"}
"""Styles that may look like text where there are no colours."""


def styles() -> set[str]:
    """Find the styles that spans are made with."""
    found: set[str] = set()
    for path in Path(prong.face.draw.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            spans = node.args[1:2] if ast.unparse(node.func) == "Span" else []
            given = [*spans, *(one.value for one in node.keywords if one.arg == "style")]
            for each in given:
                chosen = [each.body, each.orelse] if isinstance(each, ast.IfExp) else [each]
                names = [one.value for one in chosen if isinstance(one, ast.Constant)]
                found |= {name for text in names for name in str(text).split()}
    return found | set(CODE.values()) | set(DIFF.values())


def test_every_style_has_a_look() -> None:
    """A style that is drawn differs from plain text, at least where there are colours."""
    assert len(styles()) > 25
    for name in styles() - {"code"}:
        assert look(THEMES["dark"], name) != Look(), name
        assert look(THEMES["light"], name) != Look(), name
        if name not in PLAIN | COLOURED:
            assert look(THEMES["none"], name) != Look(), name


def test_every_style_can_be_written() -> None:
    """Of whatever style a row is, it can be printed, and takes its codes back."""
    for name in styles():
        written = styled(Row((Span("text", name),)))
        assert written == "text" or re.fullmatch(r"\x1b\[[\d;]+mtext\x1b\[0m", written), name


def test_without_colours_there_are_none() -> None:
    """No theme without colour has one, and the sixteen have no others."""
    assert not [name for name, one in THEMES["none"].items() if one.fore or one.back]
    assert not [name for name, one in THEMES["ansi"].items() if "#" in one.fore + one.back]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("name", "grounds"), [("dark", ("#000000", "#1e1e1e")), ("light", ("#ffffff", "#f6f8fa"))]
)
def test_every_colour_can_be_read(name: ThemeName, grounds: tuple[str, ...]) -> None:
    """Text has a contrast of 4.5 at least to what lies behind it."""
    theme = THEMES[name]
    pairs = [
        (style, one.fore, ground)
        for style, one in theme.items()
        for ground in ((one.back,) if one.back else grounds)
    ]
    pairs += [
        (style, theme[style].fore, theme["diff.word"].back) for style in ("diff.add", "diff.del")
    ]
    bad = [(s, f, g) for s, f, g in pairs if f and s != "quote.bar" and contrast(f, g) < 4.5]
    assert bad == []


def test_several_names_are_one_look() -> None:
    """A later name prevails where it says something; a longer one falls back on a shorter."""
    dark = THEMES["dark"]
    assert look(dark, "") == Look()
    assert look(dark, "strong em") == Look(bold=True, italic=True)
    assert look(dark, "code.keyword.odd") == look(dark, "code.keyword")
    word = look(dark, "diff.add diff.word")
    assert (word.fore, word.back) == (dark["diff.add"].fore, dark["diff.word"].back)


EVIL = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\r\x08\x7f\u200b\n\u2028"


def poisoned() -> View:
    """Tell the story with what could take control in every text of it."""
    import msgspec

    def poison(value):
        if isinstance(value, str) and value not in {"main", "default", "calls"}:
            return EVIL + value
        return value

    told = []
    for path, event in story():
        texts = {
            "title",
            "text",
            "why",
            "thinking",
            "shown",
            "model",
            "arguments",
            "tool",
            "session_id",
        }
        fields = {f: poison(getattr(event, f)) for f in event.__struct_fields__ if f in texts}
        told.append((path, msgspec.structs.replace(event, **fields)))
    return view_of(told)


@pytest.mark.spec("L12")
def test_nothing_on_a_screen_can_take_control() -> None:
    """Whatever models, tools and files are called or say, no row has a control character."""
    view = poisoned()
    transcript = Transcript("main")
    rows = []
    for unfolded in (frozenset[int](), frozenset(range(20))):
        transcript.show(view, 60, now=9.0, unfolded=unfolded)
        rows += rows_of(transcript)
    rows += draw_tree(view, Aspect(width=60))
    rows.append(draw_header(view, 60, now=9.0))
    for asked in view.questions.values():
        dialog = draw_question(asked, 60)
        rows += [*dialog.head, *dialog.body.window(0, 99), *dialog.foot]
    assert len(rows) > 40
    assert "owned" in "".join(row.text for row in rows)
    assert all(row.text.isprintable() for row in rows)
    assert all(row.width <= 60 for row in rows)
    assert all(span.link.isprintable() for row in rows for span in row.spans)
