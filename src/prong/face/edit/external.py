"""Modes in a circle, and a text in the user's own editor: for faces in a terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import anyio.to_thread

CYCLE = ("default", "acceptEdits", "plan", "auto")
"""The modes that one key goes through; the others are chosen by name."""


def following(mode: str) -> str:
    """Give the mode that comes next."""
    at = CYCLE.index(mode) if mode in CYCLE else -1
    return CYCLE[(at + 1) % len(CYCLE)]


async def edit(text: str, name: str = "plan.md") -> str | None:
    """Let the user edit a text in their own editor; None if that gave nothing."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(f"{text}\n", encoding="utf-8")
        argv = [*shlex.split(command), str(path)]
        try:
            ended = await anyio.to_thread.run_sync(lambda: subprocess.run(argv, check=False))
        except OSError:
            return None
        edited = path.read_text(encoding="utf-8", errors="replace")
    return edited.strip() or None if ended.returncode == 0 else None
