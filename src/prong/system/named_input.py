"""A file by whose name a program reads what it is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

if sys.platform == "win32":

    @contextmanager
    def named_input(data: bytes) -> Generator[tuple[str, bytes]]:
        """Give the name, and what the program has to be given as its standard input."""
        import tempfile

        number, path = tempfile.mkstemp(prefix="prong-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            yield path, b""
        finally:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - strings throughout

else:

    @contextmanager
    def named_input(data: bytes) -> Generator[tuple[str, bytes]]:
        """Give the name, and what the program has to be given as its standard input."""
        yield "/dev/stdin", data
