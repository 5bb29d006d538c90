from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from prong.entry import CallId
from prong.tools.access import Access, Writing
from prong.tools.files.content import TextFile, decode
from prong.tools.files.diff import unified
from prong.tools.files.known import (
    LOADED,
    digest,
    not_a_file,
    shown_path,
    stale,
    store,
    streamed_digest,
    unusable,
)
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect, Tool, done


class WriteArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Write takes."""

    file_path: str
    content: str


class Write:
    """Makes a file or replaces all of it."""

    name = "Write"
    effect: SideEffect = "writes"
    arguments: type[Struct] = WriteArguments
    budget = 10_000

    def title(self, args: WriteArguments) -> str:
        """Name the file."""
        return f"Write {args.file_path}"

    def access(self, args: WriteArguments, context: Context) -> Sequence[Access]:
        """Name the file that will be written, links followed."""
        return [Writing(context.host.resolve(args.file_path))]

    async def preview(self, args: WriteArguments, context: Context) -> str | Failed:
        """Compare what is there with what would be."""
        path = context.host.resolve(args.file_path)
        before = await self._before(context, path)
        if isinstance(before, Failed):
            return before
        old = before.text if before else ""
        return unified(shown_path(context.host, path), old, args.content)

    async def run(self, call_id: CallId, args: WriteArguments, context: Context) -> CallOutcome:
        """Write the file if it is new or known."""
        del call_id
        path = context.host.resolve(args.file_path)
        name = shown_path(context.host, path)
        before = await self._before(context, path)
        if isinstance(before, Failed):
            return before
        try:
            data = args.content.encode()
        except UnicodeEncodeError:
            return Failed(f"{name}: the content holds a lone surrogate, which no file can hold")
        if (failed := await store(context, path, data)) is not None:
            return failed
        lines = len(args.content.splitlines())
        verb = "made" if before is None else "replaced"
        return self._done(
            name, f"{verb} {name}: {lines} line{'' if lines == 1 else 's'}", before, args.content
        )

    def _done(self, name: str, text: str, before: TextFile | None, content: str) -> Done:
        return done(text, shown=unified(name, before.text if before else "", content) or text)

    async def _before(self, context: Context, path: str) -> TextFile | Failed | None:
        """Give what is there now: None if nothing is, Failed if it must not be replaced."""
        name = shown_path(context.host, path)
        try:
            found = await context.host.stat(path)
            if found is None:
                return None
            if (refused := not_a_file(name, found)) is not None:
                return refused
            small = found.size <= LOADED
            data = await context.host.read(path) if small else b""
            current = digest(data) if small else await streamed_digest(context.host, path)
        except OSError as error:
            return unusable(name, error)
        if (refused := stale(context, path, current)) is not None:
            return refused
        old = decode(data)
        return old if isinstance(old, TextFile) else TextFile("", "utf-8")


if TYPE_CHECKING:
    _: Tool = Write()
