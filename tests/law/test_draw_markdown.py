"""Markdown in pieces: the same rows as of the whole, and what is drawn stays."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from prong.face.draw.markdown import Cutter, Flow, draw_markdown, split
from prong.face.draw.row import Row
from prong.face.prose import Prose

pytestmark = pytest.mark.spec("X2")

SAMPLE = """\
# Title
Some *text* with **bold** and `code` and a [link](https://example.com/a_b) and https://x.org/y.
Second line.

## Sub

- one
- two with a long line that must be wrapped because it is longer than the width is
  - nested
    - deep

    para in nested
- [x] task done
- [ ] task open

1. first

   continued

   ```py
   def f(x):
       return "a" + 1  # c
   ```
2. second
10. tenth

> quote one
> two
>
> - in quote

| a | b | number |
|---|:--|------:|
| x | some long text in the cell that needs wrapping | 12 |
| `y` | z | 1,000 |

```python
class A:
\tdef f(self): return 1

    x = "äö"
```
---
<b>html</b> &amp; ![alt](pic.png)

[1]: http://ref.example

last para ~~gone~~
"""

LINES = st.sampled_from(
    [
        "",
        "",
        "plain words *and* **more**",
        "# head",
        "- item",
        "* * *",
        "  - nested",
        "1. one",
        "2. two",
        "    indented",
        "```py",
        "```",
        "``` not `a` fence",
        "~~~~",
        "> quote",
        "> ```",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "---",
        "<b>x</b>",
        "[l](http://x.y) ![i](p)",
        "x = 'é漢'",
        "\tcode",
        "-",
        "\x1b[31m",
    ]
)
TEXTS = st.lists(LINES, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
) | st.text(st.sampled_from("`~-*#> 1.|[]()!\\\r\na"), max_size=40)


@st.composite
def in_pieces(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a text, and the same cut anywhere."""
    text = draw(TEXTS)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    cuts = [0, *places, len(text)]
    return text, [text[a:b] for a, b in pairwise(cuts)]


@given(in_pieces(), st.integers(2, 30))
def test_pieces_give_the_rows_of_the_whole(given_: tuple[str, list[str]], width: int) -> None:
    """However a text comes, it is drawn the same, and finished rows never change."""
    text, pieces = given_
    flow = Flow(width)
    so_far, stayed = "", list[Row]()
    for piece in pieces:
        so_far += piece
        done, _ = flow.show(so_far)
        assert done[: len(stayed)] == stayed
        stayed = list(done)
    whole = draw_markdown(text, width)
    assert flow.finish() == whole
    assert whole[: len(stayed)] == stayed
    assert all(row.width <= width for row in whole)


@pytest.mark.parametrize(
    "text",
    [SAMPLE, "a\n``` not `a` fence\nb", "a\n---\nb", "1. a\n10. b\n1986. c", "a\r\n\r\nb\rc"],
)
def test_letter_by_letter(text: str) -> None:
    """The beginning of a line decides nothing that its rest could change."""
    cutter = Cutter()
    found = [block for letter in text for block in cutter.feed(letter)]
    assert [*found, *filter(None, [cutter.tail])] == split(text)


@given(in_pieces(), st.integers(2, 30))
@example((">\n\n1", [">\n\n1"]), 2)
def test_printed_prose_is_the_whole(given_: tuple[str, list[str]], width: int) -> None:
    """Printed block by block, where nothing can be taken back, a text is the same rows too."""
    text, pieces = given_
    prose = Prose()
    for _ in range(2):
        rows = [row for piece in pieces for row in prose.feed(piece, width)]
        assert [*rows, *prose.finish(width)] == draw_markdown(text, width)
        assert prose.pending == ""


@given(in_pieces())
def test_blocks_hold_every_line(given_: tuple[str, list[str]]) -> None:
    """No line that says something is lost between blocks, and pieces give the same blocks."""
    text, pieces = given_
    blocks = split(text)
    joined = "\n".join(block.source for block in blocks)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    said = [line.rstrip() for line in lines if line.strip()]
    assert [line.rstrip() for line in joined.split("\n") if line.strip()] == said
    cutter = Cutter()
    found = [block for piece in pieces for block in cutter.feed(piece)]
    assert [*found, *filter(None, [cutter.tail])] == blocks


@given(TEXTS, st.integers(2, 30), st.integers(2, 30))
def test_another_width_draws_the_same_as_new(text: str, one: int, other: int) -> None:
    """A resize gives what would have been drawn in that width from the beginning."""
    flow = Flow(one)
    flow.show(text)
    flow.resize(other)
    assert flow.finish() == draw_markdown(text, other)


@given(st.text(st.characters(), max_size=60), st.integers(2, 30))
def test_any_text_is_drawn(text: str, width: int) -> None:
    """Nothing that a model writes makes drawing fail, and no row is too wide."""
    for source in (text, f"```py\n{text}\n```", f"- {text}", f"|{text}|b|\n|-|-|\n|{text}|1|"):
        assert all(row.width <= width for row in draw_markdown(source, width))


def shown(text: str, width: int = 40) -> str:
    return "\n".join(row.text.rstrip() for row in draw_markdown(text, width))


@given(st.lists(LINES, max_size=10), st.integers(60, 90))
def test_no_word_is_lost(lines: list[str], width: int) -> None:
    """Whatever stands around a word, it is shown."""
    text = "\n".join(f"{line} word{number}" for number, line in enumerate(lines))
    drawn = shown(text, width)
    assert [n for n in range(len(lines)) if f"word{n}" not in drawn] == []


@pytest.mark.parametrize("text", [">" * 900, "- " * 30 + "x", "1. " * 900, "> - " * 40 + "deep"])
def test_what_is_nested_too_deep_is_shown_as_written(text: str) -> None:
    """A parser gives up on deep nesting; the reader still sees the text."""
    assert "".join(shown(text).split()) == "".join(text.split())


def test_each_kind_of_block() -> None:
    """Headings, lists, quotes, tables, code, rules, links, pictures and HTML, in 60 columns."""
    assert shown(SAMPLE, 60) == snapshot("""\
Title
Some text with bold and code and a link
(https://example.com/a_b) and https://x.org/y.
Second line.

Sub

• one
• two with a long line that must be wrapped because it is
  longer than the width is
  ◦ nested
    ▪ deep

    para in nested
• [x] task done
• [ ] task open

1. first

   continued

     def f(x):
         return "a" + 1  # c
2. second
10. tenth

│ quote one
│ two
│
│ • in quote

a │ b                                              │ number
──┼────────────────────────────────────────────────┼───────
x │ some long text in the cell that needs wrapping │     12
y │ z                                              │  1,000

  class A:
      def f(self): return 1

      x = "äö"
────────────────────────────────────────
<b>html</b> & [image: alt] (pic.png)

[1]: http://ref.example

last para gone\
""")
    assert shown(SAMPLE, 26) == snapshot("""\
Title
Some text with bold and
code and a link
(https://example.com/a_b)
and https://x.org/y.
Second line.

Sub

• one
• two with a long line
  that must be wrapped
  because it is longer
  than the width is
  ◦ nested
    ▪ deep

    para in nested
• [x] task done
• [ ] task open

1. first

   continued

     def f(x):
         return "a" + 1  #
      c
2. second
10. tenth

│ quote one
│ two
│
│ • in quote

a │ b             │ number
──┼───────────────┼───────
x │ some long     │     12
  │ text in the   │
  │ cell that     │
  │ needs         │
  │ wrapping      │
y │ z             │  1,000

  class A:
      def f(self): return
  1

      x = "äö"
──────────────────────────
<b>html</b> & [image: alt]
(pic.png)

[1]: http://ref.example

last para gone\
""")


def styles(text: str) -> list[tuple[str, str]]:
    return [(span.text, span.style) for row in draw_markdown(text, 60) for span in row.spans]


def test_styles_say_what_a_span_is() -> None:
    """Emphasis, code, links and languages are named; a link is told where it leads."""
    assert styles("# A *b*") == snapshot([("A ", "heading.1"), ("b", "heading.1 em")])
    assert styles("**b *i*** `c` ~~s~~ [t](http://x.y)") == snapshot(
        [
            ("b ", "strong"),
            ("i", "strong em"),
            (" ", ""),
            ("c", "code.inline"),
            (" ", ""),
            ("s", "struck"),
            (" ", ""),
            ("t", "link"),
            (" (", ""),
            ("http://x.y", "link.address"),
            (")", ""),
        ]
    )
    assert styles("```python\ndef f(): return 'x'\n```") == snapshot(
        [
            ("  ", "code"),
            ("def", "code.keyword"),
            (" ", "code"),
            ("f", "code.name"),
            ("(): ", "code"),
            ("return", "code.keyword"),
            (" ", "code"),
            ("'x'", "code.string"),
        ]
    )
    assert styles("```nonsense\ndef f()\n```") == snapshot(
        [("  ", "code"), ("nonsense", "dim"), ("  def f()", "code")]
    )


def test_a_link_cannot_hide_where_it_leads() -> None:
    """The address stands beside a text that differs from it; only safe schemes can be pressed."""
    assert shown("[https://good.example](https://evil.example)") == (
        "https://good.example\n(https://evil.example)"
    )
    assert shown("<https://a.example>") == "https://a.example"
    links = {
        s.link for r in draw_markdown("[a](javascript:x) [b](file:///etc)", 60) for s in r.spans
    }
    assert links == {""}
