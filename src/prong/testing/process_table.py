"""What runs on this machine at one moment, as Linux tells it, and an end for some of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec


class ProcessTable(msgspec.Struct, frozen=True):
    """All processes by their numbers."""

    lines: dict[int, bytes]
    """Their words, each with a zero byte behind it."""
    parents: dict[int, int]
    """Who has started them."""
    folders: dict[int, bytes]
    """Where they are; of some that is not known."""

    def holding(self, mark: bytes) -> set[int]:
        """Give those that have a mark in their words."""
        return {pid for pid, words in self.lines.items() if mark in words}

    def knowing(self, folder: Path) -> set[int]:
        """Give those that have a folder in their words, or are in it."""
        mark = os.fsencode(folder)
        return self.holding(mark) | {pid for pid, cwd in self.folders.items() if mark in cwd}

    def below(self, first: Iterable[int]) -> set[int]:
        """Give these, and all that they have started."""
        known = set(first)
        return {pid for pid in self.lines if self._descends(pid, known)}

    def _descends(self, pid: int, first: set[int]) -> bool:
        while pid in self.parents and pid not in first:
            pid = self.parents[pid]
        return pid in first


def read_processes() -> ProcessTable:
    """Look at what runs now."""
    lines: dict[int, bytes] = {}
    parents: dict[int, int] = {}
    folders: dict[int, bytes] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes()
            stat = (place / "stat").read_bytes().rpartition(b")")[2].split()
            lines[int(place.name)], parents[int(place.name)] = words, int(stat[1])
            folders[int(place.name)] = os.fsencode((place / "cwd").readlink())
    return ProcessTable(lines, parents, folders)


def kill_processes(found: Iterable[int]) -> None:
    """End processes at once; some may have ended by themselves."""
    assert sys.platform != "win32"
    _signal(found, signal.SIGKILL)


def stop_processes(found: Iterable[int]) -> None:
    """Let processes do nothing until they may go on."""
    assert sys.platform != "win32"
    _signal(found, signal.SIGSTOP)


def continue_processes(found: Iterable[int]) -> None:
    """Let processes go on that were stopped."""
    assert sys.platform != "win32"
    _signal(found, signal.SIGCONT)


def _signal(found: Iterable[int], number: int) -> None:
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
