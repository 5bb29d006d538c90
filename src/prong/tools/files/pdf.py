"""Text of a PDF, taken out in a process of its own: a hostile document may crash or never end."""

from __future__ import annotations

import sys

import msgspec

from prong.foreign_number import whole_number
from prong.host import Host
from prong.tools.tool import Failed

PAGES = 20
"""Pages read when none are named, and at most at once."""
SECONDS = 60.0
PROGRAM = "from prong.tools.files.pdf import main; main()"


def page_range(text: str) -> tuple[int, int] | None:
    """Read `3` or `1-5`; None if it is neither."""
    first, _, last = text.partition("-")
    start, end = whole_number(first.strip()), whole_number((last or first).strip())
    if start is None or end is None:
        return None
    return (start, end) if 1 <= start <= end else None


class Extract(msgspec.Struct, frozen=True):
    """Text of some pages."""

    pages: tuple[str, ...]
    total: int


async def extract(host: Host, name: str, data: bytes, first: int, last: int) -> Extract | Failed:
    """Take the text out of pages `first` to `last`."""
    from importlib.util import find_spec

    if find_spec("pypdf") is None:
        return Failed(f"{name} is a PDF; reading it needs: pip install 'prong[pdf]'")
    # -P keeps the project's folder off the import path: its files are not to be run.
    argv = [sys.executable, "-P", "-c", PROGRAM, str(first), str(last)]
    try:
        finished = await host.run(argv, stdin=data, seconds=SECONDS, limit=32 << 20)
    except OSError as error:
        return Failed(f"{name}: the PDF reader could not be started: {error}")
    if finished.timed_out:
        return Failed(f"{name}: reading the PDF took longer than {SECONDS:.0f} s")
    if finished.code != 0 or finished.cut:
        lines = finished.errors.decode(errors="replace").strip().splitlines()
        return Failed(f"{name}: the PDF could not be read: {(lines or ['no reason given'])[-1]}")
    return msgspec.json.decode(finished.output, type=Extract)


def main() -> None:
    """Read a PDF on standard input and print the text of a range of pages as JSON."""
    import logging
    from io import BytesIO

    from pypdf import PdfReader

    logging.disable()
    reader = PdfReader(BytesIO(sys.stdin.buffer.read()))
    first, last = int(sys.argv[1]), int(sys.argv[2])
    pages = tuple(_clean(page.extract_text()) for page in reader.pages[first - 1 : last])
    sys.stdout.buffer.write(msgspec.json.encode(Extract(pages, len(reader.pages))))


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode()
