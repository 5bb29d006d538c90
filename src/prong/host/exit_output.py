"""What a shell says at its very end, beside all that its command prints."""

from __future__ import annotations

import os
from contextlib import suppress

from prong.system.descriptor import make_nonblocking
from prong.system.pipe_end import PipeSource
from prong.system.process_tree import INHERITS_NUMBERS


class ExitPipe:
    """A pipe that the shell has by the same number as we."""

    def __init__(self) -> None:
        """Open both ends."""
        source, self._sink = os.pipe()
        self._source = PipeSource(source)
        # What fills it must not keep the shell from its end.
        make_nonblocking(self._sink)
        self.descriptors = (self._sink,)
        """What the shell has to be given."""
        self.target = f">&{self._sink}"
        """Where the shell prints to, in its own words."""

    def begin(self) -> None:
        """Give up the shell's end, once it has started."""
        if self._sink >= 0:
            os.close(self._sink)
            self._sink = -1

    def take(self) -> bytes:
        """Give what was said, and close it."""
        said = self._source.read_nowait()
        self.close()
        return said or b""

    def close(self) -> None:
        """Give up both ends."""
        self.begin()
        self._source.close()


class ExitFile:
    """A file, where a process inherits no numbers."""

    def __init__(self) -> None:
        """Make it, for its owner alone."""
        import shlex
        import tempfile

        number, self._path = tempfile.mkstemp(prefix="prong-")
        os.close(number)
        self.descriptors = tuple[int, ...]()
        """What the shell has to be given."""
        self.target = f">{shlex.quote(self._path.replace(os.sep, '/'))}"
        """Where the shell prints to, in its own words."""

    def begin(self) -> None:
        """Do nothing: there is no end to give up."""

    def take(self) -> bytes:
        """Give what was said, and remove it."""
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - strings throughout
                return file.read(1 << 16)
        except OSError:
            return b""
        finally:
            self.close()

    def close(self) -> None:
        """Remove it."""
        with suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108 - strings throughout


def open_exit_output() -> ExitPipe | ExitFile:
    """Give what a shell can say its last words to; raises OSError."""
    return ExitPipe() if INHERITS_NUMBERS else ExitFile()
