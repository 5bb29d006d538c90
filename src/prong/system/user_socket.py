"""Sockets that are files of the user's: only where the system has them."""

from __future__ import annotations

import socket
import sys

if sys.platform == "win32":
    import errno

    HAS_USER_SOCKETS = False
    """Whether processes of one user can meet at a file."""

    def open_user_socket(kind: int) -> socket.socket:
        """Open a socket, not bound yet; raises OSError, as there are none."""
        del kind
        raise OSError(errno.EAFNOSUPPORT, "there are no Unix sockets for Python on Windows")

else:
    HAS_USER_SOCKETS = True
    """Whether processes of one user can meet at a file."""

    def open_user_socket(kind: int) -> socket.socket:
        """Open a socket, not bound yet; raises OSError."""
        return socket.socket(socket.AF_UNIX, kind)
