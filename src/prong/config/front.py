"""Front matter of Markdown files: flat keys with texts or lists of texts.

Nearly every file in the wild is `key: value`, so a strict line reader takes those and the YAML
package, slow to import, is asked only for the rest. What is no YAML either, such as a description
of many unquoted lines, is read by the keys that the caller knows: what stands between two of them
is the value of the first. Either way all values are text or lists of text; what a value means is
for the caller to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeAlias, cast

import msgspec

from prong.errors import ConfigError

Value: TypeAlias = str | tuple[str, ...]

_KEY = r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?$"
_ITEM = r"[ \t]*-[ \t]+(.*)$"
_BEYOND = tuple("|>&*!{%@`[")
"""First characters of a value that only YAML understands (lists in brackets are tried first)."""
_TEXTS = ("argument-hint",)
"""Keys whose value is a text however it looks: hints are written `[file] [branch]`."""
_LONG = ("description",)
"""Keys whose text is often many lines that nobody has quoted or indented."""
_GUARDS = ("tools", "disallowedTools", "permissionMode", "maxTurns", "isolation", "hooks")
"""Keys that hold somebody back: one that stands where no line reader looks is not passed over."""
_NESTED = ("hooks", "mcpServers")
"""Keys whose value means nothing as lines of text: what cannot be read of them is not guessed."""


class Front(msgspec.Struct, frozen=True):
    """A Markdown file, its front matter taken apart."""

    values: dict[str, Value]
    body: str
    lines: dict[str, int]
    """On which line of the file each key stands."""
    head: str = ""
    """The front matter as it is written."""
    slack: ConfigError | None = None
    """What kept it from being read as YAML, if it was read by the known keys alone."""

    def nested(self, key: str) -> Any:
        """Give a value with all that is in it, as YAML has it; None if it is not there."""
        import yaml

        try:
            loaded = cast("object", yaml.safe_load(self.head))
        except (yaml.YAMLError, RecursionError, ValueError):
            return None
        return cast("dict[str, Any]", loaded).get(key) if isinstance(loaded, dict) else None

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

    def words(self, key: str) -> tuple[str, ...]:
        """Give a value as a list; a text is taken apart at commas and blanks, brackets left."""
        return tuple(word for text in self.list(key) for word in split_words(text))

    def flag(self, key: str, *, default: bool) -> bool:
        """Give a value as yes or no."""
        text = self.text(key).lower()
        if text in ("true", "yes", "on"):
            return True
        if text in ("false", "no", "off"):
            return False
        return default


def split_words(text: str) -> tuple[str, ...]:
    """Take a text apart at blanks outside of brackets."""
    return tuple(re.split(r"\s+(?![^()]*\))", text.strip()))


def read_front(path: str, text: str, keys: Collection[str]) -> Front:
    """Take a Markdown text apart; `keys` are those that mean something to the caller.

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
    where, doubled = _key_lines(path, head, keys)
    values, slack = None if doubled else _simple(head), None
    if values is None:
        values, slack = _loaded(path, head, keys, doubled=doubled)
    where = {key: line for key, line in where.items() if key in values}
    return Front(values, body, where, "\n".join(head), slack)


def _loaded(
    path: str, head: list[str], keys: Collection[str], *, doubled: bool
) -> tuple[dict[str, Value], ConfigError | None]:
    """Read what the line reader does not know: as YAML, or else by the known keys alone."""
    wrong = ConfigError(path, "a key stands twice in the front matter", line=2)
    if not doubled:
        try:
            return _yaml(path, head), None
        except ConfigError as error:
            wrong = error
    values = _loose(head, keys)
    astray = any(re.match(rf"\s+['\"]?(?:{'|'.join(_GUARDS)})['\"]?\s*:", line) for line in head)
    if not values or astray or any(key in values for key in _NESTED):
        raise wrong
    return values, wrong


def _key_lines(path: str, head: list[str], keys: Collection[str]) -> tuple[dict[str, int], bool]:
    """Find where each key stands; also whether one that means nothing stands twice."""
    where: dict[str, int] = {}
    doubled = False
    for number, line in enumerate(head, start=2):
        if match := re.match(_KEY, line):
            if match[1] in where and match[1] in keys:
                why = f"key {match[1]!r} stands twice in the front matter; remove one"
                raise ConfigError(path, why, line=number)
            doubled = doubled or match[1] in where
            where.setdefault(match[1], number)
    return where, doubled


def _loose(head: list[str], keys: Collection[str]) -> dict[str, Value]:
    """Read the known keys; whatever stands between two of them belongs to the first."""
    lines: dict[str, list[str]] = {}
    key = ""
    for line in head:
        match = re.match(_KEY, line)
        if match and (match[1] in keys or key not in _LONG):
            key = match[1]
            lines[key] = [(match[2] or "").strip()]
        elif key:
            lines[key].append(line.strip())
    return {key: _loose_value(texts) for key, texts in lines.items() if key in keys}


def _loose_value(texts: list[str]) -> Value:
    first, *rest = texts
    items = [match[1].strip() for line in rest if (match := re.match(_ITEM, line))]
    if not first and items:
        return tuple(_scalar(item) or item for item in items)
    if first in ("|", ">", "|-", ">-", "|+", ">+"):
        first = ""
    text = "\n".join((first, *rest)).strip()
    value = _value(text) if "\n" not in text else None
    if value is None and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text if value is None else value


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
            value = _value(match[2] or "") if key not in _TEXTS else _hint(match[2] or "")
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


def _hint(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text[:1] in ("'", '"') and text[-1] == text[0] else text


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
        # The base loader makes text of every scalar and runs nothing; in C it is ten times faster.
        loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        loaded: object = yaml.load("\n".join(head), Loader=loader)  # noqa: S506 # see above
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
