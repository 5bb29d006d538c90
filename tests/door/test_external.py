"""A text in the user's own editor, which may be missing, fail, or leave nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prong.errors import NotPossibleNow
from prong.face.edit.external import edit

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]


def program(folder: Path, name: str, does: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


async def test_what_an_editor_leaves_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VISUAL goes before EDITOR, and may have arguments."""
    monkeypatch.setenv("VISUAL", program(tmp_path, "ed", 'echo "$1" >> "$2"') + " 'two words'")
    monkeypatch.setenv("EDITOR", "false")
    assert await edit("begun") == "begun\ntwo words"


@pytest.mark.parametrize(
    ("does", "why"),
    [("exit 3", "ed ended with code 3"), (': > "$1"', "ed left no text"), (None, "cannot be run")],
)
async def test_an_editor_that_gives_nothing_is_named(
    does: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said which program it was, and what was wrong with it."""
    path = program(tmp_path, "ed", does) if does is not None else str(tmp_path / "none")
    monkeypatch.setenv("VISUAL", path)
    with pytest.raises(NotPossibleNow, match=why):
        await edit("begun")


async def test_an_editor_that_is_there_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none is named, one that is usual is taken in a terminal; elsewhere that is said."""
    program(tmp_path, "vi", 'echo by vi >> "$1"')
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as at_terminal:
        at_terminal.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        assert await edit("begun") == "begun\nby vi"
    with pytest.raises(NotPossibleNow, match="no editor was found: set EDITOR"):
        await edit("begun")
    monkeypatch.setenv("EDITOR", "'half")
    with pytest.raises(NotPossibleNow, match="EDITOR cannot be read"):
        await edit("begun")
