"""The terminal's own settings: how it was, and a key that works while nothing is being typed.

While a turn runs no line is read, so a key can only reach us as a signal. The terminal can send
three, and Ctrl+C and Ctrl+Z have their uses: Ctrl+B takes the place of the third, Ctrl+\\.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

CTRL_B = signal.SIGQUIT
"""What Ctrl+B sends while no line is being typed."""

_KEY = b"\x02"


class Terminal:
    """Changes the terminal's settings for as long as the program talks, and puts them back."""

    def __init__(self) -> None:
        """Remember how it was: line editing changes it for as long as it waits."""
        import termios

        self._before = None
        with suppress(termios.error, ValueError):
            self._before = termios.tcgetattr(sys.stdin.fileno())
        # The signal must not end us between now and the moment in which somebody listens for it.
        if self.has_keys:
            signal.signal(CTRL_B, lambda *_: None)
            self._set(_KEY)

    @property
    def has_keys(self) -> bool:
        """Whether there is a terminal to send signals."""
        return self._before is not None

    @contextmanager
    def editing(self) -> Generator[None]:
        """Give the key back to line editing while a line is being typed."""
        self.restore()
        try:
            yield
        finally:
            self._set(_KEY)

    def restore(self) -> None:
        """Make it as it was."""
        self._set(None)

    def _set(self, key: bytes | None) -> None:
        import termios

        if self._before is None:
            return
        with suppress(termios.error):
            chosen = [*self._before[:6], list(self._before[6])]
            if key is not None:
                chosen[6][termios.VQUIT] = key
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, chosen)
