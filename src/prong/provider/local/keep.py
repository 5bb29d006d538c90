"""Computed prefixes on disk, for the next process that wants them.

Reading a state back takes milliseconds where computing it takes seconds, so every prefix that is
long enough is worth its file. Files belong to one model file and one release of the engine; the
folder is held below a limit, and the file that was used longest ago goes first.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from prong.provider.local.layout import RELEASE
from prong.provider.local.token_cache import Strand, shared

_LEAST = 512
"""Tokens below which computing anew is quick enough."""
_STALE = 3600.0
"""Seconds after which nobody writes any more to a file to which nothing was written."""


class StoredPrefix(msgspec.Struct, frozen=True):
    """A prefix on disk that begins like a prompt."""

    path: Path
    tokens: list[int]
    common: int


class Keep:
    """The folder of one model's prefixes."""

    def __init__(self, folder: Path, model: Path, limit_mb: int) -> None:
        """Use a folder that belongs to nobody else."""
        stat = model.stat()
        name = f"{RELEASE}:{model.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
        self._folder = folder / hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
        self._limit = limit_mb * 1024 * 1024
        self._index: dict[Path, list[int]] = {}
        self.note = ""
        """Why nothing can be kept, if so; the engine does without."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._look()
        except OSError as error:
            self.note = (
                f"what is computed cannot be kept in {folder}: {error.strerror or error}; "
                "make it a folder that can be written, or set PRONG_LOCAL_DISK_MB to 0"
            )

    def _look(self) -> None:
        for path in self._folder.glob("*.part"):
            # Of one that is being written the time moves on; an engine that was killed left others.
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _STALE:
                    path.unlink()
        for path in self._folder.glob("*.tokens"):
            state = path.with_suffix(".state")
            # Another process of the same model may be deleting what it used longest ago.
            with suppress(FileNotFoundError):
                if state.is_file():
                    self._index[state] = _read(path)

    def find(self, tokens: Sequence[int], least: int) -> StoredPrefix | None:
        """Find the file with the longest common prefix, if it has at least so many tokens."""
        best: StoredPrefix | None = None
        for path, held in self._index.items():
            common = shared(held, tokens)
            if common >= max(least, best.common + 1 if best else 0):
                best = StoredPrefix(path, held, common)
        return best

    def load(self, kept: StoredPrefix, native: Any, context: Any, sequence: int) -> bool:
        """Read a state into a sequence; false if the file is not what it should be."""
        size = len(kept.tokens)
        tokens = (ctypes.c_int32 * size)()
        count = ctypes.c_size_t()
        read = native.state_seq_load_file(
            context, os.fsencode(kept.path), sequence, tokens, size, ctypes.byref(count)
        )
        if read and count.value == size and list(tokens) == kept.tokens:
            with suppress(OSError):
                os.utime(kept.path)
            return True
        self._remove(kept.path)
        return False

    def save(self, strand: Strand, native: Any, context: Any) -> None:
        """Write a sequence, unless it is short or there already."""
        held = strand.tokens[: strand.held]
        if self.note or len(held) < _LEAST or self.find(held, len(held)) is not None:
            return
        if native.state_seq_get_size(context, strand.id) > self._limit:
            return
        data = (ctypes.c_int32 * len(held))(*held)
        digest = hashlib.blake2b(bytes(data), digest_size=16).hexdigest()
        path = self._folder / f"{digest}.state"
        # Two processes may store the same at once, each in a file of its own until it is whole.
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            if native.state_seq_save_file(context, os.fsencode(part), strand.id, data, len(held)):
                path.with_suffix(".tokens").write_bytes(bytes(data))
                part.replace(path)
                self._index[path] = held
                self._trim()
        except OSError:
            # A full disk costs time later; it must not cost the replies that are under way.
            self._remove(path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _trim(self) -> None:
        """Delete what was used longest ago until the folder is below its limit."""
        self._look()
        ages = {path: stat for path in self._index if (stat := _stat(path)) is not None}
        size = sum(stat.st_size for stat in ages.values())
        for path in sorted(ages, key=lambda one: ages[one].st_mtime_ns):
            if size <= self._limit:
                return
            size -= ages[path].st_size
            self._remove(path)

    def _remove(self, path: Path) -> None:
        self._index.pop(path, None)
        with suppress(OSError):
            path.unlink(missing_ok=True)
            path.with_suffix(".tokens").unlink(missing_ok=True)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _read(path: Path) -> list[int]:
    data = path.read_bytes()
    return list((ctypes.c_int32 * (len(data) // 4)).from_buffer_copy(data))
