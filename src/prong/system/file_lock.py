"""The kernel's lock on an open file: one holder at a time, gone with the process.

On Windows a lock keeps others from reading what it covers. It is therefore on one byte that lies
behind all that a file can hold.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import time

    from prong.system import windows_call

    def try_lock(fd: int) -> bool:
        """Take the lock if nobody holds it; gives whether it was taken. Raises OSError."""
        return windows_call.lock_file(fd)

    def wait_lock(fd: int) -> None:
        """Take the lock, waiting for whoever holds it; raises OSError."""
        while not try_lock(fd):
            time.sleep(0.002)

    def unlock(fd: int) -> None:
        """Give the lock back; raises OSError."""
        windows_call.unlock_file(fd)

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Take the lock if nobody holds it; gives whether it was taken. Raises OSError."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_lock(fd: int) -> None:
        """Take the lock, waiting for whoever holds it; raises OSError."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlock(fd: int) -> None:
        """Give the lock back."""
        fcntl.flock(fd, fcntl.LOCK_UN)
