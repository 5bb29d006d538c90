"""Files that a user asks for: a trace, a page, a transcript. Their owner alone reads them."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from prong.errors import NotPossibleNow


def write_owned(path: Path, data: bytes) -> None:
    """Write a new file for its owner alone, whole or not at all; none is ever replaced.

    Raises NotPossibleNow if there is one, or it cannot be written.
    """
    if not _is_written(path, data):
        # A folder, a device or a link is nothing to remove for an export.
        plain = path.is_file() and not path.is_symlink()
        more = ", or remove that one first" if plain else ""
        raise NotPossibleNow(f"{path} is there already; name another file{more}")


def write_numbered(path: Path, data: bytes) -> Path:
    """Write a new file likewise, with a number in its name if there is one; gives where it is.

    For names that nobody gave. Raises NotPossibleNow if it cannot be written.
    """
    tries = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    there = path
    while not _is_written(there, data):
        there = next(tries)
    return there


def _is_written(path: Path, data: bytes) -> bool:
    """Write a file; False if there is one.

    Raises NotPossibleNow if it cannot be written.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except BaseException as error:
        # A piece of it would be in the way of the next try.
        with suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise
    return True


def _unwritable(path: Path, error: OSError) -> NotPossibleNow:
    return NotPossibleNow(f"{path} cannot be written ({error.strerror}); name another file")
