"""A folder of this machine for what is too large for a conversation."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prong.host.host import Storage
from prong.host.private import make_private


class LocalSink:
    """A file that grows."""

    def __init__(self, descriptor: int, path: str) -> None:
        """Write to an open file."""
        self._file = os.fdopen(descriptor, "wb")
        self._path = path

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    def write(self, data: bytes) -> None:
        """Add to it."""
        self._file.write(data)

    def close(self) -> None:
        """Let go of it; the file stays."""
        self._file.close()


class LocalStorage:
    """Files below one folder, for their owner's eyes alone; an empty path is no folder at all."""

    def __init__(self, path: str) -> None:
        """Use a folder; it is made when something is first kept."""
        self._path = path and os.path.abspath(path)  # noqa: PTH100 - strings throughout

    @property
    def path(self) -> str:
        """Where it is; empty if there is none."""
        return self._path

    def write(self, name: str, data: bytes) -> str:
        """Keep a file under a name, in place of one that was there; gives its path."""
        path = self._folder() / name
        make_private(path.parent)
        path.write_bytes(data)
        return str(path)

    def create(self, prefix: str) -> LocalSink:
        """Begin a text file with a name of its own."""
        import tempfile

        begin = self._folder() / prefix
        make_private(begin.parent)
        return LocalSink(*tempfile.mkstemp(".txt", begin.name, begin.parent))

    def _folder(self) -> Path:
        if not self._path:
            raise OSError(errno.ENOENT, "there is no folder to keep it in")
        return Path(self._path)


if TYPE_CHECKING:
    _: Storage = LocalStorage("/")
