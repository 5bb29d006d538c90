"""The one writer of the terminal: output above, and the rows on which the user types below it.

A reply is written block by block; the line of it that is not whole yet is the first of the rows.

What is written goes above those rows: they are taken away, the text is written where the last one
ended, and they are drawn again, all in one write. A line that is still being written ends a row
above them; its last row is kept to go on from. Where nothing can be erased there are no such rows,
and text is only written.

A line that is typed belongs to whom its prompt named when the first key was pressed. The prompt may
change under the user's hands only as long as nothing has been typed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from prong.face.cell import cells
from prong.face.draw.ansi import styled
from prong.face.draw.row import Row, Span, crop_left, fit, wrap
from prong.face.edit.arrange import Rows, cut
from prong.face.edit.buffer import Buffer
from prong.face.edit.grapheme import clusters
from prong.face.line import dumb
from prong.face.output import drawable, printable
from prong.face.window_title import title_code

_CODES = {"dim": "2", "bad": "31", "good": "32", "bold": "1"}


class InputPrompt(msgspec.Struct, frozen=True):
    """What stands before a line, and for whom the line is."""

    text: str = "> "
    key: str = ""
    """The request that the line answers; empty for a message or command."""


class InputLine(msgspec.Struct, frozen=True):
    """A line of the user."""

    text: str
    key: str
    """That of the prompt under which it was entered."""
    buffer: Buffer | None = None
    """As it was typed, with what was folded in it."""
    prompt: str = ""
    """What stood before it."""


class Screen:
    """Writes text, and keeps rows below it."""

    def __init__(self) -> None:
        """Write to standard output."""
        self.erases = sys.stdout.isatty() and not dumb()
        """Whether the terminal can take back what was drawn."""
        self._colour = self.erases and not os.environ.get("NO_COLOR")
        self._rows = Rows()
        self._unfinished = ""
        """The line of a reply that is not whole yet; it stands above the rows."""
        self._drawn: Rows | None = None
        """The rows that stand on the terminal now; None if none do."""
        self._tail = ""
        """The last row of a line that is still being written."""
        self._open = False
        self._title = ""
        self._later: list[str] = []
        """Lines that wait for the end of the one that is being written."""
        self._held: list[str] | None = None
        """What was written while another program has the terminal."""
        self._asked = ""
        """The prompt after which nothing was written yet, where no rows can be kept."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def text(self, text: str) -> None:
        """Write a piece of text, robbed of what could take control of the terminal."""
        # Of what is written piece by piece nobody knows yet what follows.
        text = _clean(text) if self.erases else printable(text).replace("\t", "    ")
        if self._later and "\n" in text:
            head, _, last = text.rpartition("\n")
            text = "\n".join([head, *self._taken(), last])
        self._write(text)

    def end(self) -> None:
        """Finish the line that is being written, if one is."""
        if self._open:
            self._write("\n".join(["", *self._taken(), ""]))

    def _taken(self) -> list[str]:
        later, self._later = self._later, []
        return later

    def line(self, text: str, *, style: str = "", words: bool = False) -> None:
        """Write a line of its own; if it is made of `words`, it is broken between them."""
        self.end()
        self._write(self._styled(self._laid(text, words=words), style) + "\n")

    def reply(self, rows: Sequence[Row], unfinished: str) -> None:
        """Write rows of a reply for good, and show the line of it that is being written."""
        self._unfinished = crop_left(_clean(unfinished), self.size[0] - 1)
        self.end()
        self._write("".join(f"{self._painted(row)}\n" for row in rows))

    def notice(self, text: str, *, style: str = "", words: bool = False) -> None:
        """Write a line of its own that need not break into the one that is being written."""
        if self._open:
            self._later.append(self._styled(self._laid(text, words=words), style))
        else:
            self.line(text, style=style, words=words)

    def _laid(self, text: str, *, words: bool) -> str:
        """Make a text fit for rows; a terminal would break it wherever a row ends."""
        clean = _clean(text)
        if not (words and self.erases):
            return clean
        rows = (row for line in clean.split("\n") for row in _between_words(line, self.size[0] - 1))
        return "\n".join(rows)

    def show(self, rows: Rows) -> None:
        """Keep these rows below the text from now on."""
        if self._held is not None:
            return
        if rows != self._rows or (rows.rows and self._drawn is None):
            self._rows = rows
            self._write("")

    def redraw(self) -> None:
        """Draw the rows anew, as after another size of the terminal."""
        if self._drawn is not None:
            self._write("")

    def clear(self) -> None:
        """Empty the screen, all but the rows."""
        if self.erases:
            self._tail, self._open, self._drawn = "", False, None
            # Not in the first row: some terminals keep what is erased from there on.
            self._out("\x1b[H\x1b[2J\r\n")
            self._write("")

    def hide(self) -> None:
        """Take the rows away, as before another program draws."""
        self._unfinished = ""
        self.show(Rows())

    @contextmanager
    def away(self) -> Generator[None]:
        """Let another program draw; what is written meanwhile comes afterwards."""
        self.hide()
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._out("".join(held))

    def ring(self) -> None:
        """Ring the terminal's bell, if it has one."""
        if self.erases:
            self._out("\a")

    def entitle(self, title: str) -> None:
        """Name the terminal's window, if it has another name."""
        if self.erases and title != self._title:
            self._title = title
            self._out(title_code(title))

    def ask(self, prompt: str) -> None:
        """Write a prompt where no rows can be kept."""
        if self._unfinished:
            self.reply((), "")
        self.end()
        self._asked = printable(prompt)
        self._out(self._asked)

    def ask_again(self, prompt: str) -> None:
        """Write a prompt once more, if something was written since: it is no longer the last."""
        if not self._asked and not self._open:
            self.ask(prompt)

    def entered(self) -> None:
        """Heed that a line was entered: the terminal has ended the one of the prompt."""
        self._asked = ""

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and self._colour and text else text

    def _write(self, text: str) -> None:
        """Take the rows away, write, and draw them again, all at once so that nothing tears."""
        if not self.erases:
            self._open = not text.endswith("\n") if text else self._open
            # Nothing is written into the line of a prompt.
            self._out(f"\n{text}" if self._asked and text and sys.stdout.isatty() else text)
            self._asked = "" if text else self._asked
            return
        code, below, rows = self._erase(), self._drawn is not None, self._below()
        if text or not rows.rows:
            # The line that is being written ended in the row above.
            code += self._resume() if below and self._open else ""
            below = False
            code += text
            self._follow(text)
        if rows.rows:
            code += "\r\n" if self._open and not below else ""
            code += self._draw(rows)
        else:
            self._drawn = None
        self._out(code)

    def _follow(self, text: str) -> None:
        """Remember where the text ends."""
        if not text:
            return
        _, broken, last = text.rpartition("\n")
        self._open = bool(last) or not broken
        used, tail = 0, ""
        for cluster in clusters(last if broken else self._tail + last):
            wide = cells(cluster)
            if used + wide > self.size[0]:
                used, tail = 0, ""
            used, tail = used + wide, tail + cluster
        self._tail = tail if self._open else ""

    def _erase(self) -> str:
        """Take the rows away, and stand where the first of them was."""
        if self._drawn is None:
            return ""
        above, columns = self._drawn.row, self.size[0]
        # A terminal that has become narrower has broken what was drawn.
        above += sum(max(0, cells(text) - 1) // columns for text, _ in self._drawn.rows[:above])
        above += self._drawn.column // columns
        return _up(above) + "\r\x1b[J"

    def _resume(self) -> str:
        """Stand at the end of the line that is being written, in the row above."""
        broken = max(0, cells(self._tail) - 1) // self.size[0]
        return f"{_up(1 + broken)}\r{self._tail}"

    def _below(self) -> Rows:
        """Give what stands below the text."""
        if not self._unfinished:
            return self._rows
        kept = self._rows
        rows, row = ((self._unfinished, ""), *kept.rows), kept.row + bool(kept.rows)
        return Rows(rows, row, kept.column, kept.tail, kept.below)

    def _painted(self, row: Row) -> str:
        return styled(row) if self._colour else row.text.rstrip()

    def _draw(self, rows: Rows) -> str:
        columns = self.size[0]
        lines = [self._styled(cut(text, columns - 1), style) for text, style in rows.rows]
        if lines and rows.tail:
            lines[rows.row] += self._styled(rows.tail, "dim")
        lines += [self._painted(fit(row.spans, columns - 1)) for row in rows.below]
        self._drawn = rows
        right = f"\x1b[{rows.column}C" if rows.column else ""
        return "\r\n".join(lines) + _up(len(lines) - 1 - rows.row) + "\r" + right

    def _out(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        # A terminal that is gone must not keep the session from being closed in order.
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


def _clean(text: str) -> str:
    """Make lines fit for rows; a tab's width depends on where it stands, so it is blanks."""
    return "\n".join(drawable(line) for line in text.replace("\t", "    ").split("\n"))


def _between_words(line: str, width: int) -> list[str]:
    """Break a line between words; what follows is set in, lest it look like a line of its own."""
    lead = line[: len(line) - len(line.lstrip(" !"))]
    set_in = Span(" " * (len(lead) - len(lead.lstrip(" ")) + 2))
    # A mark stands before its first word, however long that is.
    rows = wrap([Span(line[len(lead) :])], width, first=[Span(lead)], rest=[set_in])
    return [row.text for row in rows]


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows else ""
