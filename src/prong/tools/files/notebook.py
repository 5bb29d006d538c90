from __future__ import annotations

import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from prong.entry import CallId
from prong.tools.access import Access, Writing
from prong.tools.files.cells import Notebook, cell_name, joined, parse
from prong.tools.files.diff import unified
from prong.tools.files.known import load, shown_path, store
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, Tool, done


class NotebookArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What NotebookEdit takes."""

    notebook_path: str
    cell_id: str | None = None
    cell_number: Annotated[int, Meta(ge=0, description="Counted from 0")] | None = None
    new_source: str = ""
    cell_type: (
        Annotated[
            Literal["code", "markdown"],
            Meta(description="Needed for insert; for replace, changes the cell's type"),
        ]
        | None
    ) = None
    edit_mode: Literal["replace", "insert", "delete"] = "replace"


class NotebookEdit:
    """Replaces, inserts or deletes one cell of a notebook."""

    name = "NotebookEdit"
    effect: SideEffect = "writes"
    arguments: type[Struct] = NotebookArguments
    budget = 10_000

    def title(self, args: NotebookArguments) -> str:
        """Name the notebook and the cell."""
        cell = args.cell_id if args.cell_id is not None else args.cell_number
        return f"NotebookEdit {args.notebook_path}" + (
            f" (cell {cell})" if cell is not None else ""
        )

    def access(self, args: NotebookArguments, context: Context) -> Sequence[Access]:
        """Name the notebook that will be changed, links followed."""
        return [Writing(context.host.resolve(args.notebook_path))]

    async def preview(self, args: NotebookArguments, context: Context) -> str | Failed:
        """Compare the cell with what it would be."""
        found = await self._locate(args, context)
        if isinstance(found, Failed):
            return found
        _, notebook, index = found
        name = shown_path(context.host, context.host.resolve(args.notebook_path))
        return _compared(name, notebook, args, index)

    async def run(self, call_id: CallId, args: NotebookArguments, context: Context) -> CallOutcome:
        """Change the cell."""
        del call_id
        path = context.host.resolve(args.notebook_path)
        name = shown_path(context.host, path)
        found = await self._locate(args, context)
        if isinstance(found, Failed):
            return found
        data, notebook, index = found
        raw: dict[str, Any] = msgspec.json.decode(data.removeprefix(BOM_UTF8))
        told = _change(raw, notebook, args, index, name)
        if isinstance(told, Failed):
            return told
        if (failed := await store(context, path, _dump(raw, data))) is not None:
            return failed
        return done(told, shown=_compared(name, notebook, args, index))

    async def _locate(
        self, args: NotebookArguments, context: Context
    ) -> tuple[bytes, Notebook, int] | Failed:
        """Read the notebook, and find the place of the cell in it."""
        path = context.host.resolve(args.notebook_path)
        data = await load(context, path)
        if isinstance(data, Failed):
            return data
        notebook = parse(data)
        if isinstance(notebook, str):
            return Failed(f"{shown_path(context.host, path)} is not a valid notebook: {notebook}")
        index = _find(notebook, args)
        return index if isinstance(index, Failed) else (data, notebook, index)


def _compared(name: str, notebook: Notebook, args: NotebookArguments, index: int) -> str:
    before = "" if args.edit_mode == "insert" else joined(notebook.cells[index].source)
    after = "" if args.edit_mode == "delete" else args.new_source
    return unified(name, before, after)


def _find(notebook: Notebook, args: NotebookArguments) -> int | Failed:
    """Give the place of the named cell; -1 stands before the first."""
    names = [cell_name(cell, i) for i, cell in enumerate(notebook.cells)]
    if args.cell_id is not None and args.cell_number is not None:
        return Failed("give cell_id or cell_number, not both")
    if args.cell_id is not None:
        if args.cell_id in names:
            return names.index(args.cell_id)
        return Failed(f"no cell has the id {args.cell_id!r}; there are: {', '.join(names[:50])}")
    if args.cell_number is not None:
        if args.cell_number < len(names):
            return args.cell_number
        return Failed(f"there is no cell {args.cell_number}; the notebook has {len(names)} cells")
    if args.edit_mode == "insert":
        return -1
    return Failed(f"{args.edit_mode} needs cell_id or cell_number")


def _change(
    raw: dict[str, Any], notebook: Notebook, args: NotebookArguments, index: int, name: str
) -> str | Failed:
    """Change the decoded notebook and say what was done."""
    cells: list[dict[str, Any]] = raw["cells"]
    if args.edit_mode == "delete":
        del cells[index]
        return f"deleted cell {index} of {name}"
    if args.edit_mode == "insert":
        if args.cell_type is None:
            return Failed("insert needs cell_type: code or markdown")
        cell: dict[str, Any] = {"cell_type": args.cell_type}
        if (notebook.nbformat, notebook.nbformat_minor) >= (4, 5):
            cell["id"] = _new_id(notebook, args.new_source)
        cell["metadata"] = {}
        _fill(cell, args.cell_type, args.new_source)
        cells.insert(index + 1, cell)
        named = f" (id {cell['id']})" if "id" in cell else ""
        return f"inserted {args.cell_type} cell {index + 1}{named} into {name}"
    cell = cells[index]
    _fill(cell, args.cell_type or cell["cell_type"], args.new_source)
    cleared = "; its outputs were cleared" if "outputs" in cell else ""
    return f"replaced cell {index} of {name}{cleared}"


def _fill(cell: dict[str, Any], cell_type: str, source: str) -> None:
    # Outputs of an older source would be a lie.
    cell["cell_type"] = cell_type
    cell["source"] = (
        source if isinstance(cell.get("source"), str) else source.splitlines(keepends=True)
    )
    if cell_type == "code":
        cell["execution_count"] = None
        cell["outputs"] = []
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


def _new_id(notebook: Notebook, source: str) -> str:
    """Make an id out of what is there, so that the same edit gives the same file."""
    taken = {cell.id for cell in notebook.cells}
    seed = f"{len(notebook.cells)}\n{source}"
    while (made := hashlib.blake2b(seed.encode(), digest_size=4).hexdigest()) in taken:
        seed += "+"
    return made


def _dump(raw: dict[str, Any], data: bytes) -> bytes:
    """Encode with the file's own indent and final line feed."""
    import json

    found = re.match(rb"[^\S\n]*\{\r?\n([ \t]+)", data)
    indent = found[1].decode() if found else (None if b"\n" not in data.strip() else 1)

    text = json.dumps(raw, indent=indent, ensure_ascii=False)
    return (text + ("\n" if data.endswith(b"\n") else "")).encode()


if TYPE_CHECKING:
    _: Tool = NotebookEdit()
