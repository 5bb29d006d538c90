"""A docstring, as a model is told of a function by it: what it does, and what each parameter is."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters):?\s*$")
_END = re.compile(r"^\S.*$")
_ITEM = re.compile(r"^(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?(?P<name>\w+):\s*(?P<text>.*)$")
_OTHER_FIELD = re.compile(r"^:\w+.*:")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Take a docstring apart: the description, and what it says of parameters.

    It knows a section `Args:` with indented items, and fields `:param name:`.
    """
    about: list[str] = []
    told: dict[str, list[str]] = {}
    item: list[str] | None = None
    inside = False
    for line in inspect.cleandoc(text).splitlines():
        if _SECTION.match(line):
            inside, item = True, None
        elif (found := _FIELD.match(line)) is not None:
            inside, item = False, told.setdefault(found["name"], [found["text"]])
        elif inside and _END.match(line):
            inside, item = False, None
            about.append(line)
        elif inside:
            item = _next_item(line.strip(), told, item)
        elif item is not None and line.startswith((" ", "\t")):
            item.append(line.strip())
        else:
            item = None
            about.append(line)
    kept = "\n".join(line for line in about if not _OTHER_FIELD.match(line))
    joined = {name: " ".join(part for part in parts if part) for name, parts in told.items()}
    return re.sub(r"\n{3,}", "\n\n", kept).strip(), joined


def _next_item(line: str, told: dict[str, list[str]], item: list[str] | None) -> list[str] | None:
    """Read one line of a section: another parameter, or more about the last."""
    if (found := _ITEM.match(line)) is not None:
        return told.setdefault(found["name"].lstrip("*"), [found["text"]])
    if item is not None:
        item.append(line)
    return item
