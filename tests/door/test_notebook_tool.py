"""Notebooks as Read shows them and NotebookEdit changes them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.entry import Image, plain
from prong.tools.files import NotebookEdit, Read
from prong.tools.tool import Done
from shared.picture import PNG
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door]

NOTEBOOK: dict[str, Any] = {
    "cells": [
        {
            "cell_type": "markdown",
            "id": "m1",
            "metadata": {"k": [1.5]},
            "source": ["# Title\n", "x"],
        },
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "c1",
            "metadata": {},
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": base64.encodebytes(PNG).decode(), "text/plain": "<Fig>"},
                },
                {
                    "output_type": "error",
                    "ename": "E",
                    "evalue": "v",
                    "traceback": ["\x1b[31mboom\x1b[0m"],
                },
            ],
            "source": "print('hello')",
        },
    ],
    "metadata": {"kernelspec": {"name": "python3", "ünï": "ç"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def put_notebook(bench: Workbench) -> Path:
    path = bench.root / "n.ipynb"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(NOTEBOOK), indent=1) + b"\n")
    return path


@pytest.mark.spec("L2")
async def test_a_notebook_shows_cells_and_outputs(bench: Workbench) -> None:
    """Cells come with ids, sources, text outputs without colours, and pictures in their place."""
    put_notebook(bench)
    outcome = await bench(Read(), file_path="n.ipynb")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == (
        "[cell 0, markdown, id m1]\n# Title\nx\n[cell 1, code, id c1]\nprint('hello')\n[output]\n"
        "hello\n\n[output]\n<Fig>\n[image/png]\n[output]\nboom"
    )
    assert outcome.parts[1] == Image("image/png", base64.b64encode(PNG).decode())
    assert '"nbformat"' in await bench.text(Read(), file_path="n.ipynb", offset=1)
    (bench.root / "bad.ipynb").write_text('{"cells": 3}')
    assert "not a valid notebook" in await bench.why(Read(), file_path="bad.ipynb")


@pytest.mark.spec("L2", "L3")
async def test_notebook_cells_are_replaced_inserted_and_deleted(bench: Workbench) -> None:
    """Only the named cell changes; the rest of the file stays byte for byte."""
    path = put_notebook(bench)
    before = path.read_bytes()
    call: dict[str, Any] = {"notebook_path": "n.ipynb"}
    assert "has not been read" in await bench.why(NotebookEdit(), **call, cell_id="m1")
    await bench.text(Read(), file_path="n.ipynb")
    said = await bench.text(NotebookEdit(), **call, cell_id="m1", new_source="# New\n\nmore")
    assert said == "replaced cell 0 of n.ipynb"
    assert path.read_bytes() == before.replace(
        b'"# Title\\n",\n    "x"', b'"# New\\n",\n    "\\n",\n    "more"'
    )
    said = await bench.text(
        NotebookEdit(), **call, cell_number=1, edit_mode="insert", cell_type="code", new_source="1"
    )
    assert said.startswith("inserted code cell 2 (id ")
    said = await bench.text(NotebookEdit(), **call, cell_number=1, new_source="2")
    assert said == "replaced cell 1 of n.ipynb; its outputs were cleared"
    said = await bench.text(NotebookEdit(), **call, cell_id="m1", edit_mode="delete")
    cells = msgspec.json.decode(path.read_bytes())["cells"]
    assert [(c["cell_type"], c["source"], c["outputs"]) for c in cells] == [
        ("code", "2", []),
        ("code", ["1"], []),
    ]
    first = await bench.text(
        NotebookEdit(), **call, edit_mode="insert", cell_type="markdown", new_source="top"
    )
    assert first.startswith("inserted markdown cell 0")
    assert "no cell has the id 'zz'" in await bench.why(NotebookEdit(), **call, cell_id="zz")
    assert "has 3 cells" in await bench.why(NotebookEdit(), **call, cell_number=3)
    assert "not both" in await bench.why(NotebookEdit(), **call, cell_id="c1", cell_number=0)
    assert "needs cell_id" in await bench.why(NotebookEdit(), **call, new_source="x")
    assert "needs cell_type" in await bench.why(NotebookEdit(), **call, edit_mode="insert")


@pytest.mark.spec("L2", "L6")
async def test_odd_notebooks(bench: Workbench) -> None:
    """Junk pictures are left out, long ones cut, empty and endless ones told of."""
    outputs = [
        {"output_type": "display_data", "data": {"image/png": "!!", "text/plain": ["a", "b"]}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}},
        {"output_type": "stream", "text": "z" * 20_000},
    ]
    cells: list[dict[str, Any]] = [{"cell_type": "code", "source": "1", "outputs": outputs}]
    path = bench.root / "n.ipynb"
    path.write_bytes(msgspec.json.encode({"cells": cells}))
    outcome = await bench(Read(), file_path="n.ipynb")
    assert isinstance(outcome, Done)
    assert [part for part in outcome.parts if isinstance(part, Image)] == [
        Image("image/png", base64.b64encode(PNG).decode())
    ]
    assert "[cell 0, code, id cell-0]" in plain(outcome.parts)
    assert "[… 10000 more characters]" in plain(outcome.parts)
    bench.context.images = False
    assert "[a picture, image/png]" in await bench.text(Read(), file_path="n.ipynb")
    said = await bench.text(
        NotebookEdit(),
        notebook_path="n.ipynb",
        cell_id="cell-0",
        cell_type="markdown",
        new_source="x",
    )
    assert said == "replaced cell 0 of n.ipynb"
    assert path.read_bytes() == b'{"cells": [{"cell_type": "markdown", "source": "x"}]}'
    path.write_bytes(msgspec.json.encode({"cells": cells * 100}))
    text = await bench.text(Read(), file_path="n.ipynb")
    assert text.endswith("more cells; read the file as text with offset and limit]")
    assert len(text) <= 2 * Read.budget
    path.write_text('{"cells": []}')
    assert await bench.text(Read(), file_path="n.ipynb") == "[a notebook without cells]"
    path.write_bytes(b'{"cells": ' + b"[" * 100_000)
    assert "not a valid notebook" in await bench.why(Read(), file_path="n.ipynb")
