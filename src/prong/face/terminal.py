"""The terminal's own settings: how it was, and a key that works while nothing is being asked.

While a turn runs no line is edited, but the terminal still collects what is typed, line by line.
Ctrl+B is made to end such a line as Enter does, so that it reaches us at once; everything else that
is typed ahead is kept for the next time a line is wanted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import anyio

_KEY = b"\x02"
_LONGEST = 65_536


class Terminal:
    """Changes the terminal's settings for as long as the program talks, and puts them back."""

    def __init__(self) -> None:
        """Remember how it was: line editing changes it for as long as it waits."""
        import termios

        self._before = None
        self._ahead: list[bytes] = []
        with suppress(termios.error, ValueError):
            self._before = termios.tcgetattr(sys.stdin.fileno())

    async def listen(self, pressed: Callable[[], Awaitable[None]]) -> None:
        """Collect what is typed until cancelled; calls `pressed` for Ctrl+B and /background."""
        if self._before is None:
            return
        with self._keyed():
            while b"" not in self._ahead:
                await anyio.wait_readable(sys.stdin.fileno())
                line = os.read(sys.stdin.fileno(), _LONGEST)
                # What was typed before the key is not thrown away: it begins the next line.
                if line.endswith(_KEY):
                    await pressed()
                    line = line.removesuffix(_KEY) or b"\n"
                if line.strip() == b"/background":
                    await pressed()
                elif line.strip() or not line:
                    self._ahead.append(line)

    def typed(self) -> str | None:
        """Give the next line that was typed ahead; None if there is none.

        Raises EOFError.
        """
        if not self._ahead:
            return None
        if not (line := self._ahead.pop(0)):
            raise EOFError
        return line.decode(errors="replace").rstrip("\n")

    def begun(self) -> bool:
        """Whether somebody has begun to type a line and not ended it yet."""
        import select
        import termios

        if self._before is None:
            return False
        try:
            # The terminal shows us half a line only while it does not collect lines.
            raw = [*self._before[:3], self._before[3] & ~termios.ICANON, *self._before[4:]]
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, raw)
            return bool(select.select([sys.stdin], [], [], 0)[0])
        except (termios.error, OSError):
            return False
        finally:
            self.restore()

    def restore(self) -> None:
        """Make it as it was."""
        self._set(None)

    @contextmanager
    def _keyed(self) -> Generator[None]:
        self._set(_KEY)
        try:
            yield
        finally:
            self.restore()

    def _set(self, key: bytes | None) -> None:
        import termios

        if self._before is None:
            return
        with suppress(termios.error):
            chosen = [*self._before[:6], list(self._before[6])]
            if key is not None:
                chosen[6][termios.VEOL] = key
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, chosen)
