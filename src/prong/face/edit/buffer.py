"""The text that is being typed, as a value: every edit and motion gives a new buffer.

The cursor always stands between clusters, and never inside the label of something folded: labels
are one character to every motion. `last` says what the last step was, because steps of one kind
belong together: typed letters are undone by words, and killed pieces that follow each other are
yanked as one.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from prong.command import Say
from prong.entry import Image
from prong.face.cell import cells
from prong.face.edit import grapheme
from prong.face.edit.paste import (
    Attached,
    Folded,
    Pasted,
    clean,
    is_long,
    label,
    labels,
    missing,
    unfold,
)

_STEPS = 500
"""Steps that can be undone."""
_KILLS = 30
_WORD = re.compile(r"\w+")
_BLANK_WORD = re.compile(r"\S+")

Step: TypeAlias = Literal["", "type", "erase", "kill", "kill_back", "yank"]


class Buffer(msgspec.Struct, frozen=True):
    """Text, cursor, selection, and what was there before."""

    text: str = ""
    cursor: int = 0
    anchor: int | None = None
    """Where a selection began; it reaches to the cursor."""
    folded: tuple[Folded, ...] = ()
    """What labels stand for, by their numbers from 1."""
    kills: tuple[str, ...] = ()
    """What was killed, the latest first."""
    past: tuple[tuple[str, int], ...] = ()
    future: tuple[tuple[str, int], ...] = ()
    last: Step = ""
    goal: int | None = None
    """The column that moving up and down tries to keep."""
    yanked: tuple[int, int] = (0, 0)
    """Where the last yank began, and which kill it was."""

    @property
    def selection(self) -> tuple[int, int] | None:
        """What is selected, if anything is."""
        if self.anchor is None or self.anchor == self.cursor:
            return None
        return min(self.anchor, self.cursor), max(self.anchor, self.cursor)

    @property
    def selected(self) -> str:
        """The text that is selected."""
        return self.text[slice(*self.selection)] if self.selection else ""

    @property
    def line(self) -> int:
        """On which line the cursor stands, from 0."""
        return self.text.count("\n", 0, self.cursor)

    def message(self) -> Say:
        """Give what is sent: the text with what was folded, and pictures beside it."""
        text, pictures = unfold(self.text, self.folded)
        return Say(text, pictures)

    @property
    def missing(self) -> str:
        """What to say of pictures that are named and not there; empty if all are."""
        named = missing(self.text, self.folded)
        return f"sent without its picture, attach it anew: {', '.join(named)}" if named else ""

    def cleared(self, text: str = "") -> Buffer:
        """Begin anew with a text; what was killed stays at hand, and what labels stand for."""
        # A label comes back in what is killed, recalled, searched for or written in an editor.
        return Buffer(text, len(text), folded=self.folded, kills=self.kills)

    # Edits.

    def insert(self, text: str) -> Buffer:
        """Type a text in the place of what is selected."""
        start, end = self.selection or (self.cursor, self.cursor)
        return self._edit(start, end, text, "type")

    def paste(self, text: str) -> Buffer:
        """Paste a text; a long one is folded."""
        text = clean(text)
        return self.fold(Pasted(text)) if is_long(text) else self.settled().insert(text).settled()

    def attach(self, name: str, part: Image) -> Buffer:
        """Add a picture."""
        return self.fold(Attached(name, part))

    def fold(self, piece: Folded) -> Buffer:
        """Put the label of a piece into the text."""
        held = replace(self.settled(), folded=(*self.folded, piece))
        return held.insert(label(piece, len(held.folded))).settled()

    def newline(self) -> Buffer:
        """Begin another line."""
        return self.settled().insert("\n")

    def enter(self) -> Buffer | None:
        """Begin another line where a backslash at the end asks for it; None means to send."""
        before = self.text[: self.cursor]
        open_end = (len(before) - len(before.rstrip("\\"))) % 2 == 1
        if self.cursor < len(self.text) or not open_end:
            return None
        return self._edit(self.cursor - 1, self.cursor, "\n", "")

    def erase_left(self) -> Buffer:
        """Delete what is selected, or the character before the cursor."""
        start, end = self.selection or (self._before(self.cursor), self.cursor)
        return self._edit(start, end, "", "erase")

    def erase_right(self) -> Buffer:
        """Delete what is selected, or the character at the cursor."""
        start, end = self.selection or (self.cursor, self._after(self.cursor))
        return self._edit(start, end, "", "erase")

    def kill_to_end(self) -> Buffer:
        """Kill to the end of the line, or the line break if there is nothing else."""
        end = self._line_end(self.cursor)
        return self._kill(self.cursor, end if end > self.cursor else self._after(self.cursor))

    def kill_to_start(self) -> Buffer:
        """Kill to the beginning of the line, or the line break before it."""
        start = self._line_start(self.cursor)
        start = start if start < self.cursor else self._before(self.cursor)
        return self._kill(start, self.cursor, back=True)

    def kill_word_left(self) -> Buffer:
        """Kill what is selected, or the word before the cursor."""
        start, end = self.selection or (self._word_left(_WORD), self.cursor)
        return self._kill(start, end, back=True)

    def kill_blank_word_left(self) -> Buffer:
        """Kill what is selected, or back to the last blank."""
        start, end = self.selection or (self._word_left(_BLANK_WORD), self.cursor)
        return self._kill(start, end, back=True)

    def kill_word_right(self) -> Buffer:
        """Kill what is selected, or the word after the cursor."""
        start, end = self.selection or (self.cursor, self._word_right())
        return self._kill(start, end)

    def yank(self) -> Buffer:
        """Insert what was killed last."""
        if not self.kills:
            return self
        start, end = self.selection or (self.cursor, self.cursor)
        return replace(self._edit(start, end, self.kills[0], "yank"), yanked=(start, 0))

    def yank_other(self) -> Buffer:
        """Right after a yank: put what was killed before that in its place."""
        if self.last != "yank":
            return self
        start, number = self.yanked
        number = (number + 1) % len(self.kills)
        changed = self._edit(start, self.cursor, self.kills[number], "yank")
        return replace(changed, yanked=(start, number))

    def transpose(self) -> Buffer:
        """Swap the characters around the cursor."""
        middle = self.cursor
        if middle == self._line_end(middle):
            middle = self._before(middle)
        start, end = self._before(middle), self._after(middle)
        if "\n" in self.text[start:end] or not start < middle < end:
            return self
        return self._edit(start, end, self.text[middle:end] + self.text[start:middle], "")

    def undo(self) -> Buffer:
        """Go back one step."""
        if not self.past:
            return self
        text, cursor = self.past[-1]
        future = (*self.future, (self.text, self.cursor))
        return self._at_rest(text, cursor, self.past[:-1], future)

    def redo(self) -> Buffer:
        """Take back an undo."""
        if not self.future:
            return self
        text, cursor = self.future[-1]
        past = (*self.past, (self.text, self.cursor))
        return self._at_rest(text, cursor, past, self.future[:-1])

    # Motions.

    def left(self, *, select: bool = False) -> Buffer:
        """Move one character to the left; a selection is left at its beginning."""
        if self.selection and not select:
            return self._go(self.selection[0])
        return self._go(self._before(self.cursor), select=select)

    def right(self, *, select: bool = False) -> Buffer:
        """Move one character to the right; a selection is left at its end."""
        if self.selection and not select:
            return self._go(self.selection[1])
        return self._go(self._after(self.cursor), select=select)

    def word_left(self, *, select: bool = False) -> Buffer:
        """Move to the beginning of a word."""
        return self._go(self._word_left(_WORD), select=select)

    def word_right(self, *, select: bool = False) -> Buffer:
        """Move to the end of a word."""
        return self._go(self._word_right(), select=select)

    def home(self, *, select: bool = False) -> Buffer:
        """Move to the beginning of the line."""
        return self._go(self._line_start(self.cursor), select=select)

    def end(self, *, select: bool = False) -> Buffer:
        """Move to the end of the line."""
        return self._go(self._line_end(self.cursor), select=select)

    def start(self, *, select: bool = False) -> Buffer:
        """Move to the beginning of everything."""
        return self._go(0, select=select)

    def finish(self, *, select: bool = False) -> Buffer:
        """Move to the end of everything."""
        return self._go(len(self.text), select=select)

    def up(self, *, select: bool = False) -> Buffer:
        """Move up a line; on the first nothing happens."""
        start = self._line_start(self.cursor)
        return self if not start else self._to_line(start - 1, select=select)

    def down(self, *, select: bool = False) -> Buffer:
        """Move down a line; on the last nothing happens."""
        end = self._line_end(self.cursor)
        return self if end == len(self.text) else self._to_line(end + 1, select=select)

    def place(self, cursor: int, *, select: bool = False) -> Buffer:
        """Move to a place, as a click does; within a character or a label, to its beginning."""
        return self._go(self.around(max(0, min(cursor, len(self.text))))[0], select=select)

    # What all of them share.

    def _edit(self, start: int, end: int, text: str, step: Step) -> Buffer:
        if start == end and not text:
            return self
        together = step == "type" == self.last and not (text.isspace() and start == end)
        past = self.past if together else (*self.past, (self.text, self.cursor))[-_STEPS:]
        changed = replace(
            self,
            text=self.text[:start] + text + self.text[end:],
            anchor=None,
            past=past,
            future=(),
            last=step,
            goal=None,
        )
        # What was apart may cling together now.
        return replace(changed, cursor=changed.around(start + len(text))[1])

    def _kill(self, start: int, end: int, *, back: bool = False) -> Buffer:
        if start == end:
            return self
        killed, kills = self.text[start:end], self.kills
        if self.last in {"kill", "kill_back"} and kills:
            killed = killed + kills[0] if back else kills[0] + killed
            kills = kills[1:]
        changed = self._edit(start, end, "", "kill_back" if back else "kill")
        return replace(changed, kills=(killed, *kills)[:_KILLS])

    def settled(self) -> Buffer:
        """End the step, so that the next begins one of its own."""
        return replace(self, last="")

    def _at_rest(
        self,
        text: str,
        cursor: int,
        past: tuple[tuple[str, int], ...],
        future: tuple[tuple[str, int], ...],
    ) -> Buffer:
        return Buffer(text, cursor, folded=self.folded, kills=self.kills, past=past, future=future)

    def _go(self, cursor: int, *, select: bool = False, goal: int | None = None) -> Buffer:
        begun = self.cursor if self.anchor is None else self.anchor
        anchor = begun if select else None
        return replace(self, cursor=cursor, anchor=anchor, last="", goal=goal)

    def _to_line(self, inside: int, *, select: bool) -> Buffer:
        start, end = self._line_start(inside), self._line_end(inside)
        now = self.text[self._line_start(self.cursor) : self.cursor]
        goal = cells(grapheme.shown(now)) if self.goal is None else self.goal
        cursor, column = start, 0
        while cursor < end:
            following = self._after(cursor)
            column += cells(grapheme.shown(self.text[cursor:following]))
            if column > goal:
                break
            cursor = following
        return self._go(cursor, select=select, goal=goal)

    def _line_start(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _before(self, at: int) -> int:
        found = grapheme.before(self.text, at)
        for start, end, _ in labels(self.text, self.folded):
            if start < at <= end:
                return start
            if found < end < at:
                # What clings to a label is a character of its own.
                found = end
        return found

    def _after(self, at: int) -> int:
        found = grapheme.after(self.text, at)
        for start, end, _ in labels(self.text, self.folded):
            if start <= at < end:
                return end
            if at < start < found:
                found = start
        return found

    def around(self, at: int) -> tuple[int, int]:
        """Give a place, twice; inside a character or label, its beginning and its end."""
        if not 0 < at < len(self.text):
            return at, at
        start = self._before(at)
        end = self._after(start)
        return (start, end) if end > at else (at, at)

    def _word_left(self, word: re.Pattern[str]) -> int:
        starts = [found.start() for found in word.finditer(self.text, 0, self.cursor)]
        return self.around(starts[-1] if starts else 0)[0]

    def _word_right(self) -> int:
        found = _WORD.search(self.text, self.cursor)
        return self.around(len(self.text) if found is None else found.end())[1]
