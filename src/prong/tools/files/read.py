from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import anyio.lowlevel
from msgspec import Meta, Struct

from prong.entry import CallId, Image, Text
from prong.tools.access import Access, Reading
from prong.tools.files import pdf
from prong.tools.files.cells import notebook_parts, parse
from prong.tools.files.content import Binary, decode, kind_of
from prong.tools.files.known import HASHED, LOADED, PIECE, digest, not_a_file, shown_path, unusable
from prong.tools.files.picture import inspect, media_type_of
from prong.tools.files.window import Window, split, view
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect, Tool, done

LINES = 2000
BUDGET = 100_000


class ReadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Read takes."""

    file_path: Annotated[str, Meta(description="Absolute or from the root; ~ is the home folder")]
    offset: Annotated[int, Meta(ge=1, description="The first line")] | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    pages: Annotated[str, Meta(description='Of a PDF, such as "3" or "1-5"; 20 at most')] | None = (
        None
    )


class Read:
    """Reads text, pictures, notebooks and PDF documents."""

    name = "Read"
    effect: SideEffect = "reads"
    arguments: type[Struct] = ReadArguments
    budget = BUDGET + 2000

    def title(self, args: ReadArguments) -> str:
        """Name the file and the range."""
        if args.pages:
            return f"Read {args.file_path} (pages {args.pages})"
        if args.offset or args.limit:
            first = args.offset or 1
            return f"Read {args.file_path}:{first}-{first + (args.limit or LINES) - 1}"
        return f"Read {args.file_path}"

    def access(self, args: ReadArguments, context: Context) -> Sequence[Access]:
        """Name the file that will be read, links followed."""
        return [Reading(context.host.resolve(args.file_path))]

    async def run(self, call_id: CallId, args: ReadArguments, context: Context) -> CallOutcome:
        """Read it and note that the agent knows its content."""
        del call_id
        path = context.host.resolve(args.file_path)
        name = shown_path(context.host, path)
        try:
            found = await context.host.stat(path)
            if found is None:
                return Failed(f"{name}: there is no such file; use Glob to look for it")
            if (refused := not_a_file(name, found)) is not None:
                return refused
            if found.size > LOADED:
                return await _huge(context, path, args, found.size)
            data = await context.host.read(path)
        except OSError as error:
            return unusable(name, error)
        outcome = await _content(context, name, data, args)
        if isinstance(outcome, Done):
            context.reads.note(path, digest(data))
        return outcome


async def _content(context: Context, name: str, data: bytes, args: ReadArguments) -> CallOutcome:
    if not data:
        return done(f"[{name} is empty]")
    ranged = args.offset is not None or args.limit is not None
    if data.startswith(b"%PDF-"):
        if ranged:
            return Failed(f"{name} is a PDF; use pages instead of offset and limit")
        return await _pdf(context, name, data, args.pages)
    if args.pages is not None:
        return Failed(f"{name} is not a PDF; use offset and limit instead of pages")
    media_type = media_type_of(data)
    if media_type is not None:
        if ranged:
            return Failed(f"{name} is a picture; leave out offset and limit")
        return _picture(context, name, data, media_type)
    document = decode(data)
    if isinstance(document, Binary):
        return Failed(f"{name} is {document.kind}, not text; inspect it with Bash if you must")
    # With a range a notebook is read as the JSON text it is.
    if name.endswith(".ipynb") and not ranged:
        notebook = parse(data)
        if isinstance(notebook, str):
            return Failed(
                f"{name} is not a valid notebook ({notebook}); give offset to see its text"
            )
        return Done(notebook_parts(notebook, images=context.images, budget=BUDGET))
    lines = split(document.text)
    first = args.offset or 1
    chosen = lines[first - 1 : first - 1 + (args.limit or LINES)]
    notes = [f"decoded as {document.encoding}"] if document.encoding == "latin-1" else []
    return _lines(name, chosen, first, len(lines), notes)


def _lines(
    name: str, chosen: list[str], first: int, total: int | None, notes: list[str]
) -> CallOutcome:
    if not chosen:
        has = "no lines" if total == 0 else f"only {total} lines"
        return Failed(f"{name} has {has}; offset {first} is past its end")
    shown = view(chosen, first, budget=BUDGET)
    if total is None or first > 1 or shown.last < total:
        of = "" if total is None else f" of {total}"
        more = total is None or shown.last < total
        go_on = f"; go on with offset {shown.last + 1}" if more else ""
        notes = [f"lines {first}-{shown.last}{of}{go_on}", *notes]
    return done("\n".join([shown.text, *(f"[{note}]" for note in notes)]))


def _picture(context: Context, name: str, data: bytes, media_type: str) -> CallOutcome:
    if not context.images:
        return Failed(f"{name} is a picture ({media_type}), which this model cannot see")
    picture = inspect(data)
    if isinstance(picture, str):
        return Failed(f"{name} is a picture ({media_type}) that cannot be shown: {picture}")
    note = f"[{name}: {media_type}, {picture.width}x{picture.height}, {len(data):,} bytes]"
    return Done((Text(note), Image(media_type, base64.b64encode(data).decode())), shown=note)


async def _pdf(context: Context, name: str, data: bytes, pages: str | None) -> CallOutcome:
    span = pdf.page_range(pages) if pages is not None else (1, pdf.PAGES)
    if span is None:
        return Failed(f"pages must be a number or a range such as 1-5, not {pages!r}")
    first, last = span
    if last - first >= pdf.PAGES:
        return Failed(f"at most {pdf.PAGES} pages can be read at a time")
    got = await pdf.extract(context.host, name, data, first, last)
    if isinstance(got, Failed):
        return got
    if not got.pages:
        return Failed(f"{name} has {got.total} pages; page {first} is past its end")
    end = first + len(got.pages) - 1
    blocks = [f"[page {n} of {got.total}]\n{text}" for n, text in enumerate(got.pages, first)]
    if end < got.total and pages is None:
        blocks.append(f"[go on with pages {end + 1}-{min(end + pdf.PAGES, got.total)}]")
    text = "\n".join(blocks)
    if len(text) > BUDGET:
        text = f"{text[:BUDGET]}\n[cut here; read fewer pages at a time]"
    return done(text)


async def _huge(context: Context, path: str, args: ReadArguments, size: int) -> CallOutcome:
    """Read a range in one pass, hashing as it goes; memory stays small.

    Raises OSError.
    """
    name = shown_path(context.host, path)
    head = await context.host.read(path, limit=PIECE)
    if args.pages is not None or isinstance(decode(head[:4096]), Binary) or b"\0" in head:
        return Failed(f"{name} is {kind_of(head)} of {size:,} bytes, too large to read; use Bash")
    window = Window(args.offset or 1, args.limit or LINES)
    state, offset, whole = hashlib.blake2b(digest_size=16), 0, size <= HASHED
    while (
        piece := head if offset == 0 else await context.host.read(path, offset=offset, limit=PIECE)
    ):
        await anyio.lowlevel.checkpoint()
        window.feed(piece)
        offset += len(piece)
        state.update(piece)
        if not whole and window.total >= window.stop:
            break
    notes = [f"a file of {size:,} bytes"]
    lines = window.lines()
    if any("\ufffd" in line for line in lines):
        notes.append("bytes that are not UTF-8 show as \ufffd")
    if whole:
        context.reads.note(path, state.hexdigest())
    else:
        notes.append("too large to be edited")
    return _lines(name, lines, window.first, window.total if whole else None, notes)


if TYPE_CHECKING:
    _: Tool = Read()
