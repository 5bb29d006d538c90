"""JSON files written by people: read tolerantly, and complained about with the line."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from prong.errors import ConfigError
from prong.foreign_json import NOT_JSON
from prong.system.path_form import real_path

PathStep: TypeAlias = str | int

_SPACE = " \t\r\n"


class Document(msgspec.Struct, frozen=True):
    """A JSON object and where it stands, so that a complaint about a value can name its line."""

    path: str
    text: str
    value: dict[str, Any]

    def problem(self, why: str, *steps: PathStep) -> ConfigError:
        """Complain about the value that these keys and positions lead to."""
        return ConfigError(self.path, why, line=line_of(self.text, steps))


def read_text(path: Path, *, limit: int = 4_000_000) -> str | ConfigError | None:
    """Read a text file; None if there is none, a complaint if it cannot be taken as text."""
    try:
        # A fifo or a device would keep start-up waiting for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return ConfigError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    if len(data) > limit:
        return ConfigError(path, f"is larger than {limit:,} bytes; left out")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return ConfigError(path, "is not UTF-8 text; left out", line=line)


def is_blocked(path: Path) -> bool:
    """Whether something is there that is no file and cannot be read as one; /dev/null is empty."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and real_path(path) != os.devnull


def read_document(path: Path) -> Document | ConfigError | None:
    """Read a JSON file that holds an object; None if there is no such file."""
    text = read_text(path)
    if text is None or isinstance(text, ConfigError):
        return text
    return parse_document(str(path), text)


def parse_document(path: str, text: str) -> Document | ConfigError:
    """Read JSON text that is to hold an object."""
    if not text.strip():
        return Document(path, text, {})
    try:
        value = msgspec.json.decode(text)
    except NOT_JSON as error:
        return _syntax_problem(path, text, error)
    if not isinstance(value, dict):
        return ConfigError(path, "must hold a JSON object, { ... }", line=1)
    return Document(path, text, value)  # pyright: ignore[reportUnknownArgumentType] # keys of a JSON object are text


def _syntax_problem(path: str, text: str, error: Exception) -> ConfigError:
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as precise:
        why = f"is not valid JSON: {precise.msg} (column {precise.colno}); correct it"
        return ConfigError(path, why, line=precise.lineno)
    except (ValueError, RecursionError):
        pass
    return ConfigError(path, f"is not valid JSON: {error}; correct it", line=1)


def line_of(text: str, steps: Sequence[PathStep]) -> int:
    """Find the line of a value in JSON text that is known to be valid."""
    place = 0
    for step in steps:
        found = _enter(text, place, step)
        if found is None:
            break
        place = found
    return text.count("\n", 0, _skip(text, place)) + 1


def _skip(text: str, place: int, extra: str = "") -> int:
    while place < len(text) and text[place] in _SPACE + extra:
        place += 1
    return place


def _enter(text: str, place: int, step: PathStep) -> int | None:
    """Go from the start of an object or list to the start of one of its values."""
    import json

    decoder = json.JSONDecoder()
    place = _skip(text, place)
    opener = text[place : place + 1]
    if opener not in ("{", "["):
        return None
    place = _skip(text, place + 1)
    position = 0
    while place < len(text) and text[place] not in "]}":
        key: PathStep = position
        if opener == "{":
            key, place = decoder.raw_decode(text, place)
            place = _skip(text, place, ":")
        if key == step:
            return place
        _, place = decoder.raw_decode(text, place)
        place = _skip(text, place, ",")
        position += 1
    return None
