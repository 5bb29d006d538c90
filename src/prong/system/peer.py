"""Who is at the other end of a local socket, as the system knows it: nothing that is claimed."""

from __future__ import annotations

import socket
import struct
import sys

import anyio.abc
import msgspec

from prong.system.identity import user_id

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
"""What macOS calls them; Python has no names for them."""


class PeerProcess(msgspec.Struct, frozen=True):
    """A process at the other end."""

    pid: int
    uid: int

    @property
    def is_ours(self) -> bool:
        """Whether it runs under the user's own id."""
        return self.uid == user_id()


def peer_process(stream: anyio.abc.SocketStream) -> PeerProcess | None:
    """Give the process that connected, or listens; None where the system does not say."""
    connected: socket.socket = stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - no database's
    try:
        if sys.platform == "linux":
            found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("3i", found)
            return PeerProcess(pid, uid)
        if sys.platform == "darwin":
            (pid,) = struct.unpack("i", connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
            _, uid = struct.unpack_from("2I", connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))
            return PeerProcess(pid, uid)
    except OSError:
        pass
    return None
