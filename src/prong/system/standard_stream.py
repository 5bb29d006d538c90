"""The three standard streams, each of which may be missing.

Whoever starts a process may have closed any of them, and a program without a console on Windows has
none; Python has None in their place then. The number of one that is missing goes to the next file
that is opened, a journal or a lock, and whatever a library or the interpreter itself writes to
standard error would stand in that file. So the numbers are held before anything is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, TextIO

STDIN, STDOUT, STDERR = range(3)


def hold_numbers() -> frozenset[int]:
    """Let those that are closed lead nowhere; gives which they were."""
    closed = frozenset(number for number in (STDIN, STDOUT, STDERR) if not _is_open(number))
    for number in sorted(closed):
        lead_nowhere(number)
    return closed


def hold_streams() -> frozenset[int]:
    """Do so, and give Python a stream for each that it has not; gives which were missing."""
    missing = hold_numbers()
    # Nothing is read from what leads nowhere, and what is written there is gone: they stay open
    # for as long as the process lives, as the others do.
    if sys.stdin is None:
        missing |= {STDIN}
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - see above
    if sys.stdout is None:
        missing |= {STDOUT}
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - see above
    if sys.stderr is None:
        missing |= {STDERR}
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - see above
    return missing


def lead_nowhere(number: int) -> None:
    """Have what is written to a number vanish, and nothing be read from it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == number:
        # Programs that are started inherit it like any other standard stream.
        os.set_inheritable(number, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)


@contextmanager
def named(stream: Literal["standard input", "standard output"]) -> Generator[None]:
    """Have whatever fails of a stream say which one it was, as a file says its path."""
    try:
        yield
    except OSError as error:
        error.filename = stream
        raise


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream of Python's is there and a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if sys.platform == "win32":

    def wait_input(seconds: float) -> bool:
        """Wait for standard input; whether something came: not to be known here, so it did."""
        del seconds
        return True

else:

    def wait_input(seconds: float) -> bool:
        """Wait for standard input; whether something came, its end too."""
        import select

        return bool(select.select([sys.stdin], [], [], seconds)[0])
