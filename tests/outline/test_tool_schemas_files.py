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
        '{"type":"object","properties":{"file_path":{"type":"string","description":"Absolute or from the root; ~ is the home folder"},"offset":{"type":"integer","description":"The first line","minimum":1},"limit":{"type":"integer","minimum":1},"pages":{"type":"string","description":"Of a PDF, such as \\"3\\" or \\"1-5\\"; 20 at most"}},"required":["file_path"],"additionalProperties":false}'
    )


def test_write() -> None:
    """The schema of Write is what it was."""
    assert schema(Write.arguments).decode() == snapshot(
        '{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"],"additionalProperties":false}'
    )


def test_edit() -> None:
    """The schema of Edit is what it was."""
    assert schema(Edit.arguments).decode() == snapshot(
        '{"type":"object","properties":{"file_path":{"type":"string"},"old_string":{"type":"string"},"new_string":{"type":"string"},"replace_all":{"type":"boolean","description":"Replace every occurrence"}},"required":["file_path","old_string","new_string"],"additionalProperties":false}'
    )


def test_notebook_edit() -> None:
    """The schema of NotebookEdit is what it was."""
    assert schema(NotebookEdit.arguments).decode() == snapshot(
        '{"type":"object","properties":{"notebook_path":{"type":"string"},"cell_id":{"type":"string"},"cell_number":{"type":"integer","description":"Counted from 0","minimum":0},"new_source":{"type":"string"},"cell_type":{"type":"string","description":"Needed for insert; for replace, changes the cell\'s type","enum":["code","markdown"]},"edit_mode":{"type":"string","enum":["delete","insert","replace"],"default":"replace"}},"required":["notebook_path"],"additionalProperties":false}'
    )


def test_glob() -> None:
    """The schema of Glob is what it was."""
    assert schema(Glob.arguments).decode() == snapshot(
        '{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string","description":"A folder; else the root"}},"required":["pattern"],"additionalProperties":false}'
    )


def test_grep() -> None:
    """The schema of Grep is what it was, dashes in names included."""
    assert schema(Grep.arguments).decode() == snapshot(
        '{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"A file or folder; else the root"},"glob":{"type":"string","description":"Such as \\"src/**/*.ts\\" or \\"!*.min.js\\""},"type":{"type":"string","description":"Such as py or rust"},"output_mode":{"type":"string","enum":["content","count","files_with_matches"],"default":"files_with_matches"},"-i":{"type":"boolean"},"-n":{"type":"boolean","default":true},"-A":{"type":"integer","minimum":0},"-B":{"type":"integer","minimum":0},"-C":{"type":"integer","minimum":0},"multiline":{"type":"boolean","description":"Let a match span lines, and . match line feeds"},"head_limit":{"type":"integer","description":"Lines or files to show","minimum":1,"maximum":5000,"default":250}},"required":["pattern"],"additionalProperties":false}'
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
        '{"type":"object","properties":{"items":{"type":"array","description":"Some","items":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"minItems":1},"one":{"type":"object","description":"Just one","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"extra":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false},"either":{"anyOf":[{"type":"integer"},{"type":"string"}]},"table":{"type":"object","additionalProperties":{"type":"object","properties":{"label":{"type":"string","description":"What it says"},"kind":{"type":"string","enum":["a","b"],"default":"a"}},"required":["label"],"additionalProperties":false}}},"required":["items","one"],"additionalProperties":false}'
    )


class Endless(msgspec.Struct):
    """A type that holds itself."""

    again: list[Endless] = []


def test_a_type_that_holds_itself_has_no_schema() -> None:
    """Recursion cannot be flat and is caught when the tool is made."""
    with pytest.raises(TypeError, match="holds itself"):
        schema(Endless)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_descriptions_are_stable_text(tool: Read | Write) -> None:
    """Each tool has its text, short, without paths of this machine or dates."""
    folder = Path(prong.text.__path__[0])
    text = (folder / "tool" / f"{tool.name}.md").read_text()
    assert 3 <= text.count("\n") <= 25
    assert str(Path.home()) not in text
    assert text.endswith(".\n")
