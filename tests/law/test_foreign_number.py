"""Numbers of others are read by one rule: one with thousands of digits is no number, and no fault."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import prong
from prong.config.document import Document, parse_document
from prong.config.hook import parse_hooks
from prong.config.server import parse_servers
from prong.config.server_file import read_codex
from prong.config.setting_type import fits
from prong.errors import ConfigError
from prong.face.draw.own_colour import own_rows
from prong.face.draw.patch import diff_size, draw_diff
from prong.face.edit.key import KeyDecoder
from prong.face.edit.paste import Pasted, labels
from prong.foreign_number import is_number, whole_number
from prong.team.pull import read_reference
from prong.tools.files.pdf import page_range

LONG = "1" * 5_000
"""More digits than Python reads."""
SOURCE = Path(prong.__file__).parent


def by_hand(path: Path) -> Iterator[str]:
    """Name the functions that look whether a text has digits alone and then read it themselves."""
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [node.func for node in ast.walk(found) if isinstance(node, ast.Call)]
            asks = any(
                isinstance(one, ast.Attribute) and one.attr in {"isdecimal", "isdigit"}
                for one in calls
            )
            if asks and any(isinstance(one, ast.Name) and one.id == "int" for one in calls):
                yield f"{path.relative_to(SOURCE)}:{found.lineno}"


def test_nobody_reads_numbers_by_hand() -> None:
    """A text is looked at and read as a number in one place, which knows how long one may be."""
    places = [place for path in SOURCE.rglob("*.py") for place in by_hand(path)]
    assert [place.partition(":")[0] for place in places] == ["foreign_number.py"]


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 1", "1_000", "²", "٣", "0x1", "1" * 16, LONG])
def test_what_is_no_number(text: str) -> None:
    """Signs, blanks, digits of other scripts and endless rows of digits are no numbers."""
    assert whole_number(text) is None


def test_what_is_a_number() -> None:
    """Digits are read, as text and as bytes, up to fifteen of them."""
    assert (whole_number("007"), whole_number(b"12"), whole_number("9" * 15)) == (7, 12, 10**15 - 1)


def test_endless_numbers_do_not_end_a_face() -> None:
    """What commands and terminals print, and what is pasted, is drawn whatever it counts."""
    diff = f"--- a\n+++ b\n@@ -{LONG} +1 @@\n-x\n+y\n"
    assert diff_size(diff) == diff_size(diff.replace("@@", "@ @"))
    assert draw_diff(diff, 80)
    assert [row.text for row in own_rows(f"\x1b[{LONG}mhi", 40, most=1)] == ["hi"]
    assert list(labels(f"[pasted 2 lines #{LONG}]", [Pasted("a\nb")])) == []
    KeyDecoder().feed(f"\x1b[{LONG};2A".encode())


def test_endless_numbers_are_refused() -> None:
    """Pages and pull requests are asked for by numbers that there can be."""
    assert page_range(f"1-{LONG}") is None
    assert read_reference(f"owner/repo#{LONG}") is None


VAST = "1" + "0" * 400
"""A number that is read, and that no clock and no float can hold."""


@pytest.mark.parametrize("value", [True, 10**400, float("inf"), float("nan"), "1", None])
def test_what_cannot_be_counted_with(value: object) -> None:
    """Truths, endless and vast numbers are none, whatever Python takes them for."""
    assert not is_number(value)


def test_vast_numbers_in_files_of_a_project_are_named(tmp_path: Path) -> None:
    """A file that comes with a project ends nothing by a number: its fault is said."""
    hook = f'{{"type": "command", "command": "true", "timeout": {VAST}}}'
    read = parse_document("x", f'{{"hooks": {{"Stop": [{{"hooks": [{hook}]}}]}}}}')
    assert isinstance(read, Document)
    assert "number of seconds" in str(parse_hooks(read, foreign=False))
    assert not fits("amount", 10**400)
    assert not fits("whole", 10**400)
    read = parse_document("x", f'{{"mcpServers": {{"a": {{"command": "x", "timeout": {VAST}}}}}}}')
    assert "milliseconds" in str(parse_servers(read, {})[1])
    settings = tmp_path / "config.toml"
    settings.write_text(f"[mcp_servers.a]\ncommand = 'x'\ntool_timeout_sec = {LONG}")
    assert isinstance(read_codex(settings), ConfigError)
