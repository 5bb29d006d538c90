"""Front matter of Markdown files: flat keys with texts or lists of texts.

Nearly every file in the wild is `key: value`, so a strict line reader takes those and the YAML
package, slow to import, is asked only for the rest. Either way all values are text or lists of
text; what a value means is for the caller to say.
"""

from __future__ import annotations

import re
from typing import TypeAlias, cast

import msgspec

from prong.errors import ConfigError

Value: TypeAlias = str | tuple[str, ...]

_KEY = r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?$"
_ITEM = r"[ \t]*-[ \t]+(.*)$"
_BEYOND = tuple("|>&*!{%@`[")
"""First characters of a value that only YAML understands (lists in brackets are tried first)."""


class Front(msgspec.Struct, frozen=True):
    """A Markdown file, its front matter taken apart."""

    values: dict[str, Value]
    body: str
    lines: dict[str, int]
    """On which line of the file each key stands."""

    def text(self, key: str) -> str:
        """Give a value as one text; empty if it is not there."""
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ", ".join(value)

    def list(self, key: str) -> tuple[str, ...]:
        """Give a value as a list; a text is taken apart at commas outside of brackets."""
        value = self.values.get(key, ())
        if not isinstance(value, str):
            return value
        parts = re.split(r",(?![^()]*\))", value)
        return tuple(part.strip() for part in parts if part.strip())

    def flag(self, key: str, *, default: bool) -> bool:
        """Give a value as yes or no."""
        text = self.text(key).lower()
        if text in ("true", "yes", "on"):
            return True
        if text in ("false", "no", "off"):
            return False
        return default


def read_front(path: str, text: str) -> Front:
    """Take a Markdown text apart.

    Raises ConfigError, with the line, if the front matter cannot be read.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Front({}, text, {})
    for end in range(1, len(lines)):
        if lines[end].rstrip() in ("---", "..."):
            break
    else:
        raise ConfigError(path, "front matter is not closed; end it with a line '---'", line=1)
    head = [line.rstrip() for line in lines[1:end]]
    body = "\n".join(lines[end + 1 :]).lstrip("\n")
    where = _key_lines(path, head)
    values = _simple(head)
    if values is None:
        values = _yaml(path, head)
    return Front(values, body, where)


def _key_lines(path: str, head: list[str]) -> dict[str, int]:
    where: dict[str, int] = {}
    for number, line in enumerate(head, start=2):
        if match := re.match(_KEY, line):
            if match[1] in where:
                why = f"key {match[1]!r} stands twice in the front matter; remove one"
                raise ConfigError(path, why, line=number)
            where[match[1]] = number
    return where


def _simple(head: list[str]) -> dict[str, Value] | None:
    """Read flat keys; None if there is anything that this reader does not know."""
    values: dict[str, Value] = {}
    items: list[str] | None = None
    key = ""
    for line in head:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if match := re.match(_KEY, line):
            key = match[1]
            value = _value(match[2] or "")
            if value is None:
                return None
            values[key] = value
            items = [] if value == "" else None
        elif (match := re.match(_ITEM, line)) and items is not None:
            item = _scalar(match[1])
            if item is None:
                return None
            items.append(item)
            values[key] = tuple(items)
        else:
            return None
    return values


def _value(text: str) -> Value | None:
    text = text.strip()
    if text.startswith("[") and text.endswith("]") and text.count("[") == 1:
        items = [_scalar(item) for item in text[1:-1].split(",") if item.strip()]
        whole = [item for item in items if item is not None]
        plain = not any(mark in text for mark in "\"'(")
        return tuple(whole) if plain and len(whole) == len(items) else None
    return _scalar(text)


def _scalar(text: str) -> str | None:
    text = text.strip()
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        closed = len(text) > 1 and text[-1] == text[0]
        return inner if closed and text[0] not in inner and "\\" not in inner else None
    if text.startswith(_BEYOND) or re.match(r"-( |$)", text):
        return None
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].rstrip()


def _yaml(path: str, head: list[str]) -> dict[str, Value]:
    import yaml

    try:
        # The base loader makes text of every scalar and runs nothing.
        loaded: object = yaml.load("\n".join(head), Loader=yaml.BaseLoader)  # noqa: S506 # see above
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else 2
        why = f"front matter is not valid YAML: {error.problem}; correct or quote the value"
        raise ConfigError(path, why, line=line) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(path, f"front matter is not valid YAML: {error}", line=2) from error
    if not isinstance(loaded, dict):
        raise ConfigError(path, "front matter must be 'key: value' lines", line=2)
    pairs = cast("dict[object, object]", loaded)
    return {str(key): _flat(value) for key, value in pairs.items()}


def _flat(value: object) -> Value:
    if isinstance(value, list):
        # What is nested deeper means nothing to us and is left out.
        return tuple(item for item in cast("list[object]", value) if isinstance(item, str))
    return value if isinstance(value, str) else ""
