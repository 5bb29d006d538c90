"""Modes in a circle, and a text in the user's own editor: for faces in a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import anyio.to_thread

from prong.errors import NotPossibleNow

CYCLE = ("default", "acceptEdits", "plan", "auto")
"""The modes that one key goes through; the others are chosen by name."""
_USUAL = ("nano", "vi", "notepad")
"""Editors that are taken in a terminal where none is named, the first that is there."""


def following(mode: str) -> str:
    """Give the mode that comes next."""
    at = CYCLE.index(mode) if mode in CYCLE else -1
    return CYCLE[(at + 1) % len(CYCLE)]


async def edit(text: str, name: str = "plan.md") -> str:
    """Let the user edit a text in their own editor.

    Raises NotPossibleNow, with what was wrong: there is none, it failed, or it left nothing.
    """
    argv = _editor()
    try:
        code, edited = await anyio.to_thread.run_sync(partial(_run, argv, text, name))
    except OSError as error:
        raise NotPossibleNow(f"{argv[0]} cannot be run: {error.strerror}") from error
    if code != 0:
        raise NotPossibleNow(f"{argv[0]} ended with code {code}")
    if not edited:
        raise NotPossibleNow(f"{argv[0]} left no text")
    return edited


def _run(argv: list[str], text: str, name: str) -> tuple[int, str]:
    """Run an editor on a text; gives its exit code, and what it left."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(f"{text}\n", encoding="utf-8")
        code = subprocess.run([*argv, str(path)], check=False).returncode
        return code, path.read_text(encoding="utf-8", errors="replace").strip()


def _editor() -> list[str]:
    """Give the user's editor, or one that is there."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise NotPossibleNow(f"EDITOR cannot be read: {error}") from error
    if not words and sys.stdin.isatty():
        words = [one for one in _USUAL if shutil.which(one) is not None][:1]
    if not words:
        raise NotPossibleNow("no editor was found: set EDITOR")
    return words
