"""The terminal as a source of keys: raw while the program talks, and as it was afterwards.

Keys are read in the event loop and nowhere else, so nobody waits for them in a thread. The settings
of the terminal are put back when the program ends, however it does, as long as it can do anything.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from typing import Any

import anyio

from prong.face.edit.key import KeyDecoder, KeyPress
from prong.face.line import dumb
from prong.face.output import control
from prong.system.console import WHY_NO_KEYS
from prong.system.stop_signal import suspend_self

_BURST = 65_536
_MOMENT = 0.05
"""Seconds after which an escape that nothing has followed is the key itself."""
_ENTER, _LEAVE = "\x1b[?2004h", "\x1b[?2004l"
"""Bracketed paste."""
_COLUMNS, _LINES = 80, 24
"""What a full screen needs."""


if sys.platform == "win32":

    def _forget_typed() -> None:
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()


class Terminal:
    """Changes the terminal's settings for as long as the program talks, and puts them back."""

    def __init__(self) -> None:
        """Remember how it was; nothing is changed yet."""
        self._before: list[Any] | None = None
        self._decoder = KeyDecoder()
        self._ahead: list[KeyPress] = []
        self._reading = anyio.CancelScope()
        self._lent = anyio.Event()
        self._lent.set()
        self._raw = False
        if sys.platform == "win32":
            # A console gives no bytes of keys that could be waited for: there lines are read.
            return
        with suppress(Exception):
            # No terminal, no standard input at all: then there are no keys either.
            import termios

            if sys.stdin.isatty() and sys.stdout.isatty() and not dumb():
                self._before = termios.tcgetattr(sys.stdin.fileno())

    @property
    def has_keys(self) -> bool:
        """Whether single keys can be read."""
        return self._before is not None

    def begin(self) -> None:
        """Let keys come one by one, as they are pressed, and pastes as such."""
        if sys.platform == "win32":
            return
        import termios

        if self._before is None or self._raw:
            return
        came, out, control_, local, *speeds, keys = self._before
        came &= ~(termios.ICRNL | termios.IXON | termios.INLCR | termios.IGNCR | termios.ISTRIP)
        local &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        keys = list(keys)
        keys[termios.VMIN], keys[termios.VTIME] = 1, 0
        mode = [came, out, control_, local, *speeds, keys]
        atexit.register(self.restore)
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, mode)
            self._raw = True
            control(_ENTER)
            self._take_early()

    def _take_early(self) -> None:
        """Take what was typed before, of which the terminal has made each Enter a line feed."""
        import select

        with suppress(OSError, ValueError):
            if select.select([sys.stdin], [], [], 0)[0]:
                self._ahead += self._decoder.feed(self._read().replace(b"\n", b"\r"))

    def restore(self) -> None:
        """Make it as it was."""
        if sys.platform == "win32":
            return
        import termios

        if self._before is None or not self._raw:
            return
        self._raw = False
        control(_LEAVE)
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
        atexit.unregister(self.restore)

    async def keys(self) -> AsyncGenerator[KeyPress, None]:
        """Give keys as they are pressed, to the end of the input."""
        while True:
            while self._ahead:
                yield self._ahead.pop(0)
            await self._lent.wait()
            moment = _MOMENT if self._decoder.waiting else None
            with anyio.CancelScope() as self._reading, anyio.move_on_after(moment) as waiting:
                await anyio.wait_readable(sys.stdin.fileno())
            if self._reading.cancelled_caught:
                continue
            if waiting.cancelled_caught:
                found = self._decoder.flush()
            else:
                data = self._read()
                if not data:
                    return
                found = self._decoder.feed(data)
            self._ahead += found

    def pressed(self) -> bool:
        """Whether keys have been pressed up to now that nobody has taken yet."""
        import select

        with suppress(OSError, ValueError):
            while self._raw and select.select([sys.stdin], [], [], 0)[0]:
                data = self._read()
                if not data:
                    break
                self._ahead += self._decoder.feed(data)
        if self._ahead:
            # Whoever waits for keys need not wait for more.
            self._reading.cancel()
        return bool(self._ahead)

    def forget_typed(self) -> None:
        """Drop what was typed up to now: before a question was seen nothing can be its answer."""
        if sys.platform == "win32":
            _forget_typed()
            return
        with suppress(Exception):
            # As above: where there is no terminal nothing was typed.
            import termios

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    @contextmanager
    def lend(self) -> Generator[None]:
        """Give the terminal as it was to another program for a while."""
        was, self._lent = self._raw, anyio.Event()
        self._reading.cancel()
        self.restore()
        try:
            yield
        finally:
            if was:
                self.begin()
            self._lent.set()

    def suspend(self) -> None:
        """Stop as a job of the shell, and come back when it says so."""
        with self.lend():
            suspend_self()

    def _read(self) -> bytes:
        try:
            return os.read(sys.stdin.fileno(), _BURST)
        except OSError:
            # The terminal is gone.
            return b""


def full_hindered() -> str:
    """Say why there can be no full screen here; empty if there can."""
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output"), (sys.stderr, "error")):
        if not stream.isatty():
            remedy = "; ssh -t makes one" if _unasked_by_ssh() else ""
            return f"standard {name} is no terminal{remedy}"
    if WHY_NO_KEYS:
        return WHY_NO_KEYS
    if dumb():
        return "TERM is dumb"
    size = os.get_terminal_size(sys.stderr.fileno())
    if size.columns < _COLUMNS or size.lines < _LINES:
        return f"the terminal has {size.columns}x{size.lines}, and 80x24 are needed"
    return ""


def _unasked_by_ssh() -> bool:
    """Whether ssh was given a command, and so has made no terminal."""
    return "SSH_CONNECTION" in os.environ and "SSH_TTY" not in os.environ
