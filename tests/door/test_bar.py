"""The bar that shows how far a model on this machine is, on a real terminal."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.door


def drawn(*lines: str, columns: int = 40) -> str:
    """Run lines on a screen, in a terminal; gives the bytes that it was sent."""
    program = "\n".join(["from prong.face.screen import Screen", "screen = Screen()", *lines])
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    env |= {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    child = subprocess.Popen([sys.executable, "-c", program], stdout=slave, env=env)
    os.close(slave)
    seen = b""
    # A terminal whose last writer is gone gives an error instead of an end.
    with suppress(OSError):
        while data := os.read(master, 4_096):
            seen += data
    os.close(master)
    assert child.wait() == 0
    return seen.decode()


def test_a_bar_is_cut_to_the_width_of_the_terminal():
    """A bar that wrapped would be left behind, line by line."""
    assert drawn("screen.bar('x' * 100)") == f"\r\x1b[K{'x' * 39}"


def test_a_bar_is_wiped_when_what_it_told_of_is_over():
    """Nothing is left of it, and nothing happens where there is none."""
    assert drawn("screen.wipe()", "screen.bar('half')", "screen.wipe()", "screen.wipe()") == (
        "\r\x1b[Khalf\r\x1b[K"
    )
