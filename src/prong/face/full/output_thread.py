"""What Textual writes to a terminal, by a thread that outlives the terminal.

Textual's own thread ends with the first error, and whoever writes after that waits for ever as soon
as its queue is full: closing a window would leave a program behind that holds its session.
"""

from __future__ import annotations

from contextlib import suppress

from textual.drivers._writer_thread import WriterThread


class OutputThread(WriterThread):
    """Writes until it is stopped; what nobody can see any more is thrown away."""

    def run(self) -> None:
        """Write what is given, flushing whenever nothing else waits."""
        # A closed file raises ValueError, a terminal that is gone OSError.
        while (text := self._queue.get()) is not None:
            with suppress(OSError, ValueError):
                self._file.write(text)
                if self._queue.empty():
                    self._file.flush()
        with suppress(OSError, ValueError):
            self._file.flush()
