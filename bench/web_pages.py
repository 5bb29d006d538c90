"""Saved pages through WebFetch's reader: size before and after, time, failures.

    python bench/web_pages.py FOLDER [--most N] [--list]

Takes files from the folders below FOLDER in turn, so that no one maker's pages fill the sample.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from itertools import chain, zip_longest
from pathlib import Path
from statistics import median

import anyio
import msgspec

from prong.entry import Text
from prong.host import LocalHost
from prong.tools.tool import Context, Failed, Reads
from prong.tools.web_fetch import BYTES
from prong.tools.web_page import read_page


class PageRow(msgspec.Struct, frozen=True):
    """One page, before and after."""

    name: str
    before: int
    after: int
    seconds: float
    failed: str = ""


def sample(folder: Path, most: int) -> list[Path]:
    """Take one page of each maker in turn; a maker is a folder directly below."""
    makers: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*.htm*")):
        if path.is_file() and 500 < path.stat().st_size <= BYTES:
            makers[path.relative_to(folder).parts[0]].append(path)
    turns = zip_longest(*makers.values())
    return [path for path in chain.from_iterable(turns) if path is not None][:most]


async def read_one(context: Context, path: Path, folder: Path) -> PageRow:
    """Read one page as WebFetch would."""
    data, name = path.read_bytes(), str(path.relative_to(folder))
    since = time.perf_counter()
    page = await read_page(context, f"https://site.example/{path.name}", "text/html", data)
    seconds = time.perf_counter() - since
    if isinstance(page, Failed):
        return PageRow(name, len(data), 0, seconds, page.why)
    texts = [part.text for part in page.parts if isinstance(part, Text)]
    return PageRow(name, len(data), len("".join(texts).encode()), seconds)


async def measure(folder: Path, most: int) -> list[PageRow]:
    """Read the whole sample, one page after the other."""
    host = LocalHost(folder, home=str(folder))
    context = Context(
        host=host,
        reads=Reads(),
        emit=lambda _: None,
        ask=_nobody,
        tasks=None,  # pyright: ignore[reportArgumentType] # no page starts background work
    )
    return [await read_one(context, path, folder) for path in sample(folder, most)]


async def _nobody(_: object) -> None:
    return None


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--list", action="store_true", help="a line for each page")
    args = parser.parse_args()
    rows = anyio.run(measure, args.folder.resolve(), args.most)
    write = sys.stdout.write
    for row in rows if args.list else ():
        write(f"{row.before:>9,} {row.after:>9,} {row.seconds:6.3f}  {row.failed or row.name}\n")
    before, after = (sum(getattr(row, field) for row in rows) for field in ("before", "after"))
    seconds = [row.seconds for row in rows]
    failed = [row for row in rows if row.failed]
    makers = {row.name.split("/")[0] for row in rows}
    write(
        f"{len(rows)} pages of {len(makers)} makers: {before:,} bytes become {after:,} "
        f"({after / before:.0%}); {median(seconds):.3f} s each (median, with the start of a "
        f"process), {max(seconds):.3f} s at most; {len(failed)} failed\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
