from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from prong.entry import CallId
from prong.tools.access import Access, Writing
from prong.tools.files.content import Binary, TextFile, decode
from prong.tools.files.diff import unified
from prong.tools.files.known import load, shown_path, store
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, Tool, done

NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


class EditArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Edit takes."""

    file_path: str
    old_string: str
    new_string: str
    replace_all: Annotated[bool, Meta(description="Replace every occurrence")] = False


class Edit:
    """Replaces a piece of text in a file."""

    name = "Edit"
    effect: SideEffect = "writes"
    arguments: type[Struct] = EditArguments
    budget = 10_000

    def title(self, args: EditArguments) -> str:
        """Name the file."""
        return f"Edit {args.file_path}"

    def access(self, args: EditArguments, context: Context) -> Sequence[Access]:
        """Name the file that will be changed, links followed."""
        return [Writing(context.host.resolve(args.file_path))]

    async def run(self, call_id: CallId, args: EditArguments, context: Context) -> CallOutcome:
        """Replace the text, if it is there and meant once or everywhere."""
        del call_id
        path = context.host.resolve(args.file_path)
        name = shown_path(context.host, path)
        change = await self._change(args, context)
        if isinstance(change, Failed):
            return change
        document, spans, changed = change
        text = document.text
        try:
            encoded = document.encode(changed)
        except UnicodeEncodeError as error:
            return Failed(
                f"{name} is {document.encoding}, which cannot hold {error.object[error.start]!a}"
            )
        if (failed := await store(context, path, encoded)) is not None:
            return failed
        return done(
            _summary(name, text, spans, args.new_string), shown=unified(name, text, changed)
        )

    async def preview(self, args: EditArguments, context: Context) -> str | Failed:
        """Compare the file with what it would be."""
        change = await self._change(args, context)
        if isinstance(change, Failed):
            return change
        document, _, changed = change
        name = shown_path(context.host, context.host.resolve(args.file_path))
        return unified(name, document.text, changed)

    async def _change(
        self, args: EditArguments, context: Context
    ) -> tuple[TextFile, list[tuple[int, int]], str] | Failed:
        """Work out the new text, and where in the old one it differs."""
        path = context.host.resolve(args.file_path)
        name = shown_path(context.host, path)
        if args.old_string == args.new_string:
            return Failed("old_string and new_string are the same; nothing would change")
        if not args.old_string:
            return Failed("old_string is empty; use Write to make a file or replace all of it")
        # An exact match proves that the text is known, if only from the one who gave the task.
        data = await load(context, path, unseen=True)
        if isinstance(data, Failed):
            return data
        document = decode(data)
        if isinstance(document, Binary):
            return Failed(f"{name} is {document.kind}; Edit works on text only")
        text = document.text
        spans = occurrences(text, args.old_string)
        if not spans:
            return Failed(f"{name}: old_string was not found. {hint(text, args.old_string)}")
        if len(spans) > 1 and not args.replace_all:
            return Failed(_ambiguous(name, text, spans))
        return document, spans, substitute(text, spans, args.new_string)


def occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """Find where a text stands, from left to right, not overlapping.

    Read shows lines without their endings, so a line feed in `old` also stands for CR LF.
    """
    if "\r\n" in text:
        lines = old.replace("\r\n", "\n").split("\n")
        return [m.span() for m in re.finditer(r"\r?\n".join(map(re.escape, lines)), text)]
    spans: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def substitute(text: str, spans: Sequence[tuple[int, int]], new: str) -> str:
    """Replace the spans and nothing else; new lines end as the file's lines do."""
    crlf = text.count("\r\n")
    if crlf and crlf * 2 >= text.count("\n"):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], new)
        at = end
    return "".join([*pieces, text[at:]])


def hint(text: str, old: str) -> str:
    """Say what may be wrong with a text that was not found."""
    if NUMBERED.search(old) and occurrences(text, NUMBERED.sub("", old)):
        return "Leave out the line numbers that Read puts before each line."
    wanted = [line.split() for line in old.strip().splitlines()]
    lines = text.splitlines()
    have = [line.split() for line in lines]
    for i in range(len(have) - len(wanted) + 1 if any(wanted) else 0):
        if have[i : i + len(wanted)] == wanted:
            exact = "\n".join(lines[i : i + len(wanted)])
            where = _lines(i + 1, i + len(wanted))
            return f"At {where} only the white space differs; the text there is:\n{exact}"
    return "Read the file again and copy the text exactly, white space included."


def _ambiguous(name: str, text: str, spans: Sequence[tuple[int, int]]) -> str:
    at = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in spans[:20])
    more = ", …" if len(spans) > 20 else ""
    return (
        f"{name}: old_string stands in {len(spans)} places (lines {at}{more}); "
        f"add lines around it to make it unique, or set replace_all"
    )


def _summary(name: str, text: str, spans: Sequence[tuple[int, int]], new: str) -> str:
    first = text.count("\n", 0, spans[0][0]) + 1
    if len(spans) > 1:
        return f"edited {name}: {len(spans)} replacements, the first at line {first}"
    return f"edited {name}: 1 replacement, {_lines(first, first + new.rstrip().count(chr(10)))}"


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


if TYPE_CHECKING:
    _: Tool = Edit()
