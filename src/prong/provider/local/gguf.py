"""The header of a GGUF file: enough to know a model before an engine is started for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

from prong.errors import NoSuchModel
from prong.foreign_number import is_number

_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS = 4_096
_LONGEST = 1 << 24
_BELONGS_TO_VOCABULARY = "tokenizer."


class Header:
    """The figures of a model file."""

    def __init__(self, path: Path) -> None:
        """Read the header.

        Raises NoSuchModel if there is no such file, or if it is not a GGUF file.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                self._values = _read(file)
        except OSError as error:
            why = error.strerror or error
            raise NoSuchModel(f"the model file {path} cannot be read: {why}") from error
        except (ValueError, struct.error, KeyError) as error:
            raise NoSuchModel(f"{path} is not a GGUF file: {error}; is it whole?") from error

    def number(self, name: str) -> int:
        """Give a figure of the architecture; 0 if the file does not say."""
        value = self._values.get(f"{self.architecture}.{name}", 0)
        return int(value) if is_number(value) else 0

    @property
    def architecture(self) -> str:
        """The name of the architecture."""
        return str(self._values.get("general.architecture", ""))

    @property
    def context(self) -> int:
        """How many tokens the model was trained to read."""
        return self.number("context_length")

    @property
    def cell_bytes(self) -> int:
        """How many bytes of cache one token takes, at two bytes for a number."""
        heads = self.number("attention.head_count") or 1
        kv_heads = self.number("attention.head_count_kv") or heads
        width = self.number("embedding_length") // heads
        keys = self.number("attention.key_length") or width
        values = self.number("attention.value_length") or width
        return self.number("block_count") * kv_heads * (keys + values) * 2

    def window(self, cache_mb: int) -> int:
        """How many tokens it can read with a cache of that size."""
        cells = cache_mb * 1024 * 1024 // (self.cell_bytes or 1) // 256 * 256
        return min(self.context or cells, cells)


def _read(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version, _, count = struct.unpack("<IQQ", file.read(20))
    if version not in {2, 3} or count > _MOST_KEYS:
        raise ValueError(f"version {version} with {count} keys is not understood")
    values: dict[str, Any] = {}
    for _ in range(count):
        key = _string(file)
        if key.startswith(_BELONGS_TO_VOCABULARY):
            # The vocabulary is large, and nothing after it is of interest here.
            break
        values[key] = _value(file, *struct.unpack("<I", file.read(4)))
    return values


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if count > _LONGEST or inner == _ARRAY:
            raise ValueError("it has an array that is too large")
        return [_value(file, inner) for _ in range(count)]
    form = "<" + _SIZES[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _string(file: BinaryIO) -> str:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _LONGEST:
        raise ValueError("it has a text that is too long")
    data = file.read(size)
    if len(data) != size:
        raise ValueError("it ends early")
    return data.decode("utf-8", "replace")
