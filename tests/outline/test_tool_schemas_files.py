"""What the model sees of the file tools: golden bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from inline_snapshot import snapshot

import prong.text
from prong.tools.files import Edit, Glob, Grep, NotebookEdit, Read, Write
from prong.tools.schema import schema

pytestmark = pytest.mark.spec("L2")

TOOLS = (Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep())


def test_read() -> None:
    """The schema of Read is what it was."""
    assert schema(Read.arguments).decode() == snapshot(
        '{"type":"object","properties":{"file_path":{"type":"string","description":"The file to read, absolute or from the root"},"offset":{"type":"integer","description":"The number of the first line to read","minimum":1},"limit":{"type":"integer","description":"How many lines to read; 2000 if left out","minimum":1},"pages":{"type":"string","description":"Pages of a PDF, such as \\"3\\" or \\"1-5\\"; at most 20 at a time"}},"required":["file_path"],"additionalProperties":false}'
    )


def test_write() -> None:
    """The schema of Write is what it was."""
    assert schema(Write.arguments).decode() == snapshot(
        '{"type":"object","properties":{"file_path":{"type":"string","description":"The file to write, absolute or from the root"},"content":{"type":"string","description":"The whole new content"}},"required":["file_path","content"],"additionalProperties":false}'
    )


def test_edit() -> None:
    """The schema of Edit is what it was."""
    assert schema(Edit.arguments).decode() == snapshot(
        '{"type":"object","properties":{"file_path":{"type":"string","description":"The file to change, absolute or from the root"},"old_string":{"type":"string","description":"The exact text to replace"},"new_string":{"type":"string","description":"The text to put in its place"},"replace_all":{"type":"boolean","description":"Replace every occurrence instead of exactly one","default":false}},"required":["file_path","old_string","new_string"],"additionalProperties":false}'
    )


def test_notebook_edit() -> None:
    """The schema of NotebookEdit is what it was."""
    assert schema(NotebookEdit.arguments).decode() == snapshot(
        '{"type":"object","properties":{"notebook_path":{"type":"string","description":"The .ipynb file, absolute or from the root"},"cell_id":{"type":"string","description":"The cell, by the id that Read shows"},"cell_number":{"type":"integer","description":"The cell, by its place counted from 0","minimum":0},"new_source":{"type":"string","description":"The new source; not needed for delete","default":""},"cell_type":{"type":"string","description":"Needed for insert; for replace, changes the cell\'s type","enum":["code","markdown"]},"edit_mode":{"type":"string","description":"insert puts a new cell after the named one, or first if none is named","enum":["delete","insert","replace"],"default":"replace"}},"required":["notebook_path"],"additionalProperties":false}'
    )


def test_glob() -> None:
    """The schema of Glob is what it was."""
    assert schema(Glob.arguments).decode() == snapshot(
        '{"type":"object","properties":{"pattern":{"type":"string","description":"Which files, such as \\"**/*.py\\" or \\"src/**/*.{ts,tsx}\\"","minLength":1},"path":{"type":"string","description":"The folder to look in; the root if left out"}},"required":["pattern"],"additionalProperties":false}'
    )


def test_grep() -> None:
    """The schema of Grep is what it was, dashes in names included."""
    assert schema(Grep.arguments).decode() == snapshot(
        '{"type":"object","properties":{"pattern":{"type":"string","description":"A regular expression in ripgrep\'s syntax"},"path":{"type":"string","description":"A file or folder to search; the root if left out"},"glob":{"type":"string","description":"Only files that match, such as \\"*.py\\" or \\"src/**/*.ts\\""},"type":{"type":"string","description":"Only files of a type that ripgrep knows, such as py or rust"},"output_mode":{"type":"string","description":"Show matching lines, names of files, or matching lines per file","enum":["content","count","files_with_matches"],"default":"files_with_matches"},"-i":{"type":"boolean","description":"Ignore case","default":false},"-n":{"type":"boolean","description":"Show line numbers with content","default":true},"-A":{"type":"integer","description":"Lines of content to show after each match","minimum":0,"default":0},"-B":{"type":"integer","description":"Lines of content to show before each match","minimum":0,"default":0},"-C":{"type":"integer","description":"Lines of content to show around each match","minimum":0,"default":0},"multiline":{"type":"boolean","description":"Let a match span lines; . matches line feeds","default":false},"head_limit":{"type":"integer","description":"Show at most so many lines or files","minimum":1,"maximum":5000,"default":250}},"required":["pattern"],"additionalProperties":false}'
    )


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """A docstring that no model should see."""

    label: Annotated[str, msgspec.Meta(description="What it says")]
    kind: Literal["b", "a"] = "a"


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """Another one."""

    items: Annotated[list[Inner], msgspec.Meta(description="Some", min_length=1)]
    one: Annotated[Inner, msgspec.Meta(description="Just one")]
    extra: Inner | None = None
    either: int | str | None = None
    table: dict[str, Inner] = {}


def test_nested_structs_stand_inline() -> None:
    """No references, titles or docstrings; optional means not required."""
    assert schema(Outer).decode() == snapshot(
        '{"type":"object","properties":{"items":{"type":"array","description":"Some","items":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"minItems":1},"one":{"type":"object","description":"Just one","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"extra":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"either":{"anyOf":[{"type":"integer"},{"type":"string"}]},"table":{"type":"object","default":{},"additionalProperties":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false}}},"required":["items","one"],"additionalProperties":false}'
    )


class Endless(msgspec.Struct):
    """A type that holds itself."""

    again: list[Endless] = []


def test_a_type_that_holds_itself_is_our_mistake() -> None:
    """Recursion cannot be flat and is caught when the tool is made."""
    with pytest.raises(AssertionError, match="holds itself"):
        schema(Endless)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_descriptions_are_stable_text(tool: Read | Write) -> None:
    """Each tool has its text, short, without paths of this machine or dates."""
    folder = Path(prong.text.__path__[0])
    text = (folder / "tool" / f"{tool.name}.md").read_text()
    assert 3 <= text.count("\n") <= 25
    assert str(Path.home()) not in text
    assert text.endswith(".\n")
