"""Files by their numbers: opened for this process alone, read at a place, brought to the disk.

Windows has no way to open a file only if it is no link. There a link is looked for before, and
what was opened is held against what was seen.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

if sys.platform == "win32":
    import errno
    import stat

    from prong.system import windows_call

    _REPARSE = stat.FILE_ATTRIBUTE_REPARSE_POINT

    def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
        """Open a file that no process inherits, without changing line ends; raises OSError."""
        del mode  # A new file has the rights of its folder.
        return windows_call.open_shared(path, flags)

    def open_unlinked(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
        """Open a file that is no link, waiting for nobody.

        Raises OSError, with ELOOP for a link.
        """
        seen = None
        with suppress(FileNotFoundError):
            seen = os.lstat(path)
        if seen is not None and is_link(seen):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        fd = open_own(path, flags, mode)
        there = os.lstat(path)
        if is_link(there) or there.st_ino != os.fstat(fd).st_ino:
            os.close(fd)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        return fd

    def is_link(found: os.stat_result) -> bool:
        """Whether what `lstat` has found leads elsewhere: a link, a junction, a mounted folder."""
        return stat.S_ISLNK(found.st_mode) or bool(
            getattr(found, "st_file_attributes", 0) & _REPARSE
        )

    def read_at(fd: int, size: int, offset: int) -> bytes:
        """Read bytes at a place; the file's own position stays as it is."""
        place = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, offset, os.SEEK_SET)
        try:
            return os.read(fd, size)
        finally:
            os.lseek(fd, place, os.SEEK_SET)

    def sync(fd: int) -> None:
        """Wait until what was written would survive a loss of power; raises OSError."""
        os.fsync(fd)

    def sync_data(fd: int) -> None:
        """Do the same, but for what is known of a file beside its bytes; raises OSError."""
        os.fsync(fd)

    def sync_folder(path: str | os.PathLike[str]) -> None:
        """Make the names in a folder survive a loss of power: Windows does so by itself."""
        del path

    def is_open_to_others(found: os.stat_result) -> bool:
        """Whether others may read or write it: on Windows a profile's folders are its owner's."""
        del found
        return False

    def copy_rights(fd: int, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Give a file the rights of another: here they are those of the folder."""
        del fd, mode, owner

    def is_hung_up(fd: int) -> bool:
        """Whether nobody is left who could say something: not to be known here."""
        del fd
        return False

    def make_nonblocking(fd: int) -> None:
        """Have reading and writing return at once; raises OSError, as no such file is known."""
        raise OSError(errno.ENOTSUP, "pipes without waiting are not to be had on Windows", fd)

else:
    _WARY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

    def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
        """Open a file that no process inherits, without changing line ends; raises OSError."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def open_unlinked(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
        """Open a file that is no link, waiting for nobody.

        Raises OSError, with ELOOP for a link.
        """
        return os.open(path, flags | _WARY, mode)

    def is_link(found: os.stat_result) -> bool:
        """Whether what `lstat` has found leads elsewhere: a link, a junction, a mounted folder."""
        return found.st_mode & 0o170000 == 0o120000

    def read_at(fd: int, size: int, offset: int) -> bytes:
        """Read bytes at a place; the file's own position stays as it is."""
        return os.pread(fd, size, offset)

    def sync(fd: int) -> None:
        """Wait until what was written would survive a loss of power; raises OSError."""
        if sys.platform == "darwin":
            import fcntl

            # There `fsync` leaves the bytes with the drive, which may lose them. Not every file
            # system knows the stronger word.
            with suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
                return
        os.fsync(fd)

    def sync_data(fd: int) -> None:
        """Do the same, but for what is known of a file beside its bytes; raises OSError."""
        if sys.platform == "darwin":
            sync(fd)
        else:
            os.fdatasync(fd)

    def sync_folder(path: str | os.PathLike[str]) -> None:
        """Make the names in a folder survive a loss of power."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Some file systems cannot, and nothing would be better if this failed.
            with suppress(OSError):
                os.fsync(fd)
        finally:
            os.close(fd)

    def is_open_to_others(found: os.stat_result) -> bool:
        """Whether others may read or write it."""
        return bool(found.st_mode & 0o077)

    def copy_rights(fd: int, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Give a file the rights of another, and the owner if that is allowed."""
        if owner is not None:
            # The owner first: changing it may clear permission bits.
            with suppress(PermissionError):
                os.fchown(fd, *owner)
        os.fchmod(fd, mode & 0o7777)

    def is_hung_up(fd: int) -> bool:
        """Whether nobody is left who could say something, whatever was said and not read yet."""
        import select

        ends = select.poll()
        ends.register(fd, select.POLLHUP)
        return any(event & select.POLLHUP for _, event in ends.poll(0))

    def make_nonblocking(fd: int) -> None:
        """Have reading and writing return at once; raises OSError."""
        os.set_blocking(fd, False)
