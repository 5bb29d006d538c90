"""An editor as rows of a terminal: prompt, text, cursor, and what is open below; pure."""

from __future__ import annotations

import msgspec

from prong.face.cell import cells
from prong.face.draw.row import Row, Span, wrap
from prong.face.edit.editor import Editor
from prong.face.edit.grapheme import clusters, shown

_HELP_AT = 28
"""The column at which the help of a proposal begins."""


class Rows(msgspec.Struct, frozen=True):
    """Rows with a style each, none wider than asked for, and where the cursor stands."""

    rows: tuple[tuple[str, str], ...] = ()
    row: int = 0
    column: int = 0
    tail: str = ""
    """What follows dimly in the row of the cursor."""
    below: tuple[Row, ...] = ()
    """Rows with styles of their own that follow."""


def lay_out(editor: Editor, prompt: str, columns: int, height: int) -> Rows:
    """Lay out what is typed behind a prompt; of more rows than `height`, those at the cursor."""
    room = max(8, columns - 1)
    if editor.search is not None:
        return _of_search(editor, room)
    lead = shown(prompt)
    indent = cells(lead)
    if indent > room // 2:
        # A long prompt has rows of its own, so that there is room to type.
        above = [row.text for row in wrap([Span(lead)], room)]
        rows, row, column = _wrap(editor.buffer.text, editor.buffer.cursor, room)
        rows, row = [*above, *rows], row + len(above)
    else:
        rows, row, column = _wrap(editor.buffer.text, editor.buffer.cursor, room - indent)
        blank = " " * indent
        rows = [(blank if at else lead) + text for at, text in enumerate(rows)]
        column += indent
    start = max(0, min(row - height + 1, len(rows) - height)) if len(rows) > height else 0
    start = min(start, row)
    visible = [(text, "") for text in rows[start : start + max(1, height)]]
    hint = cut(shown(editor.hint), room - column)
    return Rows((*visible, *_menu(editor, room)), row - start, column, hint)


def cut(text: str, columns: int) -> str:
    """Cut a clean text to so many columns."""
    if cells(text) <= columns:
        return text
    kept, used = "", 1
    for cluster in clusters(text):
        used += cells(cluster)
        if used > columns:
            break
        kept += cluster
    return f"{kept}…"


def _wrap(text: str, cursor: int, room: int) -> tuple[list[str], int, int]:
    """Break a text into rows; gives them, and the row and column of the cursor."""
    rows, at, place = [""], 0, (0, 0)
    used = 0
    for cluster in clusters(text):
        broken = cluster in {"\n", "\r\n"}
        drawn = "" if broken else shown(cluster)
        wide = cells(drawn)
        if used + wide > room:
            rows.append("")
            used = 0
        if at == cursor:
            place = len(rows) - 1, used
        if broken:
            rows.append("")
            used = 0
        else:
            rows[-1] += drawn
            used += wide
        at += len(cluster)
    if at <= cursor:
        if used >= room:
            rows.append("")
            used = 0
        place = len(rows) - 1, used
    return rows, *place


def _of_search(editor: Editor, room: int) -> Rows:
    assert editor.search is not None
    missing = "" if editor.search.found or not editor.search.query else "nothing: "
    lead = f"search: {missing}{shown(editor.search.query)}"
    found = " ".join(shown(editor.search.found).split())
    rows = ((cut(lead, room), ""), (cut(f"  {found}", room), "dim"))
    return Rows(rows, 0, min(room - 1, cells(lead)))


def _menu(editor: Editor, room: int) -> list[tuple[str, str]]:
    if editor.menu is None:
        return []
    rows: list[tuple[str, str]] = []
    for number, one in enumerate(editor.menu.candidates):
        mark = "> " if number == editor.chosen else "  "
        name = f"{mark}{one.text}"
        line = f"{name.ljust(_HELP_AT)} {one.help}" if one.help else name
        clean = shown(line)
        rows.append((cut(clean, room), "" if number == editor.chosen else "dim"))
    if editor.menu.more:
        rows.append((f"  … {editor.menu.more} more; type on", "dim"))
    return rows
