"""Our own prompt texts: files beside this module, read when they are needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


def without(text: str, parameter: str) -> str:
    """Leave out the lines of a text that speak of a parameter which is not offered."""
    return "\n".join(line for line in text.split("\n") if f"`{parameter}`" not in line)


@cache
def load_text(name: str) -> str:
    """Give a text by name, such as `system` or `tool/Read`, without its last newline."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
