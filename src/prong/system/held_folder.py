"""A folder that stays the same one for as long as it is held.

What is in it is reached by its name alone, and no link is followed: whoever puts another folder in
its place meanwhile changes nothing. Where the system opens files relative to a folder that is what
is done; Windows lets nobody rename or replace a folder that is held, nor those above it.
"""

from __future__ import annotations

import errno
import os
import sys

from prong.closable import Closable
from prong.system.descriptor import is_link, open_unlinked, sync_folder
from prong.system.file_lock import try_lock

if sys.platform == "win32":
    from prong.system import windows_call

    class HeldFolder(Closable):
        """A folder, held by a handle."""

        def __init__(self, path: str, *, follow: bool = False) -> None:
            """Hold it; raises OSError, with ENOTDIR for a link that is not to be followed."""
            self._path = path = os.path.realpath(path) if follow else path
            self._handle = windows_call.hold_folder(path)
            self._lock = -1
            try:
                found = os.lstat(path)
                if is_link(found) or not found.st_mode & 0o040000:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            except OSError:
                self.close()
                raise

        def close(self) -> None:
            """Let go of it, and of the lock on it."""
            lock, self._lock = self._lock, -1
            if lock >= 0:
                os.close(lock)
            handle, self._handle = self._handle, 0
            if handle:
                windows_call.release(handle)

        def enter(self, name: str) -> HeldFolder:
            """Hold a folder in it; raises OSError, also if that is a link."""
            return HeldFolder(self._at(name))

        def make(self, name: str, mode: int = 0o777) -> None:
            """Make a folder in it; raises OSError."""
            os.mkdir(self._at(name), mode)  # noqa: PTH102 - strings throughout

        def open(self, name: str, flags: int, mode: int = 0o600) -> int:
            """Open a file in it that is no link; raises OSError."""
            return open_unlinked(self._at(name), flags, mode)

        def find(self, name: str) -> os.stat_result:
            """Say what is there, links not followed; raises OSError."""
            return os.lstat(self._at(name))

        def replace(self, old: str, new: str) -> None:
            """Put a file of it in the place of another; raises OSError."""
            os.replace(self._at(old), self._at(new))  # noqa: PTH105 - strings throughout

        def remove(self, name: str) -> None:
            """Remove a file of it; raises OSError."""
            os.unlink(self._at(name))  # noqa: PTH108 - strings throughout

        def sync(self) -> None:
            """Make the names in it survive a loss of power."""
            sync_folder(self._path)

        def try_lock(self) -> bool:
            """Take the lock on it if nobody holds it: on a file in it, as folders have none."""
            if self._lock < 0:
                self._lock = self.open(".lock", os.O_RDWR | os.O_CREAT)
            return try_lock(self._lock)

        def _at(self, name: str) -> str:
            return f"{self._path}/{name}"

else:
    _HOLD = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    _WARY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

    class HeldFolder(Closable):
        """A folder, held by its descriptor."""

        def __init__(self, path: str, *, follow: bool = False, above: int | None = None) -> None:
            """Hold it; raises OSError, with ENOTDIR for a link that is not to be followed."""
            flags = _HOLD if follow else _HOLD | os.O_NOFOLLOW
            self._fd = os.open(path, flags, dir_fd=above)

        def close(self) -> None:
            """Let go of it, and of the lock on it."""
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                os.close(fd)

        def enter(self, name: str) -> HeldFolder:
            """Hold a folder in it; raises OSError, also if that is a link."""
            return HeldFolder(name, above=self._fd)

        def make(self, name: str, mode: int = 0o777) -> None:
            """Make a folder in it; raises OSError."""
            os.mkdir(name, mode, dir_fd=self._fd)

        def open(self, name: str, flags: int, mode: int = 0o600) -> int:
            """Open a file in it that is no link; raises OSError."""
            return os.open(name, flags | _WARY, mode, dir_fd=self._fd)

        def find(self, name: str) -> os.stat_result:
            """Say what is there, links not followed; raises OSError."""
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)

        def replace(self, old: str, new: str) -> None:
            """Put a file of it in the place of another; raises OSError."""
            os.replace(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

        def remove(self, name: str) -> None:
            """Remove a file of it; raises OSError."""
            os.unlink(name, dir_fd=self._fd)

        def sync(self) -> None:
            """Make the names in it survive a loss of power; raises OSError."""
            os.fsync(self._fd)

        def try_lock(self) -> bool:
            """Take the lock on it if nobody holds it."""
            return try_lock(self._fd)
