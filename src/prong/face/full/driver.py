"""Puts what reads and writes the terminal here in the place of what Textual has for it."""

from __future__ import annotations

import sys

from prong.face.full.input_parser import InputParser
from prong.face.full.output_thread import OutputThread

_PARTS = {
    "textual.drivers.linux_driver": {"XTermParser": InputParser, "WriterThread": OutputThread},
    "textual.drivers.windows_driver": {"WriterThread": OutputThread},
    "textual.drivers.win32": {"XTermParser": InputParser},
}


def adapt_driver() -> None:
    """Have the terminal read and written so: a driver that is loaded names its parts itself."""
    for name, parts in _PARTS.items():
        if name in sys.modules:
            vars(sys.modules[name]).update(parts)
