"""How a member that waits for mail learns that some has come.

A datagram of one byte says: look. It says nothing else and may be lost: who waits looks every
second anyway.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from prong.errors import NotPossibleNow
from prong.mail.socket_folder import BELL, new_socket_path, socket_paths
from prong.system.user_socket import open_user_socket

LOOK = 1.0
"""Seconds after which one looks without being rung."""


def ring(folder: Path, member: str) -> None:
    """Wake a member that waits; nothing happens if none does."""
    # Most mail is sent to who is at work, and at no bell.
    paths = socket_paths(folder, member, BELL)
    if not (there := [path for path in paths if os.access(path, os.F_OK)]):
        return
    with open_user_socket(socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in there:
            # Full is as good as rung; a dead or missing one is nobody's.
            with suppress(OSError):
                sender.sendto(b"!", os.fspath(path))


class Doorbell:
    """What one member waits at, for the length of a block."""

    def __init__(self, folder: Path, member: str) -> None:
        """Name the folder of the team, and the member that will wait."""
        self._folder = folder
        self._member = member
        self._socket: socket.socket | None = None
        self._path: Path | None = None
        self._inode = 0
        self.fault = ""
        """Why it cannot be rung, if so; waiting then only waits."""

    async def __aenter__(self) -> Self:
        """Make the socket, in place of one that a killed process has left."""
        try:
            listener = open_user_socket(socket.SOCK_DGRAM)
        except OSError as error:
            self.fault = str(error)
            return self
        listener.setblocking(False)
        try:
            path = new_socket_path(self._folder, self._member, BELL)
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            path.chmod(0o600)
            self._inode = path.lstat().st_ino
        except (OSError, NotPossibleNow) as error:
            listener.close()
            self.fault = str(error)
        else:
            self._socket, self._path = listener, path
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the socket, and remove it if it is still the one."""
        if self._socket is None or self._path is None:
            return
        anyio.notify_closing(self._socket)
        self._socket.close()
        self._socket = None
        with suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                os.unlink(self._path)  # noqa: PTH108 - a single call, nothing to wait for

    async def wait(self, timeout: float = LOOK) -> bool:  # noqa: ASYNC109 - it is no failure
        """Wait until it is rung, or for so long; gives whether it was rung."""
        listener = self._socket
        if listener is None:
            await anyio.sleep(timeout)
            return False
        with anyio.move_on_after(timeout):
            await anyio.wait_readable(listener)
            with suppress(OSError):
                while listener.recv(16):
                    pass
            return True
        return False
