"""A terminal as lines: text comes in pieces, and a question may be open below it.

A line that is typed belongs to whom its prompt named when the first key was pressed. The prompt may
change under the user's hands only as long as nothing has been typed.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from contextlib import suppress

import anyio.to_thread
import msgspec

from prong.face.line import dumb
from prong.face.output import printable

_CODES = {"dim": "2", "bad": "31", "good": "32", "bold": "1"}
_ARRIVAL = 0.002
"""Seconds that an entered line may need from its thread to us."""


class Prompt(msgspec.Struct, frozen=True):
    """What stands before a line, and for whom the line is."""

    text: str = "> "
    key: str = ""
    """The request that the line answers; empty for a message or command."""


class Line(msgspec.Struct, frozen=True):
    """A line of the user."""

    text: str
    key: str
    """That of the prompt under which it was entered."""


class Screen:
    """Writes lines above the one on which the user is typing."""

    def __init__(self) -> None:
        """Write to standard output."""
        tty = sys.stdout.isatty()
        self._erases = tty and not dumb()
        self._colour = self._erases and not os.environ.get("NO_COLOR")
        self._open = False
        self._prompt: Prompt | None = None
        self._entered = False
        self._covered = False
        self._bar = False

    @property
    def asking(self) -> Prompt | None:
        """The prompt of the line that is being read, if one is."""
        return None if self._entered else self._prompt

    def untouched(self) -> bool:
        """Whether a line is being read and nothing of it has been typed yet."""
        # A line that was entered this very moment is still on its way: let its thread run.
        time.sleep(_ARRIVAL)
        return self.asking is not None and not _typed() and not _waiting()

    def switch(self, prompt: Prompt) -> None:
        """Let the line that is being read belong to another prompt."""
        self._prompt = prompt
        if not self._open:
            shown = printable(prompt.text)
            self._out(f"\r\x1b[K{shown}{_typed()}" if self._erases else f"\n{shown}")
            self._covered = self._bar = False

    def text(self, text: str) -> None:
        """Write a piece of text, robbed of what could take control of the terminal."""
        self._write(printable(text))

    def bar(self, text: str) -> None:
        """Show how far something is, in the line at the bottom, before what is being typed."""
        if self._erases and not self._open:
            typing = f"  {self._line_so_far()}" if self._prompt is not None else ""
            # A line that wraps could not be drawn over.
            room = shutil.get_terminal_size().columns - 1 - len(typing)
            if room < 0:
                return
            self._out(f"\r\x1b[K{printable(text)[:room]}{typing}")
            self._bar, self._covered = True, False

    def wipe(self) -> None:
        """Take the bar away, for what it told of is over."""
        if self._bar and not self._open:
            typing = self._line_so_far()
            self._out(f"\r\x1b[K{typing}")
            self._bar = False

    def end(self) -> None:
        """Finish the line that is being written, if one is."""
        if self._open:
            self._write("\n")

    def line(self, text: str, *, style: str = "") -> None:
        """Write a line of its own."""
        self.end()
        text = printable(text)
        if style and self._colour:
            text = f"\x1b[{_CODES[style]}m{text}\x1b[0m"
        self._write(text + "\n")

    async def ask(self, prompt: Prompt, *, bind: str = "") -> Line:
        """Read a line of the user, with history and editing where the terminal has them.

        What is written meanwhile goes above the line. Raises EOFError.
        """
        with suppress(ImportError):
            import readline  # being loaded is what gives input() its editing

            if bind:
                readline.parse_and_bind(bind)
        self._prompt, self._entered = prompt, False
        try:
            return await anyio.to_thread.run_sync(self._input, prompt, abandon_on_cancel=True)
        finally:
            self._prompt, self._covered = None, False

    def _input(self, prompt: Prompt) -> Line:
        text = input(printable(prompt.text))
        # Still in the thread that has read it: from here on the prompt is not changed any more.
        self._entered = True
        return Line(text, (self._prompt or prompt).key)

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._bar and self._prompt is None:
            self._out("\r\x1b[K")
        self._bar = False
        if self._prompt is not None and not self._covered:
            # The line that is being typed gives way; without a real terminal it is left behind.
            self._out("\r\x1b[K" if self._erases else "\n")
            self._covered = True
        self._out(text)
        self._open = not text.endswith("\n")
        if self._prompt is not None and not self._open and self._erases:
            self._out(self._line_so_far())
            self._covered = False

    def _line_so_far(self) -> str:
        """Give the prompt and what has been typed behind it."""
        return "" if self._prompt is None else printable(self._prompt.text) + _typed()

    def _out(self, text: str) -> None:
        # A terminal that is gone must not keep the session from being closed in order.
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


def _typed() -> str:
    """Give what the user has typed of a line so far."""
    readline = sys.modules.get("readline")
    return readline.get_line_buffer() if readline is not None else ""


def _waiting() -> bool:
    """Whether keys have been pressed that nobody has read yet."""
    try:
        return bool(select.select([sys.stdin], [], [], 0)[0])
    except (OSError, ValueError):
        return False
