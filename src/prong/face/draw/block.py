"""One block of Markdown as rows: a paragraph, a heading, a list, a quote, a table, code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from prong.face.draw.code import highlight, known
from prong.face.draw.inline import inline_lines
from prong.face.draw.row import EMPTY, Row, Span, cells, chop, fit, split_lines, wrap
from prong.face.draw.table import Cell, Table, draw_table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_PARSED = 8_000
"""Characters; a longer block is shown as it was written, since it would hold the screen up."""
_DEEPEST = 18
"""How far containers may lie in one another; what lies deeper would not be parsed at all."""
_FENCE = re.compile(r"(?:(`{3,})([^`\n]*)|(~{3,})([^\n]*))(?:\n|$)")
_BULLETS = ("•", "◦", "▪")
_QUOTE = Span("│ ", "quote.bar")
_CODE = Span("  ", "code")


def draw_block(source: str, width: int, *, coloured: bool = True) -> list[Row]:
    """Draw a block; without colours where it grows and will be drawn again."""
    fence = _FENCE.match(source)
    if fence:
        body = _fenced(source[fence.end() :], fence[1] or fence[3])
        return _code(body, fence[2] or fence[4] or "", width, coloured=coloured)
    tokens = _parser().parse(source) if len(source) <= _PARSED else []
    if not tokens or any(token.level > _DEEPEST for token in tokens):
        return [row for line in split_lines(source) for row in wrap([Span(line)], width)]
    return _Drawing(source, width, coloured=coloured).draw(tokens)


def _fenced(text: str, mark: str) -> str:
    """Give what stands between fences, if the second one is there yet."""
    body, _, last = text.rstrip().rpartition("\n")
    closed = last.strip(" \t")
    if len(closed) >= len(mark) and not closed.strip(mark[0]) and len(text.strip()) > 0:
        return body
    return text.removesuffix("\n")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Without references: a block never depends on another one, and no line is swallowed.
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return made.disable(["reference", "html_block", "html_inline"])


def _code(
    text: str,
    info: str,
    width: int,
    first: Sequence[Span] = (),
    rest: Sequence[Span] = (),
    *,
    coloured: bool,
) -> list[Row]:
    """Draw code; what stands behind its fence is shown unless it only names a language."""
    info = info.strip()
    language = info.split(" ")[0] if coloured else ""
    rows: list[Row] = []
    lead = first
    if info and not known(info):
        rows += wrap([Span(info, "dim")], width, first=[*lead, _CODE], rest=[*rest, _CODE])
        lead = rest
    for line in highlight(text, language):
        rows += chop(line, width, first=[*lead, _CODE], rest=[*rest, _CODE])
        lead = rest
    return rows


class _Drawing:
    """Walks the tokens of a block; containers stand before their lines, one within the other."""

    def __init__(self, source: str, width: int, *, coloured: bool) -> None:
        self._width, self._coloured = width, coloured
        self._lines = source.split("\n")
        self._rows: list[Row] = []
        self._first: list[list[Span]] = []
        self._rest: list[list[Span]] = []
        self._numbers: list[int | None] = []
        self._end = 0

    def draw(self, tokens: Sequence[Token]) -> list[Row]:
        place = 0
        while place < len(tokens):
            place = self._take(tokens, place)
        return self._rows

    def _take(self, tokens: Sequence[Token], place: int) -> int:
        """Draw a token and what belongs to it; gives the place behind."""
        token = tokens[place]
        if token.nesting >= 0 and token.type != "inline":
            self._gap(token)
        match token.type:
            case "inline":
                before = tokens[place - 1]
                style = ""
                if before.type == "heading_open":
                    style = "heading.1" if before.tag == "h1" else "heading"
                for line in inline_lines(token.children or [], style):
                    self._emit(line)
            case "fence" | "code_block":
                first, rest = self._leads()
                body, info = token.content.removesuffix("\n"), token.info
                drawn = _code(body, info, self._width, first, rest, coloured=self._coloured)
                self._rows += drawn
            case "hr":
                first, rest = self._leads()
                used = sum(cells(span.text) for span in first)
                rule = Span("─" * max(1, min(40, self._width - used)), "dim")
                self._rows.append(fit([*first, rule], self._width))
            case "table_open":
                return self._table(tokens, place)
            case _:
                self._nest(token)
        return place + 1

    def _nest(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self._numbers.append(None)
            case "ordered_list_open":
                self._numbers.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                self._numbers.pop()
            case "list_item_open":
                self._push(Span(self._mark(), "bullet"))
            case "blockquote_open":
                self._push(_QUOTE, repeated=True)
            case "list_item_close" | "blockquote_close":
                self._pop()
            case _:
                pass

    def _mark(self) -> str:
        number = self._numbers[-1]
        if number is None:
            depth = sum(each is None for each in self._numbers) - 1
            return f"{_BULLETS[depth % len(_BULLETS)]} "
        self._numbers[-1] = number + 1
        return f"{number}. "

    def _push(self, lead: Span, *, repeated: bool = False) -> None:
        self._first.append([lead])
        self._rest.append([lead] if repeated else [Span(" " * cells(lead.text))])

    def _pop(self) -> None:
        if self._first[-1] != self._rest[-1]:
            # An item without a word still has its mark.
            self._emit([])
        self._first.pop()
        self._rest.pop()

    def _leads(self) -> tuple[list[Span], list[Span]]:
        first = [span for lead in self._first for span in lead]
        rest = [span for lead in self._rest for span in lead]
        self._first = [list(lead) for lead in self._rest]
        return first, rest

    def _emit(self, spans: list[Span]) -> None:
        first, rest = self._leads()
        self._rows += wrap(spans, self._width, first=first, rest=rest)

    def _gap(self, token: Token) -> None:
        """Keep one empty row where the text has empty lines."""
        if token.map is None or token.type == "inline":
            return
        start, end = token.map
        blank = 0 < start <= len(self._lines) and not self._lines[start - 1].strip(" \t>")
        if blank and start > self._end and self._rows and self._rows[-1].spans:
            first = [span for lead in self._rest for span in lead]
            self._rows.append(fit(first, self._width) if "│" in str(first) else EMPTY)
        self._end = start
        if token.type in {"fence", "code_block"}:
            self._end = end - 1

    def _table(self, tokens: Sequence[Token], place: int) -> int:
        lines: list[list[Cell]] = []
        right: set[int] = set()
        while tokens[place].type != "table_close":
            token = tokens[place]
            if token.type == "tr_open":
                lines.append([])
            elif token.type in {"th_open", "td_open"}:
                if "right" in str(token.attrGet("style") or ""):
                    right.add(len(lines[-1]))
                parts = inline_lines(tokens[place + 1].children or [])
                lines[-1].append(tuple(span for part in parts for span in part))
            place += 1
        head, *body = lines
        table = Table(tuple(head), tuple(tuple(line) for line in body), frozenset(right))
        first, rest = self._leads()
        used = sum(cells(span.text) for span in rest)
        lead = first
        for row in draw_table(table, max(2, self._width - used)):
            self._rows.append(fit([*lead, *row.spans], self._width, lead=used))
            lead = rest
        return place + 1
