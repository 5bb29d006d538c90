"""Our own prompt texts: files beside this module, read when they are needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def load_text(name: str) -> str:
    """Give a text by name, such as `system` or `tool/Read`, without its last newline."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
