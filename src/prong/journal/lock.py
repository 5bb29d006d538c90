"""One writer at a time: the kernel's lock on the journal itself, gone with the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from prong.errors import JournalBusy, JournalError, JournalFull, NotPossibleNow
from prong.host import make_private
from prong.journal.record import FIRST_LINE, is_unused
from prong.system.descriptor import open_own, read_at
from prong.system.file_lock import try_lock
from prong.system.identity import presence

_FLAGS = os.O_RDWR | os.O_APPEND


def create_file(path: Path) -> int:
    """Create a journal's file, for its owner alone, and open it to append."""
    try:
        make_private(path.parent)
        return open_own(path, _FLAGS | os.O_CREAT | os.O_EXCL)
    except FileExistsError as error:
        if (fd := _take_unused(path)) is not None:
            return fd
        raise NotPossibleNow(
            f"there is a session {path.stem} already; continue it with --resume {path.stem}"
        ) from error
    except OSError as error:
        raise JournalFull(
            f"{path} cannot be created ({error.strerror}); {remedy(error)}, "
            f"or set PRONG_HOME to a folder that can be written"
        ) from error


def remedy(error: OSError) -> str:
    """Say what helps against a file that cannot be made or written."""
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return "raise the limit of open files (ulimit -n) or run fewer agents at once"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "check who may write there"
        case _:
            return "free some space"


def _take_unused(path: Path) -> int | None:
    """Open a file in which a killed process has not stored a single line, emptied and locked."""
    try:
        fd = open_own(path, _FLAGS)
    except OSError:
        return None
    try:
        if try_lock(fd) and is_unused(read_at(fd, FIRST_LINE, 0)):
            os.ftruncate(fd, 0)
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def holder(path: Path) -> Path:
    """Name the file that tells who has a journal open."""
    return path.with_suffix(".lock")


def lock(fd: int, path: Path) -> None:
    """Become the one writer of a journal, or say who is."""
    try:
        taken = try_lock(fd)
    except OSError as error:
        raise JournalError(f"{path} cannot be locked ({error.strerror})") from error
    if not taken:
        raise JournalBusy(
            f"session {path.stem} is open in another process{_whose(path)}; "
            f"close it there, or go on in a copy with --fork-session"
        )
    # The lock is the kernel's; this file only tells others whom to look for.
    with suppress(OSError):
        holder(path).write_text(f"{os.getpid()}\n")


@contextmanager
def held(path: Path) -> Generator[bool, None, None]:
    """Keep writers away from a journal while it is removed; False if there is one."""
    try:
        fd = open_own(path, os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        if not _has_taken(fd):
            yield False
            return
        yield True
        if not path.exists():
            holder(path).unlink(missing_ok=True)
    finally:
        os.close(fd)


def _has_taken(fd: int) -> bool:
    try:
        return try_lock(fd)
    except OSError:
        return False


def has_writer(path: Path) -> bool:
    """Say whether the process that last took a journal's lock lives.

    A look only: to try the lock itself could keep a session from opening.
    """
    return bool(_whose(path))


def _whose(path: Path) -> str:
    try:
        pid = int(holder(path).read_text())
    except (OSError, ValueError):
        return ""
    match presence(pid):
        case "gone":
            return ""
        case "there":
            return f" (pid {pid})"
        case "another's":
            return " of another user"
