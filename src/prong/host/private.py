"""Folders for one's own eyes."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, all of them for their owner alone.

    Raises OSError.
    """
    if not folder.is_dir():
        # With `parents=True` those above would be open to everybody.
        make_private(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:
            why = os.strerror(errno.ENOTDIR)
            raise NotADirectoryError(errno.ENOTDIR, why, str(folder)) from error
