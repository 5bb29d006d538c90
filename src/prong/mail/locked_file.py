"""Files of lines that many processes append to.

A line is one write at the end of the file, under the kernel's lock on it. Whoever is killed in the
midst of a write leaves a torn line without a newline; the next writer adds the newline first, so
that the torn line stands alone. What was written is synced after the lock is let go: writers
that come close together share one sync.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from prong.errors import JournalFull, NotPossibleNow
from prong.journal.lock import remedy
from prong.system import descriptor
from prong.system.descriptor import open_own, open_unlinked, read_at, sync_data, sync_folder
from prong.system.file_lock import try_lock
from prong.system.held_folder import HeldFolder
from prong.system.identity import user_id

COARSE_CLOCK = 100_000_000
"""Nanoseconds for which a file that took the place of another may look the same as that."""

PATIENCE = 10.0
"""Seconds to wait for a lock that is held for microseconds by whoever is not stopped."""


def open_file(path: Path, flags: int) -> int:
    """Open a file, which must be our own, and neither a link nor a pipe.

    Raises FileNotFoundError, and NotPossibleNow if it is something else.
    """
    try:
        fd = open_unlinked(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise NotPossibleNow(f"{path} cannot be used: {why}; remove it or mend it") from error
    found = os.fstat(fd)
    fits = stat.S_ISREG(found.st_mode)
    if fits and found.st_uid == user_id():
        return fd
    os.close(fd)
    why = "it is another user's" if fits else "it is no ordinary file"
    raise NotPossibleNow(f"{path} cannot be used: {why}; remove it")


@contextmanager
def locked(path: Path) -> Generator[int]:
    """Hold a file open to append to, with no other writer beside.

    Raises FileNotFoundError, and NotPossibleNow if it cannot be had.
    """
    fd = _open_locked(path, os.O_RDWR | os.O_APPEND)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def locked_folder(path: Path) -> Generator[None]:
    """Hold the lock on a folder; raises FileNotFoundError, and NotPossibleNow."""
    try:
        folder = HeldFolder(str(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotPossibleNow(f"{path} cannot be used: {error.strerror}; mend it") from error
    with folder:
        _lock(folder.try_lock, path)
        yield


def _open_locked(path: Path, flags: int) -> int:
    while True:
        fd = open_file(path, flags)
        try:
            _lock(partial(try_lock, fd), path)
            # It may have been put aside for a new one while this waited.
            if _is_at(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _lock(take: Callable[[], bool], path: Path) -> None:
    until, pause = time.monotonic() + PATIENCE, 0.00005
    while not take():
        if time.monotonic() > until:
            raise NotPossibleNow(
                f"{path} has been locked by another process for {PATIENCE:.0f} seconds; "
                f"look for one that is stopped (ps, state T) and continue or end it"
            )
        time.sleep(pause)
        pause = min(pause * 2, 0.002)


def append(fd: int, path: Path, line: bytes) -> None:
    """Add a line to a file that is locked, on a line of its own, whole or not at all.

    Raises JournalFull.
    """
    size = os.fstat(fd).st_size
    data = line if size == 0 or read_at(fd, 1, size - 1) == b"\n" else b"\n" + line
    try:
        _write(fd, data)
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise JournalFull(f"{path}: nothing could be added ({error}); {remedy(error)}") from error


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    if written < len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")


def sync(fd: int, path: Path) -> None:
    """Wait until what was written would survive a loss of power; raises JournalFull."""
    try:
        sync_data(fd)
    except OSError as error:
        raise JournalFull(
            f"{path}: it is uncertain whether the last line is stored ({error}); {remedy(error)}"
        ) from error


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place of another, at once and for its owner alone; raises JournalFull."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        fd = open_own(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                descriptor.sync(file.fileno())
            new.replace(path)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise
    except OSError as error:
        raise JournalFull(f"{path} cannot be written ({error}); {remedy(error)}") from error
    sync_folder(path.parent)


def _is_at(fd: int, path: Path) -> bool:
    found = os.fstat(fd)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
