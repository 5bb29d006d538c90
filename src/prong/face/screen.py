"""A terminal as lines: text comes in pieces, and a question may be open below it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import anyio.to_thread

from prong.face.line import printable

_CODES = {"dim": "2", "bad": "31", "good": "32", "bold": "1"}


class Screen:
    """Writes lines above the one on which the user is typing."""

    def __init__(self) -> None:
        """Write to standard output."""
        tty = sys.stdout.isatty()
        self._colour = tty and not os.environ.get("NO_COLOR")
        self._erases = tty and os.environ.get("TERM", "dumb") != "dumb"
        self._open = False
        self._prompt: Callable[[], str] | None = None
        self._covered = False
        self._bar = False

    def text(self, text: str) -> None:
        """Write a piece of text, robbed of what could take control of the terminal."""
        self._write(printable(text))

    def bar(self, text: str) -> None:
        """Show how far something is, in the line at the bottom, before what is being typed."""
        if self._erases and not self._open:
            typing = f"  {self._prompt()}{_typed()}" if self._prompt is not None else ""
            self._out(f"\r\x1b[K{text}{typing}")
            self._bar, self._covered = True, False

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

    async def ask(self, prompt: Callable[[], str], *, bind: str = "") -> str:
        """Read a line of the user, with history and editing where the terminal has them.

        What is written meanwhile goes above the line, and `prompt` is asked anew.
        """
        with suppress(ImportError):
            import readline  # being loaded is what gives input() its editing

            if bind:
                readline.parse_and_bind(bind)
        self._prompt = prompt
        try:
            return await anyio.to_thread.run_sync(input, prompt(), abandon_on_cancel=True)
        finally:
            self._prompt, self._covered = None, False

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
            self._out(self._prompt() + _typed())
            self._covered = False

    def _out(self, text: str) -> None:
        # A terminal that is gone must not keep the session from being closed in order.
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


def _typed() -> str:
    """Give what the user has typed of a line so far."""
    readline = sys.modules.get("readline")
    return readline.get_line_buffer() if readline is not None else ""
