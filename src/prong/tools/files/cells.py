"""Notebooks: the cells of an .ipynb file as the model sees them."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any

import msgspec

from prong.entry import Image, Part, Text
from prong.foreign_json import NOT_JSON
from prong.tools.files.picture import Picture, inspect

OUTPUT = 10_000
"""Characters of one output that are shown."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Output(msgspec.Struct, frozen=True):
    """One output of a code cell."""

    output_type: str = ""
    text: str | list[str] = ""
    data: dict[str, Any] = {}
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = []


class Cell(msgspec.Struct, frozen=True):
    """One cell."""

    cell_type: str
    source: str | list[str] = ""
    id: str = ""
    outputs: list[Output] = []


class Notebook(msgspec.Struct, frozen=True):
    """As much of a notebook as is shown."""

    cells: list[Cell]
    nbformat: int = 4
    nbformat_minor: int = 0


def parse(data: bytes) -> Notebook | str:
    """Read a notebook; a text says what is wrong with it."""
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Notebook)
    except RecursionError:
        return "it is nested too deeply"
    except NOT_JSON as error:
        return str(error)


def joined(text: str | list[str]) -> str:
    """Give a multi-line string, which notebooks keep as a list."""
    return text if isinstance(text, str) else "".join(text)


def cell_name(cell: Cell, index: int) -> str:
    """Give the id by which a cell is addressed: its own, or one made of its place."""
    return cell.id or f"cell-{index}"


def notebook_parts(notebook: Notebook, *, images: bool, budget: int) -> tuple[Part, ...]:
    """Show the cells with their outputs, pictures in their place."""
    parts: list[Part] = []
    lines: list[str] = []
    used = 0
    for index, cell in enumerate(notebook.cells):
        lines.append(f"[cell {index}, {cell.cell_type}, id {cell_name(cell, index)}]")
        lines.append(joined(cell.source))
        for output in cell.outputs:
            lines.append("[output]")
            lines += _texts(output)
            picture = _picture(output)
            if picture is not None and images:
                parts += [Text("\n".join(lines)), picture]
                used += sum(map(len, lines))
                lines = []
            elif picture is not None:
                lines.append(f"[a picture, {picture.media_type}]")
        if used + sum(map(len, lines)) > budget and index + 1 < len(notebook.cells):
            rest = len(notebook.cells) - index - 1
            lines.append(f"[{rest} more cells; read the file as text with offset and limit]")
            break
    if not notebook.cells:
        lines.append("[a notebook without cells]")
    return (*parts, *([Text("\n".join(lines))] if lines else []))


def _texts(output: Output) -> list[str]:
    if output.output_type == "error":
        trace = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
        texts = [trace]
    else:
        plain = output.data.get("text/plain", "")
        texts = [joined(output.text), _text_of(plain)]
    return [_cut(_COLOUR.sub("", text)) for text in texts if text]


def _text_of(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(each) for each in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - foreign JSON
    return value if isinstance(value, str) else ""


def _picture(output: Output) -> Image | None:
    for media_type in ("image/png", "image/jpeg"):
        data = "".join(_text_of(output.data.get(media_type, "")).split())
        if not data:
            continue
        try:
            raw = b64decode(data, validate=True)
        except ValueError:
            continue
        found = inspect(raw)
        if isinstance(found, Picture):
            return Image(found.media_type, b64encode(raw).decode())
    return None


def _cut(text: str) -> str:
    if len(text) <= OUTPUT:
        return text
    return f"{text[:OUTPUT]}\n[… {len(text) - OUTPUT} more characters]"
