"""Lists the files of a folder that may be anybody's: a link to `/` must not be walked.

A list ends after so many names and so many levels, whatever it finds there, and says that it did.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from prong.errors import ConfigError
from prong.system.path_form import real_path

MOST = 10_000
"""Names that are looked at below one folder."""
DEEPEST = 8
"""Levels that are looked at."""


_NAMED = 5
"""Files that are named where many have the same fault."""


def name_some(texts: Sequence[str]) -> str:
    """Name a few of many in one line, and say how many more there are."""
    more = len(texts) - _NAMED
    return ", ".join((*texts[:_NAMED], *([f"and {more} more"] if more > 0 else [])))


class Listing(msgspec.Struct, frozen=True):
    """What lies in a folder, that of each folder before what is further down, by name."""

    paths: tuple[Path, ...] = ()
    problems: tuple[ConfigError, ...] = ()
    """Why some or all are missing."""


def list_files(folder: Path, *, suffix: str, within: str | None = None) -> Listing:
    """List the files below a folder that end so; one that leads out of `within` is left out."""
    walk = _FolderWalk(DEEPEST)
    return _list(folder, within, walk, lambda name: name.endswith(suffix))


def list_entries(folder: Path, *, within: str | None = None) -> Listing:
    """List what lies in a folder itself; one that leads out of `within` is left out."""
    return _list(folder, within, _FolderWalk(1), lambda _: True)


def lies_in(path: Path, folder: str) -> bool:
    """Whether a path, links followed, is below a folder."""
    return Path(real_path(path)).is_relative_to(real_path(folder))


def outside(path: Path) -> ConfigError:
    """Say that a path of a folder that is not trusted is not followed out of it."""
    why = "leads out of the project; left out, because the folder is not trusted"
    return ConfigError(path, f"{why}: run 'prong trust' in it to let it count")


def _list(
    folder: Path, within: str | None, walk: _FolderWalk, wanted: Callable[[str], bool]
) -> Listing:
    if within is not None and not lies_in(folder, within):
        return Listing(problems=(outside(folder),))
    paths = tuple(Path(entry.path) for entry in walk.below(str(folder)) if wanted(entry.name))
    if not walk.cut:
        return Listing(paths)
    why = f"holds more than {MOST:,} names or {DEEPEST} levels; the rest is left out"
    return Listing(paths, (ConfigError(folder, why),))


class _FolderWalk:
    """One way through a folder; `cut` says that not all was looked at."""

    def __init__(self, levels: int) -> None:
        self.cut = False
        self._levels = levels
        self._left = MOST

    def below(self, folder: str, level: int = 1) -> Iterator[os.DirEntry[str]]:
        entries = self._entries(folder)
        if self._levels == 1:
            yield from entries
            return
        yield from (entry for entry in entries if not entry.is_dir(follow_symlinks=False))
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if level < self._levels:
                    yield from self.below(entry.path, level + 1)
                else:
                    self.cut = True

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as scan:
                entries = list(islice(scan, self._left + 1))
        except OSError:
            return []
        self.cut = self.cut or len(entries) > self._left
        entries = entries[: self._left]
        self._left -= len(entries)
        return sorted(entries, key=lambda entry: entry.name)
